"""Few records, fetched by one consumer of the driver's JVM instead of a Spark job.

In: offset ranges of partitions, a consumer. Out: exactly the records in them, as Arrow. Spark reads each
partition with a consumer of its own, which costs some 25 ms each where it has none in its cache, and takes a quarter of
a second for a job. The heap holds what one fetch of ``FETCH_BYTES`` unpacks to, and the bytes of one poll (I9).

A call into the JVM for each key and value would take longer than Kafka does, so a poll costs ten calls however many
records it has. The JVM loops over the records itself: method handles, made once, print each record's header
(``ConsumerRecord.toString``) to a text, and append all keys and then all values to an array of bytes. The sizes in the
headers tell them apart. Text and bytes pass through a file: py4j sends a long answer in parts, and TCP would delay the
next part by 40 ms.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import pyarrow as pa

from walbridge.schemas.avro.framing import frame_id_if_known
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.jvm.record_handles import RecordHandles
from walbridge.spark_consumer.kafka.kafka_client import java_list
from walbridge.spark_consumer.kafka.ranges import RECORD, SIZED_RECORD, Range

POLL_MS = 200
PATIENCE_S = 5.0
"""How long no partition may bring anything before the fetch fails."""

Record = tuple[str, int, int, bytes | None, bytes | None]
"""The columns of ``RECORD``."""
POLL_BYTES_MAX = 2 * 2**20
"""Bytes of keys and values in one poll, of which the heap holds two more copies meanwhile."""
_HEADER = re.compile(
    rb"ConsumerRecord\(topic = ([A-Za-z0-9._-]+), partition = (\d+), leaderEpoch = \w+, offset = (\d+), "
    rb"\w+ = -?\d+, serialized key size = (-?\d+), serialized value size = (-?\d+),"
)
"""Topic, partition, offset, and bytes of the key and of the value (-1: none) in a ConsumerRecord's text."""


