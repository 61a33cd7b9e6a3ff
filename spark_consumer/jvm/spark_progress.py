"""Tells whether running Spark jobs make progress, which the driver's Python cannot see until a job ends.

In: a session with running jobs. Out: a call whenever they have made progress: a job began or ended, a task ended, or a
task took more rows. The rows come from Spark's SQL metrics, which executors send with their heartbeats, so that a task
that reads for an hour counts as well. A job that hangs changes none of these.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

ASK_EVERY_S = 5.0
"""Half of the time between two heartbeats of an executor."""

Reached = tuple[tuple[int, int, str], ...]
"""For each running job: its number, how many of its tasks have ended, and the metrics of its query as one text."""


class SparkProgress:
    """The progress of a session's running jobs; asked from one thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last: Reached = ()

    def has_moved(self) -> bool:
        """Whether there was progress since the last call; False if Spark does not tell."""
        # Spark may forget a job between two questions about it; a JVM that ends fails a call in any of many ways.
        with suppress(Exception):
            before, self._last = self._last, self.reached()
            return self._last != before
        return False

    def reached(self) -> Reached:
        """The progress so far; raises if Spark does not tell."""
        running = self._spark.sparkContext.statusTracker().getActiveJobsIds()
        return tuple(self._of_job(number) for number in sorted(running))

    def _of_job(self, number: int) -> tuple[int, int, str]:
        jobs: Any = self._spark.sparkContext._jsc.sc().statusStore()
        found = jobs.jobWithAssociatedSql(number)
        job, query = found._1(), found._2()
        metrics = ""
        if query.isDefined():
            queries: Any = self._spark._jsparkSession.sharedState().statusStore()
            metrics = queries.executionMetrics(query.get()).toString()
        return number, job.numCompletedTasks(), metrics


@contextmanager
def reporting_progress(has_moved: Callable[[], bool], tell: Callable[[], None]) -> Iterator[None]:
    """A block in which a thread asks every ``ASK_EVERY_S`` whether there was progress, and then calls ``tell``.

    The end of the block does not wait for the thread: if the JVM has ended, its last question may never return.
    """
    ended = threading.Event()

    def hear() -> None:
        while not ended.wait(ASK_EVERY_S):
            if has_moved() and not ended.is_set():
                tell()

    threading.Thread(target=hear, name="spark-progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
