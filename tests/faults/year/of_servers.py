"""What happens to the servers: they crash, are away for long, come back older, or as another one."""

from __future__ import annotations

import shutil

from tests.faults.refusals.test_guards_server import copy_cluster, replace_cluster
from tests.faults.year.year_stage import YearStage
from tests.wait import wait_until


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


def broker_away_for_long(stage: YearStage) -> None:
    """For longer than a start waits: programs that are started meanwhile end, and are started again."""
    stage.kafka.kill()
    stage.pause(3)
    stage.producer.kill()
    stage.job.kill()
    stage.pause(45)
    stage.kafka.start()


def server_restored(stage: YearStage) -> None:
    """From a backup: what was published since then never was."""
    server = stage.database.server
    backup = server.data.with_name("backup")
    copy_cluster(server, backup)
    stage.play(4)
    stage.settle("the backup")
    replace_cluster(server, backup)
    shutil.rmtree(backup)
    server.start()
    stage.pause(5)


def failed_over(stage: YearStage) -> None:
    """To a standby that has everything, and the slot or not."""
    server = stage.database.server
    server.kill()
    if stage.dice.random() < 0.5:
        shutil.rmtree(server.data / "pg_replslot" / stage.pipeline)
    (server.data / "standby.signal").touch()
    server.start()
    stage.database.execute("SELECT pg_promote()")
    wait_until(lambda: not stage.database.value("SELECT pg_is_in_recovery()"), "the end of recovery")
