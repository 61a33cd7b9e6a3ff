"""The heap that this job really has, whoever started its JVM (I9).

In: a session, the settings. Out: how many tasks may read at a time, the largest record, the error for a larger one; and
turns, so that one read goes on at a time.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from walbridge.runtime.heap import (
    SPARK_SHARE,
    largest_record,
    more_memory,
    readers_at_a_time,
    record_bytes_max,
    size_bytes,
    spark_share,
)
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.jvm.executors import is_cluster

_MIB = 2**20
_SHARE_UNLESS_SET = "0.6"
"""Spark's default of ``spark.memory.fraction``; our own sessions set ``SPARK_SHARE``."""


@dataclass(frozen=True, slots=True)
class DriverHeap:
    """``record_bytes_max``: the largest record that the producer may send, by the settings."""

    heap_bytes: int
    cores: int
    record_bytes_max: int
    spark_share: float = SPARK_SHARE

    @property
    def readers(self) -> int:
        """Tasks that read Kafka at a time."""
        return readers_at_a_time(self.heap_bytes, self.record_bytes_max, self.cores, self.spark_share)

    def readers_of(self, executors: Sequence[int]) -> int:
        """How many tasks may read at a time on a cluster, by the cores of each executor; without executors as
        ``readers``.

        Spark chooses which executor gets which task. So all cores may read only if each executor has room for readers
        on all of its cores; else no more may read than one executor has room for.
        """
        if not executors:
            return self.readers
        most = max(executors)
        of_one = readers_at_a_time(self.heap_bytes, self.record_bytes_max, most, self.spark_share)
        return sum(executors) if of_one == most else of_one

    @property
    def largest_record(self) -> int:
        return largest_record(self.heap_bytes, self.spark_share)

    def too_large(self, topic: str, partition: int, offset: int, size: int | None) -> TableError:
        """The error for a record that the heap cannot take; ``size`` is None where fetching it took all memory."""
        said = "more bytes than the heap has room for" if size is None else f"{size:,} bytes"
        setting = more_memory(size or 2 * self.largest_record, self.spark_share)
        return TableError(
            f"the record at {topic}[{partition}] offset {offset} takes {said}: the Spark driver's heap of "
            f"{self.heap_bytes // _MIB:,} MiB takes records of up to {self.largest_record:,} bytes",
            first=f"{setting} or more" + ("" if size else ", until it is fetched"),
        )


class ReadTurns:
    """One read of Kafka at a time. A copy that is read beside the plans waits for all plans that wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_read = False
        self._plans = 0

    @contextmanager
    def of_plan(self) -> Iterator[None]:
        """A block that reads Kafka for a plan."""
        with self._changed:
            self._plans += 1
            try:
                self._changed.wait_for(lambda: not self._is_read)
            finally:
                self._plans -= 1
            self._is_read = True
        with self._reading():
            yield

    @contextmanager
    def beside_plans(self) -> Iterator[None]:
        """A block that reads Kafka for anything else."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_read and not self._plans)
            self._is_read = True
        with self._reading():
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._is_read = False
                self._changed.notify_all()


READING = ReadTurns()
"""Held during each read of Kafka: the heap has room for the readers of one read (I9)."""


def driver_heap(spark: SparkSession, settings: Settings) -> DriverHeap:
    """The driver's heap; on a cluster the smaller of the driver's and an executor's, since executors read Kafka.

    Raises:
        OperatorError: the session's share of memory is none.
    """
    jvm: Any = spark._jvm
    conf = spark.sparkContext.getConf()
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())
    if is_cluster(spark):
        heap = min(heap, size_bytes(conf.get("spark.executor.memory", "1g") or "1g") or heap)
    return DriverHeap(
        heap,
        spark.sparkContext.defaultParallelism,
        record_bytes_max(settings.producer.row_bytes_max),
        spark_share(conf.get("spark.memory.fraction", _SHARE_UNLESS_SET) or _SHARE_UNLESS_SET),
    )
