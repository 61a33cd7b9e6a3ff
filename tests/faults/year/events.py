"""What happens to a pipeline within a year, each as a function of the stage. No event mends what it broke.

Tables are those of ``habits.py`` and of pgbench, published by FOR ALL TABLES.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from tests.faults.year.year_stage import YearStage

ANSWER_S = 60.0
BUSY = "pgbench_accounts"
"""A table that is written all the time."""


def broker_away(stage: YearStage) -> None:
    """For some seconds, in which much is written."""
    stage.kafka.kill()
    stage.pause(4)
    stage.kafka.start()


def postgres_crashes(stage: YearStage) -> None:
    stage.database.server.kill()
    stage.pause(1)
    stage.database.server.start()


def everything_dies(stage: YearStage) -> None:
    """A machine that goes down with all that is on it."""
    for kill in (stage.producer.kill, stage.job.kill, stage.kafka.kill, stage.database.server.kill):
        kill()
    stage.database.server.start()
    stage.kafka.start()


def programs_killed(stage: YearStage) -> None:
    stage.producer.kill()
    stage.job.kill()


def rolling_update(stage: YearStage) -> None:
    """The new producer is there before the old one is asked to end."""
    stage.replace_producer()


def habits(stage: YearStage) -> None:
    """Tables made, altered, renamed, dropped, as their owners do it."""
    with stage.database.connect() as connection:
        for _ in range(25):
            stage.habits.act(connection)


def large_transaction(stage: YearStage) -> None:
    stage.database.execute(
        "CREATE TABLE IF NOT EXISTS large (id bigserial PRIMARY KEY, v text);"
        "INSERT INTO large (v) SELECT repeat('x', i % 90) FROM generate_series(1, 30000) i"
    )


def year_is_closed(stage: YearStage) -> None:
    """History is emptied, accounts are written anew."""
    stage.database.execute("TRUNCATE pgbench_history")
    stage.database.execute(f"VACUUM FULL {BUSY}")


def column_added(stage: YearStage) -> None:
    number = stage.dice.randrange(10**6)
    stage.database.execute(f"ALTER TABLE {BUSY} ADD extra_{number} int DEFAULT {number % 100}")


def values_rewritten(stage: YearStage) -> None:
    stage.database.execute("ALTER TABLE pgbench_tellers ALTER filler TYPE char(84) USING upper(coalesce(filler, 'a'))")


def operations_left_out(stage: YearStage) -> None:
    """Somebody restricts the publication, and writes."""
    stage.database.execute("ALTER PUBLICATION walbridge SET (publish = 'insert')")
    stage.database.execute("UPDATE pgbench_branches SET filler = 'unsaid'")


def publication_remade(stage: YearStage) -> None:
    stage.database.execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR ALL TABLES")


def slot_dropped(stage: YearStage) -> None:
    """Somebody needed the room."""
    stage.producer.kill()
    stage.drop_slot()
    stage.database.execute("UPDATE pgbench_branches SET filler = 'not in the stream'")


def topic_deleted(stage: YearStage) -> None:
    topic, admin = stage.topic_of(BUSY), _admin(stage)  # whose futures end with it
    admin.delete_topics([topic])[topic].result(ANSWER_S)


def topic_grown(stage: YearStage) -> None:
    topic, admin = stage.topic_of(BUSY), _admin(stage)
    count = len(admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions)
    admin.create_partitions([NewPartitions(topic, count + 1)])[topic].result(ANSWER_S)


def folder_removed(stage: YearStage) -> None:
    shutil.rmtree(_folder(stage, "pgbench_tellers"))


def written_by_others(stage: YearStage) -> None:
    """Rows are deleted from the lake by another tool."""
    DeltaTable(str(_folder(stage, "pgbench_branches"))).delete()


def partitions_set(stage: YearStage) -> None:
    """The setting, with a restart."""
    stage.set_partitions(stage.dice.choice((1, 3, 4)))


def copied_on_request(stage: YearStage) -> None:
    stage.run("copy", f"public.{BUSY}")


def all_copied_on_request(stage: YearStage) -> None:
    stage.producer.stop()
    stage.run("copy", "--all")


def key_dropped_and_made(stage: YearStage) -> None:
    table = "pgbench_history"
    stage.database.execute(f"ALTER TABLE {table} ADD id bigserial; ALTER TABLE {table} ADD PRIMARY KEY (id)")
    stage.pause(2)
    stage.database.execute(f"ALTER TABLE {table} DROP id")


def job_stopped_in_a_plan(stage: YearStage) -> None:
    """By whoever stops a service, with much to do; also with no plan in work it ends in order."""
    large_transaction(stage)
    stage.pause(stage.dice.uniform(0, 6))
    stage.job.keep_running()
    stage.job.stop()


def job_updated(stage: YearStage) -> None:
    """As a rolling update does it: the new one is there before the old one is asked to end."""
    stage.replace_job()


def checkpoint_removed(stage: YearStage) -> None:
    """Somebody tidies the lake, while its job is down."""
    stage.job.kill()
    shutil.rmtree(stage.lake / "_checkpoint", ignore_errors=True)


def transaction_left_open(stage: YearStage) -> None:
    """Somebody goes for lunch: nothing behind it may wait, and what it wrote is rolled back."""
    with stage.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT i, 1, i, 0 FROM generate_series(1, 500) i"
        )
        stage.pause(5)


def identity_altered(stage: YearStage) -> None:
    """Full, and back: old rows come whole meanwhile."""
    for identity in ("FULL", "DEFAULT"):
        stage.database.execute(f"ALTER TABLE pgbench_tellers REPLICA IDENTITY {identity}")
        stage.database.execute("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid % 2 = 0")
        stage.pause(1)


def keys_changed(stage: YearStage) -> None:
    """And back: what is a new row of one key is a deleted one of another."""
    for step in (1_000_000, -1_000_000):
        stage.database.execute(f"UPDATE pgbench_tellers SET tid = tid + {step}")


def ddl_told_in_the_stream(stage: YearStage) -> None:
    """Event triggers are made, and tell of a rewrite; then they are taken away."""
    admin = ("--admin-dsn", stage.database.dsn)
    stage.run("init", "--ddl-trigger", "--force", *admin)
    stage.database.execute("ALTER TABLE pgbench_branches ALTER filler TYPE char(88) USING lower(coalesce(filler, 'B'))")
    stage.pause(2)
    stage.run("init", "--no-ddl-trigger", *admin)


def _folder(stage: YearStage, table: str) -> Path:
    return stage.folder_of(table)


def _admin(stage: YearStage) -> AdminClient:
    return AdminClient({"bootstrap.servers": stage.kafka.bootstrap_servers, "log_level": 2})


Event = Callable[[YearStage], None]
EVENTS: tuple[Event, ...] = (
    broker_away,
    postgres_crashes,
    everything_dies,
    programs_killed,
    rolling_update,
    habits,
    large_transaction,
    year_is_closed,
    column_added,
    values_rewritten,
    operations_left_out,
    publication_remade,
    slot_dropped,
    topic_deleted,
    topic_grown,
    folder_removed,
    written_by_others,
    partitions_set,
    copied_on_request,
    all_copied_on_request,
    key_dropped_and_made,
    job_stopped_in_a_plan,
    job_updated,
    checkpoint_removed,
    transaction_left_open,
    identity_altered,
    keys_changed,
    ddl_told_in_the_stream,
)
