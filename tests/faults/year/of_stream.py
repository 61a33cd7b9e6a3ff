"""What happens to publication and slot, and copies that somebody asks for."""

from __future__ import annotations

from tests.faults.year.year_stage import BUSY, YearStage
from tests.wait import wait_until


def operations_left_out(stage: YearStage) -> None:
    """Somebody restricts the publication, and writes."""
    stage.database.execute("ALTER PUBLICATION walbridge SET (publish = 'insert')")
    stage.database.execute("UPDATE pgbench_branches SET filler = 'unsaid'")


def publication_remade(stage: YearStage) -> None:
    stage.database.execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR ALL TABLES")


def publication_renamed(stage: YearStage) -> None:
    """Somebody tidies names up, and writes."""
    stage.database.execute("ALTER PUBLICATION walbridge RENAME TO tidied")
    stage.database.execute("UPDATE pgbench_branches SET filler = 'under another name'")


def slot_dropped(stage: YearStage) -> None:
    """Somebody needed the room."""
    stage.producer.kill()
    stage.drop_slot()
    stage.database.execute("UPDATE pgbench_branches SET filler = 'not in the stream'")


def copied_on_request(stage: YearStage) -> None:
    stage.run("copy", f"public.{BUSY}")


def all_copied_on_request(stage: YearStage) -> None:
    stage.producer.stop()
    stage.run("copy", "--all")


def slot_invalidated(stage: YearStage) -> None:
    """The producer was away for longer than the server keeps WAL for it."""
    stage.producer.kill()
    execute = stage.database.execute
    execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    execute("SELECT pg_reload_conf()")

    def is_lost() -> bool:
        execute("UPDATE pgbench_branches SET filler = 'in no segment that is kept'")
        execute("SELECT pg_switch_wal()")
        execute("CHECKPOINT")
        query = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
        return bool(stage.database.value(query, [stage.pipeline]) == "lost")

    wait_until(is_lost, "the slot to be lost")
    execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
    execute("SELECT pg_reload_conf()")
