"""Whether Spark gets on within a job of its own, of which the driver hears nothing until that job ends.

In: a session whose jobs run. Out: a call whenever they have come further: one of them began or ended, a task ended,
or a task took more rows. The last is told by Spark's own metrics, which executors send with their heartbeats, so that
one task that reads for an hour is heard too. All of these only grow, and a job that hangs adds to none of them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

ASK_EVERY_S = 5.0
"""Half of the time between two heartbeats of an executor."""

Reached = tuple[tuple[int, int, str], ...]
"""Of each job that runs: its number, how many of its tasks have ended, and the metrics of its query as one text."""


class SparkProgress:
    """How far the running jobs of a session are; asked from one thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last: Reached = ()

    def has_moved(self) -> bool:
        """Whether they are further than when this was last asked. What cannot be had now is not."""
        # Spark may forget a job between two questions about it; a JVM that ends fails a call in any of many ways.
        with suppress(Exception):
            before, self._last = self._last, self.reached()
            return self._last != before
        return False

    def reached(self) -> Reached:
        """How far they are; raises where Spark does not say."""
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
def hearing(has_moved: Callable[[], bool], tell: Callable[[], None]) -> Iterator[None]:
    """A block in which a thread asks every so often whether something has moved, and then calls ``tell``.

    Nobody waits for its last question: where the JVM has ended, that may never be answered.
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
