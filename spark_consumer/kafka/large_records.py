"""Fetches large records one at a time, without Spark: the heap holds three copies of one record at most (I9).

In: partition and offsets. Out: their bytes. The JVM's own client fetches, so brokers, credentials
and properties are those of every other read; the bytes pass through a file, since over py4j they
would become text.
"""

import mmap
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.ranges import Range

POLL_MS = 5_000
_BUFFERS = "org.apache.kafka.common.serialization.ByteBufferDeserializer"
ONE_BY_ONE = {"max.poll.records": "1"}
PROPERTIES = {
    "key.deserializer": _BUFFERS,
    "value.deserializer": _BUFFERS,
    # A fetch brings one batch at least, however large, and no more behind a large one.
    "fetch.max.bytes": "1048576",
    "max.partition.fetch.bytes": "65536",
}
SIZE = re.compile(r"offset = (\d+), \w+ = -?\d+, serialized key size = (-?\d+), serialized value size = (-?\d+),")
"""Offset, bytes of the key and of the value (-1: none) of a record that Java's client tells as text."""


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """A record whose value was left out: its place in Kafka, its key, and the size of its value."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    frame_id: str | None
    size: int


class RecordReader:
    """A consumer of the JVM that takes records one by one."""

    def __init__(self, spark: SparkSession, consumer: Any) -> None:
        jvm: Any = spark._jvm
        self._jvm, self._consumer = jvm, consumer
        self._patience = self._jvm.java.time.Duration.ofMillis(POLL_MS)

    def values(self, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
        """Each record's value, in order of partition and offset.

        Raises:
            RetryableError: a record does not come.
        """
        with tempfile.NamedTemporaryFile(prefix="walbridge-record-") as scratch:
            file = self._jvm.java.io.RandomAccessFile(scratch.name, "rw")
            try:
                for record in sorted(records, key=lambda each: (each.topic, each.partition, each.offset)):
                    self._write(record, file)
                    with mmap.mmap(scratch.fileno(), record.size, access=mmap.ACCESS_READ) as mapped:
                        yield record, mapped.read()
            finally:
                file.close()

    def _write(self, record: LargeRecord, file: Any) -> None:
        partition_id = self._jvm.org.apache.kafka.common.TopicPartition(record.topic, record.partition)
        self._assign(partition_id, record.offset)
        polled = self._consumer.poll(self._patience).records(partition_id)
        if polled.isEmpty() or polled.get(0).offset() != record.offset:
            raise RetryableError(f"Kafka does not send the record at {partition_id.toString()} offset {record.offset}")
        file.setLength(0)
        file.seek(0)
        self._jvm.org.apache.kafka.common.utils.Utils.writeTo(file, polled.get(0).value(), record.size)

    def _assign(self, partition_id: Any, offset: int) -> None:
        self._consumer.assign(self._jvm.java.util.Collections.singletonList(partition_id))
        self._consumer.seek(partition_id, offset)

    def refuse_larger(self, partition_id: PartitionId, bounds: Range, heap: DriverHeap) -> None:
        """Read through the range, and refuse the first record that the heap does not take.

        Raises:
            TableError: there is one.
        """
        partition = self._jvm.org.apache.kafka.common.TopicPartition(*partition_id)
        offset, end = bounds
        self._assign(partition, offset)
        while offset < end:
            try:
                # As one text: a call a record would take a hundred times as long.
                found = SIZE.findall(self._consumer.poll(self._patience).records(partition).toString())
            except Py4JJavaError as error:
                if "java.lang.OutOfMemoryError" in str(error.java_exception.toString()):
                    raise heap.too_large(*partition_id, offset, None) from None
                raise
            for at, _, size in found:
                if int(at) < end and int(size) > heap.largest_record:
                    raise heap.too_large(*partition_id, int(at), int(size))
            reached = self._consumer.position(partition)
            if reached == offset:
                raise RetryableError(
                    f"Kafka does not send {partition_id[0]}[{partition_id[1]}] from offset {offset} on"
                )
            offset = reached


@contextmanager
def reading(spark: SparkSession, consumer: Any) -> Iterator[RecordReader]:
    """A reader over this consumer, which is closed at the end, with all that it has fetched."""
    try:
        yield RecordReader(spark, consumer)
    finally:
        close_consumer(spark, consumer)


def close_consumer(spark: SparkSession, consumer: Any) -> None:
    """Close a consumer. If its JVM is gone, nothing is raised, so that the first error stays the error."""
    jvm: Any = spark._jvm
    with suppress(Py4JError, OSError):
        consumer.close(jvm.java.time.Duration.ZERO)
