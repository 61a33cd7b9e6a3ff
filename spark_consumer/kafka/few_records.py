"""Few records, fetched by one consumer of the driver's JVM instead of a Spark job.

In: offset ranges of partitions, a consumer. Out: exactly the records in them, as Arrow. Spark reads each
partition with a consumer of its own, some 25 ms each where it has none of them yet: of 600 tables with two
changes each that was two thirds of a plan's time. A record takes a millisecond here, so this is for few of
them. Each crosses alone, and the heap holds no more than a fetch of ``FETCH_BYTES`` unpacks to (I9).
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from walbridge.schemas.avro.framing import known_frame
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.kafka.kafka_client import java_list
from walbridge.spark_consumer.kafka.large_records import SIZE
from walbridge.spark_consumer.kafka.ranges import RECORD, SIZED_RECORD, Range

POLL_MS = 200
PATIENCE_S = 5.0
"""How long all partitions together may bring nothing."""
_PLACE = re.compile(r"([A-Za-z0-9._-]+)-(\d+)")

Record = tuple[str, int, int, bytes | None, bytes | None]
"""The columns of ``RECORD``."""


class _ForSpark(Exception):
    """A value is too large for this way, or the client tells its records in other words."""


class FewRecords:
    """One fetch by a consumer of the JVM, which nobody else uses meanwhile."""

    def __init__(self, jvm: Any, consumer: Any, partitions: Mapping[PartitionId, Any]) -> None:
        """``partitions``: Java's TopicPartition of each place."""
        self._jvm, self._consumer, self._partitions = jvm, consumer, partitions
        self._patience = jvm.java.time.Duration.ofMillis(POLL_MS)

    def fetch(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> pa.Table | None:
        """All records of these ranges as ``SIZED_RECORD``; None where a value is larger: Spark then reads all.

        Raises:
            RetryableError: they do not come.
            Py4JJavaError: what the client says.
        """
        try:
            return _sized(list(self._records(ranges, value_bytes_max)))
        except _ForSpark:
            return None
        finally:
            self._consumer.unsubscribe()

    def _records(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> Iterator[Record]:
        left = dict(ranges)
        self._consumer.assign(self._places(left))
        for place, (start, _) in left.items():
            self._consumer.seek(self._partitions[place], start)
        due = time.monotonic() + PATIENCE_S
        while left:
            before = dict(left)
            for place, records in self._polled():
                if place in left:
                    yield from self._of_partition(place, records, left, value_bytes_max)
            if left == before:
                self._look_where_it_is(left)
            if left != before:
                due = time.monotonic() + PATIENCE_S
                self._consumer.pause(self._places(before.keys() - left.keys()))
            elif time.monotonic() > due:
                (topic, partition), (start, _) = next(iter(left.items()))
                raise RetryableError(f"Kafka does not send {topic}[{partition}] from offset {start} on")

    def _polled(self) -> Iterator[tuple[PartitionId, Any]]:
        polled = self._consumer.poll(self._patience)
        for topic, partition in _PLACE.findall(polled.partitions().toString()):
            place = topic, int(partition)
            yield place, polled.records(self._partitions[place])

    def _of_partition(
        self, place: PartitionId, records: Any, left: dict[PartitionId, Range], value_bytes_max: int
    ) -> Iterator[Record]:
        """Those of a poll that are in the range; what is ``left`` of it begins behind them."""
        end, offset = left[place][1], left[place][0]
        # As one text: three calls a record less.
        told = SIZE.findall(records.toString())
        if len(told) != records.size():
            raise _ForSpark
        for at, (offset_text, key_size, size) in enumerate(told):
            offset = int(offset_text)
            if offset >= end:
                break
            if int(size) > value_bytes_max:
                raise _ForSpark
            record = records.get(at)
            key = None if int(key_size) < 0 else bytes(record.key())
            yield *place, offset, key, None if int(size) < 0 else bytes(record.value())
        _pass(left, place, offset + 1)

    def _look_where_it_is(self, left: dict[PartitionId, Range]) -> None:
        """Markers and records of aborted transactions are passed without a record."""
        for place in list(left):
            _pass(left, place, self._consumer.position(self._partitions[place]))

    def _places(self, places: Iterable[PartitionId]) -> Any:
        return java_list(self._jvm, [self._partitions[place] for place in places])


def _pass(left: dict[PartitionId, Range], place: PartitionId, offset: int) -> None:
    start, end = left.pop(place)
    if offset < end:
        left[place] = max(start, offset), end


def _sized(records: list[Record]) -> pa.Table:
    """The records with what ``SIZED_RECORD`` says of them."""
    columns = dict(zip(RECORD.names, zip(*records, strict=True), strict=True)) if records else {}
    values = columns.get("value", ())
    return pa.Table.from_pydict(
        {name: columns.get(name, ()) for name in RECORD.names}
        | {
            "frame_id": [known_frame(value) for value in values],
            "size": [len(value or b"") for value in values],
            "large": [None] * len(values),
            "is_left_out": [False] * len(values),
        },
        SIZED_RECORD,
    )
