"""A job that was killed, or lost its checkpoint: every event is applied once all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import ContractWriter, Event
from tests.spark_consumer.accounts import Run, newest, rows, transfer
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.spark_consumer import plan_runner

KILL_POINTS = ("job:plan-open", "job:table-applied", "job:before-publish", "job:published")


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


@pytest.mark.parametrize("point", KILL_POINTS)
def test_a_job_killed_at_a_durable_step_applies_every_event_once(
    spark: SparkSession,
    writer: ContractWriter,
    accounts: RelationRecord,
    history: RelationRecord,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """I5, I8: readers see the old state until the new one is published, whole."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}, {"id": 2, "balance": 0}]), (history, [])])
    run()
    before = newest(lake).end_lsn
    for n in range(3):
        writer.send(transfer(accounts, history, 0x2000 + 16 * n, 1, n + 1))

    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(plan_runner, "kill_point", kill)
        with pytest.raises(Killed):
            run()
    if point != "job:published":
        assert newest(lake).end_lsn == before
        assert rows(spark, lake, "history") == []
    writer.send(transfer(accounts, history, 0x3000, 2, 7))
    run()

    assert rows(spark, lake, "accounts") == [(1, 3), (2, 7)]
    assert rows(spark, lake, "history") == [(1, 1), (1, 2), (1, 3), (2, 7)]


def test_a_plan_killed_again_while_it_is_finished_is_still_applied_once(
    spark: SparkSession,
    writer: ContractWriter,
    accounts: RelationRecord,
    history: RelationRecord,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I5."""
    writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
    writer.send(transfer(accounts, history, 0x2000, 1, 5))
    for point in KILL_POINTS:

        def kill(reached: str, point: str = point) -> None:
            if reached == point:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(plan_runner, "kill_point", kill)
            with pytest.raises(Killed):
                run()
    run()

    assert rows(spark, lake, "accounts") == [(1, 5)]
    assert rows(spark, lake, "history") == [(1, 5)]


def test_a_lost_checkpoint_changes_nothing(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path
) -> None:
    """I5."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    before = newest(lake)
    shutil.rmtree(lake / "_checkpoint")
    run()

    assert newest(lake) == before
    assert rows(spark, lake, "history") == [(1, 1)]


def test_a_rewound_checkpoint_changes_nothing(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I5."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "early")
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 2, "delta": 2})])
    run()
    before = newest(lake)
    shutil.rmtree(lake / "_checkpoint")
    shutil.copytree(tmp_path / "early", lake / "_checkpoint")
    run()

    assert newest(lake) == before
    assert rows(spark, lake, "history") == [(1, 1), (2, 2)]


def test_a_checkpoint_ahead_of_the_lake_hides_no_cut(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I7: what has been applied is told by the lake alone."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "ahead")
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "ahead", lake / "_checkpoint")
    run()

    assert rows(spark, lake, "history") == [(1, 1)]
