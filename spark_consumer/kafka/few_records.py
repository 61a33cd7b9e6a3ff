"""Few records, fetched by one consumer of the driver's JVM instead of a Spark job.

In: offset ranges of partitions, a consumer. Out: exactly the records in them, as Arrow. Spark reads each
partition with a consumer of its own, some 25 ms each where it has none of them yet, and takes a quarter of a second
for a job. The heap holds no more than a fetch of ``FETCH_BYTES`` unpacks to, and the bytes of one poll (I9).
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from walbridge.schemas.avro.framing import known_frame
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.kafka.kafka_client import java_list
from walbridge.spark_consumer.kafka.polled_records import NotThisWay, PolledRecords
from walbridge.spark_consumer.kafka.ranges import RECORD, SIZED_RECORD, Range

POLL_MS = 200
PATIENCE_S = 5.0
"""How long all partitions together may bring nothing."""

Record = tuple[str, int, int, bytes | None, bytes | None]
"""The columns of ``RECORD``."""


class FewRecords:
    """One fetch by a consumer of the JVM, which nobody else uses meanwhile."""

    def __init__(
        self, jvm: Any, consumer: Any, partitions: Mapping[PartitionId, Any], listed: Any, polled: PolledRecords
    ) -> None:
        """``partitions``: Java's TopicPartition of each place that is read; ``listed``: all of them, as Java's list."""
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
            return _sized(list(self._records(ranges, value_bytes_max)))
        except NotThisWay:
            return None
        finally:
            self._consumer.unsubscribe()

    def _records(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> Iterator[Record]:
        left = dict(ranges)
        self._consumer.assign(self._listed)
        for place, (start, _) in left.items():
            self._consumer.seek(self._partitions[place], start)
        due = time.monotonic() + PATIENCE_S
        while left:
            before = dict(left)
            for record in self._polled.of(self._consumer.poll(self._patience), value_bytes_max):
                if record.place in left and record.offset < left[record.place][1]:
                    yield *record.place, record.offset, record.key, record.value
                    _pass(left, record.place, record.offset + 1)
            if left == before:
                self._look_where_it_is(left)
            if left != before:
                due = time.monotonic() + PATIENCE_S
                if left and (done := before.keys() - left.keys()):
                    self._consumer.pause(self._places(done))
            elif time.monotonic() > due:
                (topic, partition), (start, _) = next(iter(left.items()))
                raise RetryableError(f"Kafka does not send {topic}[{partition}] from offset {start} on")

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