class FewRecords:
    """One fetch by a consumer of the JVM, which no other thread uses meanwhile."""

    def __init__(
        self, jvm: Any, consumer: Any, partitions: Mapping[PartitionId, Any], listed: Any, polled: "PolledRecords"
    ) -> None:
        """``partitions``: Java's TopicPartition of each partition to read; ``listed``: all of these as a Java list."""
        self._jvm, self._consumer, self._partitions, self._polled = jvm, consumer, partitions, polled
        self._listed = listed
        self._patience = jvm.java.time.Duration.ofMillis(POLL_MS)

    def fetch(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> pa.Table | None:
        """All records of these ranges as ``SIZED_RECORD``; None where a value is larger: Spark then reads all.

        Raises:
            RetryableError: they do not come.
            Py4JJavaError: what the client says.
        """
        try:
            return sized_here(list(self._records(ranges, value_bytes_max)))
        except LeftToSpark:
            return None
        finally:
            self._consumer.unsubscribe()

    def _records(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> Iterator[Record]:
        remaining = dict(ranges)
        self._consumer.assign(self._listed)
        for partition_id, (start, _) in remaining.items():
            self._consumer.seek(self._partitions[partition_id], start)
        due = time.monotonic() + PATIENCE_S
        while remaining:
            before = dict(remaining)
            for record in self._polled.read(self._consumer.poll(self._patience), value_bytes_max):
                if record.partition_id in remaining and record.offset < remaining[record.partition_id][1]:
                    yield *record.partition_id, record.offset, record.key, record.value
                    _advance(remaining, record.partition_id, record.offset + 1)
            # A partition that brought records may have nothing but a marker left, for which the next poll would wait.
            advanced = [each for each in remaining if remaining[each] != before[each]]
            self._advance_past_markers(remaining, advanced or list(remaining))
            if remaining != before:
                due = time.monotonic() + PATIENCE_S
                if remaining and (done := before.keys() - remaining.keys()):
                    self._consumer.pause(self._java_partitions(done))
            elif time.monotonic() > due:
                (topic, partition), (start, _) = next(iter(remaining.items()))
                raise RetryableError(f"Kafka does not send {topic}[{partition}] from offset {start} on")

    def _advance_past_markers(self, remaining: dict[PartitionId, Range], asked: Iterable[PartitionId]) -> None:
        """Take over the consumer's positions: it passes markers and aborted records without returning a record."""
        for partition_id in asked:
            _advance(remaining, partition_id, self._consumer.position(self._partitions[partition_id]))

    def _java_partitions(self, partition_ids: Iterable[PartitionId]) -> Any:
        return java_list(self._jvm, [self._partitions[partition_id] for partition_id in partition_ids])


def _advance(remaining: dict[PartitionId, Range], partition_id: PartitionId, offset: int) -> None:
    start, end = remaining.pop(partition_id)
    if offset < end:
        remaining[partition_id] = max(start, offset), end


def sized_here(records: list[Record]) -> pa.Table:
    """The records as ``SIZED_RECORD``."""
    columns = dict(zip(RECORD.names, zip(*records, strict=True), strict=True)) if records else {}
    values = columns.get("value", ())
    return pa.Table.from_pydict(
        {name: columns.get(name, ()) for name in RECORD.names}
        | {
            "frame_id": [frame_id_if_known(value) for value in values],
            "size": [len(value or b"") for value in values],
            "large": [None] * len(values),
            "is_left_out": [False] * len(values),
        },
        SIZED_RECORD,
    )


class Polled(NamedTuple):
    """One record of a poll."""

    partition_id: PartitionId
    offset: int
    key: bytes | None
    value: bytes | None


class LeftToSpark(Exception):
    """Spark must read the records. ``topic``: one that has a record which is large, or of an unknown framing; empty
    where it is a poll that is too large, or of which the client prints headers in another form."""

    def __init__(self, topic: str = "") -> None:
        super().__init__(topic)
        self.topic = topic


class PolledRecords:
    """Brings the records of a poll to Python; used by one thread at a time."""

    def __init__(self, jvm: Any, consumer: Any) -> None:
        self._jvm = jvm
        self._text = jvm.java.io.ByteArrayOutputStream()
        self._bytes = jvm.java.io.ByteArrayOutputStream()
        handles = RecordHandles(jvm, consumer.getClass().getClassLoader())
        self._print_headers = handles.printing(jvm.java.io.PrintStream(self._text, False, "UTF-8"))
        self._add_key, self._add_value = (handles.appending(part, self._bytes) for part in ("key", "value"))

    def read(self, polled: Any, value_bytes_max: int) -> list[Polled]:
        """The records of a poll, those of a partition in their order.

        Raises:
            LeftToSpark: they cannot be brought this way.
        """
        if polled.isEmpty():
            return []
        self._text.reset()
        self._bytes.reset()
        polled.forEach(self._print_headers)
        with tempfile.NamedTemporaryFile(prefix="walbridge-records-") as file:
            out = self._jvm.java.io.FileOutputStream(file.name)
            try:
                self._text.writeTo(out)
                headers = [_Header(*each) for each in _HEADER.findall(_written_since(file))]
                if len(headers) != polled.count():
                    raise LeftToSpark
                largest = max(headers, key=lambda each: each.value_size)
                if largest.value_size > value_bytes_max:
                    raise LeftToSpark(largest.partition_id[0])
                if sum(each.key_size + each.value_size for each in headers) > POLL_BYTES_MAX:
                    raise LeftToSpark
                polled.forEach(self._add_key)
                polled.forEach(self._add_value)
                self._bytes.writeTo(out)
            finally:
                out.close()
            return _split(headers, _written_since(file))


class _Header:
    """A record's header. ``key`` and ``value`` are sizes, -1 for null; ``key_size`` and ``value_size`` are 0 then."""

    def __init__(self, topic: bytes, partition: bytes, offset: bytes, key_size: bytes, value_size: bytes) -> None:
        self.partition_id = topic.decode(), int(partition)
        self.offset, self.key, self.value = int(offset), int(key_size), int(value_size)
        self.key_size, self.value_size = max(self.key, 0), max(self.value, 0)


def _written_since(file: IO[bytes]) -> bytes:
    """What was written to the file since the last call."""
    size = os.fstat(file.fileno()).st_size
    return file.read(size - file.tell())


def _split(headers: Sequence[_Header], content: bytes) -> list[Polled]:
    """The records, from their headers and the bytes of all keys and then all values."""
    key_at, value_at = 0, sum(each.key_size for each in headers)
    if len(content) != value_at + sum(each.value_size for each in headers):
        raise LeftToSpark
    found = []
    for each in headers:
        key = None if each.key < 0 else content[key_at : key_at + each.key_size]
        value = None if each.value < 0 else content[value_at : value_at + each.value_size]
        key_at, value_at = key_at + each.key_size, value_at + each.value_size
        found.append(Polled(each.partition_id, each.offset, key, value))
    return found
