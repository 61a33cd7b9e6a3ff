"""Ends the job where a standalone cluster leaves it without executors.

In: a session. Out: an ``OperatorError`` once a Spark job has waited for an executor for too long. Spark itself
waits for ever, and says so only in a log: if there never was a worker, or if the master was restarted and has lost the
application, which gets no executor before it registers again.
Other cluster managers request executors again by themselves, and may take minutes to start one.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from walbridge.schemas.errors import OperatorError

STANDALONE = "spark://"
LOOK_S = 2.0
_DRIVER = "driver"


class ExecutorWatch:
    """Tells when Spark jobs have waited for an executor for too long.

    Args:
        is_waiting: whether a Spark job runs and there is no executor.
    """

    def __init__(
        self, is_waiting: Callable[[], bool], timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_waiting, self._timeout_s, self._clock = is_waiting, timeout_s, clock
        self._since_s: float | None = None
        self.is_over = False

    def look(self) -> bool:
        """Look once; returns True once the time is up, and ever after."""
        now_s = self._clock()
        if not self._is_waiting():
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s >= self._timeout_s:
            self.is_over = True
        return self.is_over


def is_cluster(spark: SparkSession) -> bool:
    """Whether executors are processes of their own."""
    return not (spark.sparkContext.master or "").startswith("local")


def hosts_of(spark: SparkSession) -> list[str]:
    """The hosts of the driver and of the executors that are there now."""
    found = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sorted({str(each.host()) for each in found})


def executor_cores(spark: SparkSession) -> list[int]:
    """The cores of each executor that is there now; empty in local mode."""
    if not is_cluster(spark):
        return []
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    each = (found.apply(at) for at in range(found.size()))
    return [int(executor.totalCores()) for executor in each if executor.id() != _DRIVER]


@contextmanager
def ending_without_executors(spark: SparkSession, timeout_s: float) -> Iterator[None]:
    """A block whose Spark jobs are cancelled when they have waited for an executor for ``timeout_s``.

    Raises:
        OperatorError: they were cancelled so. Else what the block raised.
    """
    master = spark.sparkContext.master or ""
    if not master.startswith(STANDALONE):
        yield
        return
    context: Any = spark.sparkContext._jsc
    watch = ExecutorWatch(lambda: _is_waiting(context), timeout_s)
    ended = threading.Event()
    threading.Thread(target=_cancel_when_over, args=(watch, context, ended), name="executors", daemon=True).start()
    try:
        yield
    except Exception as error:
        if not watch.is_over:
            raise
        raise _without_executors(master, timeout_s) from error
    finally:
        ended.set()


def _cancel_when_over(watch: ExecutorWatch, context: Any, ended: threading.Event) -> None:
    with suppress(Py4JError, OSError):  # the JVM ended: the job's own thread hears of it, too
        while not ended.wait(LOOK_S):
            if watch.look():
                context.cancelAllJobs()  # and those that the job begins before it has heard of it


def _is_waiting(context: Any) -> bool:
    tracker = context.sc().statusTracker()
    # The driver counts as one.
    return len(tracker.getActiveJobIds()) > 0 and len(tracker.getExecutorInfos()) <= 1


def _without_executors(master: str, timeout_s: float) -> OperatorError:
    return OperatorError(
        f"the Spark master {master} has given the job no executor for {timeout_s:.0f} s; nothing is lost",
        remedy="see on the master's page that workers are alive, with cores and memory to spare for --executor-memory; "
        "then start again, which also helps where the master was restarted",
    )
