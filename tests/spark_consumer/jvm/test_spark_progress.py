"""A job of Spark's that gets on is heard before it ends, and one that hangs is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark_consumer.memory_pipeline import job_over
from tests.spark_consumer.two_tables import begun, published_history, transfer
from tests.wait import wait_until
from walbridge.runtime.monitoring.health import Pulse
from walbridge.spark_consumer import plan_runner
from walbridge.spark_consumer.jvm import spark_progress
from walbridge.spark_consumer.jvm.spark_progress import SparkProgress, reporting_progress
from walbridge.spark_consumer.plan.plan import Plan

ROWS = 100_000


class Gate:
    """A row that an executor waits for: it opens a pipe that nobody writes to yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None
        os.mkfifo(path)

    def before(self, row: int, frame: DataFrame) -> DataFrame:
        """The frame's rows, of which that one comes once the gate is open."""
        waits = F.expr(f"length(reflect('scala.io.Source', 'fromFile', '{self._path}', 'UTF-8'))")
        return frame.select(F.when(F.col("id") == row, waits).otherwise(F.col("id")).alias("id"))

    def open(self) -> None:
        """For all who come, until it is closed."""
        self._held = os.open(self._path, os.O_RDWR)

    def close(self) -> None:
        if self._held is not None:
            os.close(self._held)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def counting(gate: Gate) -> Iterator[Callable[[DataFrame], Future[int]]]:
    """Begins to count a frame's rows; what waits at the gate is let through in the end."""
    with ThreadPoolExecutor() as threads:
        yield lambda frame: threads.submit(lambda: int(frame.agg(F.count("id")).collect()[0][0]))
        gate.open()


@pytest.fixture
def progress(spark: SparkSession) -> SparkProgress:
    """Of a session at rest: Spark tells a moment later that a job has ended."""
    made = SparkProgress(spark)
    wait_until(lambda: made.reached() == (), "the end of what ran before")
    return made


def test_rows_within_a_task_are_progress_until_it_hangs(
    spark: SparkSession, progress: SparkProgress, gate: Gate, counting: Callable[[DataFrame], Future[int]]
) -> None:
    counted = counting(gate.before(ROWS - 1, spark.range(0, ROWS, 1, 1).toDF("id")))

    wait_until(progress.has_moved, "a job that begins")
    wait_until(lambda: any("->" in metrics for *_, metrics in progress.reached()), "rows of a task that goes on")
    assert [tasks for _, tasks, _ in progress.reached()] == [0]
    wait_until(lambda: not progress.has_moved(), "a task that waits")
    assert not counted.done()

    gate.open()
    assert counted.result(timeout=60) == ROWS
    wait_until(progress.has_moved, "a job that ends")


def test_task_that_ends_is_progress(
    spark: SparkSession, progress: SparkProgress, gate: Gate, counting: Callable[[DataFrame], Future[int]]
) -> None:
    counting(gate.before(1, spark.range(0, 2, 1, 2).toDF("id")))

    wait_until(lambda: [tasks for _, tasks, _ in progress.reached()] == [1], "the other of two tasks")


def test_nothing_is_progress_where_nothing_runs_or_nobody_answers(progress: SparkProgress) -> None:
    away = MagicMock()
    away.sparkContext.statusTracker.side_effect = ValueError("the JVM has ended")

    assert not progress.has_moved()
    assert not SparkProgress(away).has_moved()


def test_each_move_is_told_once_while_the_block_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_progress, "ASK_EVERY_S", 0)
    told: list[int] = []
    moves, is_done = iter([False, True, False, True, False]), threading.Event()

    def has_moved() -> bool:
        found = next(moves, None)
        if found is None:
            is_done.set()
        return bool(found)

    with reporting_progress(has_moved, lambda: told.append(1)):
        assert is_done.wait(60)

    assert told == [1, 1]


def test_block_ends_though_a_question_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the JVM ends while it is asked."""
    monkeypatch.setattr(spark_progress, "ASK_EVERY_S", 0)
    told: list[int] = []
    is_asked, answer = threading.Event(), threading.Event()

    def has_moved() -> bool:
        is_asked.set()
        return answer.wait()

    with reporting_progress(has_moved, lambda: told.append(1)):
        assert is_asked.wait(60)
    answer.set()
    wait_until(lambda: "spark-progress" not in [thread.name for thread in threading.enumerate()], "the thread to end")

    assert told == []


def test_long_read_that_gets_on_is_progress_of_the_job(lake: Path) -> None:
    """A supervisor that starts a job again because of one long read would never see that read done."""
    pipeline, heard = begun(), threading.Event()
    transfer(pipeline, 1)

    @contextmanager
    def long_read(log: object, plan: Plan, _on_step: object) -> Iterator[Any]:
        heard.clear()
        assert heard.wait(60)
        with pipeline.planned(log, plan) as records:
            yield records

    with job_over(pipeline, lake) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_progress, "ASK_EVERY_S", 0)
        patch.setattr(SparkProgress, "has_moved", lambda _: True)
        patch.setattr(Pulse, "beat", lambda _: heard.set())
        patch.setattr(plan_runner, "planned_records", long_read)
        run()

    assert published_history(lake) == [0, 1]


def test_records_that_the_driver_has_fetched_are_progress_of_the_job(lake: Path) -> None:
    """The same without a job of Spark's."""
    pipeline, heard = begun(), threading.Event()
    transfer(pipeline, 1)

    @contextmanager
    def fetched(log: object, plan: Plan, on_step: Callable[[], None]) -> Iterator[Any]:
        heard.clear()
        on_step()
        assert heard.is_set()
        with pipeline.planned(log, plan) as records:
            yield records

    with job_over(pipeline, lake) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pulse, "beat", lambda _: heard.set())
        patch.setattr(plan_runner, "planned_records", fetched)
        run()

    assert published_history(lake) == [0, 1]
