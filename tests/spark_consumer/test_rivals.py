"""Two jobs on one lake: the second to append to the manifest stops, and the lake stays right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.faults.kill_points import JOB, JOB_NEW_TABLE
from tests.in_soak import in_soak, in_variants
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer import job, plan_runner
from walbridge.spark_consumer.apply import apply
from walbridge.spark_consumer.read import published

LIKE_AN_EARLIER_ONE = {"job:plan-open", "apply:table-reshaped", "job:table-applied", "job:before-publish"}
"""Overtaken here a job has less left to do than at the point before, and stops at the same append."""
IN_EACH_RUN = "apply:segment-applied"
POINTS = [each for each in JOB if each not in JOB_NEW_TABLE and each != IN_EACH_RUN]
OTHERS = [in_soak(each) if each in LIKE_AN_EARLIER_ONE else in_variants(each) for each in POINTS]


@pytest.mark.parametrize("point", [IN_EACH_RUN, *OTHERS])
def test_job_that_was_overtaken_at_any_step_stops_and_harms_nothing(
    spark: SparkSession,
    kafka: KafkaBroker,
    pipeline_name: str,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """I5, I8: while one job stands still at a step, another takes its plan up, finishes it and goes on."""
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    accounts = writer.relation("a", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("n", "int4")], relation_id=1)
    history = writer.relation("h", [ColumnSpec("id", "int4"), ColumnSpec("n", "int4")], relation_id=2)
    run = runner(spark, kafka, pipeline_name, lake)
    writer.copy([(accounts, [{"id": 1, "n": 0}]), (history, [])])
    run()

    def transfer(n: int) -> None:
        lsn = 0x2000 + 16 * n
        row = {"id": 1, "n": n}
        writer.send([Event(accounts, "u", lsn, 0, after=row), Event(history, "c", lsn, 1, after=row)])

    def overtake(reached: str) -> None:
        if reached == point and once.acquire(blocking=False):
            run()
            transfer(2)
            run()

    once = threading.Semaphore(1)
    monkeypatch.setattr(plan_runner, "kill_point", overtake)
    monkeypatch.setattr(apply, "kill_point", overtake)
    transfer(1)
    # Behind its own published row it has nothing left to do, and learns of nothing.
    with nullcontext() if point == "job:published" else pytest.raises(OperatorError, match="a second Spark job writes"):
        run()
    monkeypatch.undo()
    # It may have put a table back to its base: no published row names that version, and the next plan mends it.
    assert newest_published(lake) == [(1, 1), (1, 2)]
    transfer(3)
    run()

    for row in published(str(lake)):
        a, h = (rows(lake, entry.path, entry.version) for entry in sorted(row.tables, key=lambda each: each.name))
        assert a == [(1, len(h))]
        assert h == [(1, n) for n in range(1, len(h) + 1)]
    assert rows(lake, "public/h") == newest_published(lake) == [(1, 1), (1, 2), (1, 3)]


def newest_published(lake: Path) -> list[tuple[int, int]]:
    """The history as readers see it."""
    (entry,) = (entry for entry in published(str(lake))[-1].tables if entry.name == "h")
    return rows(lake, entry.path, entry.version)


def runner(spark: SparkSession, kafka: KafkaBroker, pipeline: str, lake: Path) -> Callable[[], None]:
    """A job of its own at each call, up to the end of the log."""
    settings = Settings(
        name=pipeline,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )

    def run() -> None:
        started = job.Job(spark, settings, threading.Event())
        try:
            started.run(once=True)
        finally:
            started.close()

    return run


def rows(lake: Path, path: str, version: int | None = None) -> list[tuple[int, int]]:
    table = DeltaTable(f"{lake}/{path}", version=version).to_pyarrow_table()
    return sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))
