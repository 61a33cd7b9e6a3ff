"""A plan's records: exactly its ranges, in one read, counted before anything is touched.

In: a plan. Out: ``PlannedRecords``: how much it holds of each table, and the records themselves. A very small
plan is fetched by one consumer, without Spark. A small one comes to the driver in one job without a shuffle.
A large one stays in Spark: one job measures each partition and fills a cache. Tables of few records then have
them on the driver, all others as a DataFrame (topic, partition, offset, key, value). Values of more than
``LARGE_BYTES`` are in neither, and null there: of them only place and size are kept (``LargeRecord``), and
whoever decodes asks for them one at a time, so that no task, slice or batch is larger than its bound (I9). A
count that is not the cuts' is the trouble of its table (I7): something was lost, repeated or written by
somebody else.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from walbridge.schemas.control.cut import PartitionId, PartitionRange
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.kafka.driver_heap import READING
from walbridge.spark_consumer.kafka.kafka_log import TASK_ROWS, KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.measures import (
    Measure,
    counted_by_partition,
    measured,
    measured_here,
    sized,
    to_arrow,
    volumes_by_topic,
    without_large,
)
from walbridge.spark_consumer.kafka.ranges import RECORD
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Plan

FEW = Volume(rows=4_000, bytes=4 * 2**20)
"""Up to here a table's records are decoded on the driver, in a tenth of a second at most."""
LARGE_BYTES = 256 * 2**10
"""Larger values are read one by one. A slice has room for 128 of this size, so slices differ little in size."""
FETCHED_MAX = Volume(rows=40_000, bytes=32 * 2**20)
"""Of all tables of a plan, on the driver at a time (I9)."""

Values = Callable[[Sequence[LargeRecord]], Iterator[tuple[LargeRecord, bytes]]]
"""Fetches the values of large records, one at a time."""


def one_consumer_rows(partitions: int) -> int:
    """Records of so many partitions that one consumer fetches before Spark would have them.

    A thousand take it some ten milliseconds. Spark takes a quarter of a second, and 20 ms for each partition of which
    it has no consumer any more (``make bench``: job over many tables).
    """
    return 10_000 + 20 * partitions


Few = Callable[[int], pa.Table | None]
"""Fetches all records as ``SIZED_RECORD`` unless a value has more bytes than that."""


def _no_values(_records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    return iter(())


def _not_few(_value_bytes_max: int) -> None:
    """Spark reads them."""


def _unheard() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class TableRecords:
    """A plan's records of one topic.

    ``fetched``: those of ``frame()`` on the driver, if they are few. ``on_slice`` is called for each slice
    and each large value that was handed over, as a sign of progress.
    """

    frame: Callable[[], DataFrame]
    """topic, partition, offset, key, value (null where it is large); from Kafka unless they are here already."""
    volumes: Mapping[str | None, Volume]
    """Bytes without those of large values."""
    fetched: pa.Table | None
    large: Sequence[LargeRecord] = ()
    values: Values = _no_values
    on_slice: Callable[[], None] = _unheard


class PlannedRecords:
    """The records of a plan, measured; read by the tables' threads."""

    def __init__(
        self,
        read: Callable[[], DataFrame],
        rows: Mapping[str, int],
        values: Values = _no_values,
        tasks: int | None = None,
        few: Few = _not_few,
    ) -> None:
        """``rows``: how many records each topic must have. ``values``: fetches large values. ``tasks``: over
        how many tasks the records are spread once fewer readers have read them; None: they stay where they are."""
        self._read = read
        self._frame: DataFrame | None = None
        self._tasks = tasks
        self._values = values
        self._is_persisted = False
        self._lock = threading.RLock()
        self.measures: Sequence[Measure] = ()
        self.troubles: Mapping[str, TableError] = {}
        """By topic: why its records are not to be taken."""
        fetched: pa.Table | None = None
        large: pa.Table | None = None
        total = sum(rows.values())
        if 0 < total <= FETCHED_MAX.rows and max(rows.values()) <= FEW.rows:
            # No table has many: one job without a shuffle. A value above its share is null here and read again later.
            share = FETCHED_MAX.bytes // total
            fetched = few(min(share, LARGE_BYTES))
            fetched = _fetch(self._records(), share) if fetched is None else fetched
            large = fetched.filter(pc.is_valid(fetched["large"]))
            self.measures = measured_here(fetched)
        elif total:
            self.measures = measured(self.persisted())
            if any(measure.large for measure in self.measures):
                large = to_arrow(self._records().where("large is not null"))
            if topics := list(_topics_of_few(self.measures)):
                fetched = _fetch(self._records().where(F.col("topic").isin(topics)), FEW.bytes)
        self.large: Sequence[LargeRecord] = [] if large is None else found_large(large)
        self._volumes = volumes_by_topic(self.measures)
        self._fetched = {} if fetched is None else _by_topic(fetched)

    def of(self, topic: str) -> TableRecords:
        """Those of one topic.

        Raises:
            TableError: they are not what the cuts promise, or cannot be had.
        """
        if topic in self.troubles:
            raise self.troubles[topic]
        volumes = self._volumes.get(topic, {})
        few = self._few_of(topic, sum(volumes.values(), Volume()))
        frame = partial(self._from_spark, topic) if few is None else partial(self._from_driver, few)
        large = [record for record in self.large if record.topic == topic]
        return TableRecords(frame, volumes, few, large, self._values)

    def _records(self) -> DataFrame:
        """All of them as Spark has them: asked for only where Spark is."""
        with self._lock:
            if self._frame is None:
                self._frame = without_large(sized(self._read()), LARGE_BYTES)
            return self._frame

    def persisted(self) -> DataFrame:
        """All of them, read and decompressed once, in memory or on local disk."""
        with self._lock:
            records = self._records()
            if not self._is_persisted:
                spread = records if self._tasks is None else records.repartition(self._tasks, "offset")
                self._frame = records = spread.persist(StorageLevel.MEMORY_AND_DISK)
                self._is_persisted = True
        return records

    def close(self) -> None:
        """Let go of them."""
        if self._is_persisted:
            self._records().unpersist()

    def _from_spark(self, topic: str) -> DataFrame:
        return self.persisted().where(F.col("topic") == topic).select(*RECORD.names)

    def _from_driver(self, fetched: pa.Table) -> DataFrame:
        return self._records().sparkSession.createDataFrame(fetched.select(RECORD.names))

    def _few_of(self, topic: str, volume: Volume) -> pa.Table | None:
        mine = self._fetched.get(topic)
        if mine is None or not volume.fits(FEW):
            return None
        is_whole = mine.num_rows == volume.rows and not pc.any(mine["is_left_out"], min_count=0).as_py()
        return mine if is_whole else None


def _topics_of_few(measures: Iterable[Measure]) -> Iterator[str]:
    """The topics of few records, those of fewest bytes first, as many as the driver may hold."""
    totals = {topic: sum(volumes.values(), Volume()) for topic, volumes in volumes_by_topic(measures).items()}
    left = FETCHED_MAX
    for topic, volume in sorted(totals.items(), key=lambda entry: entry[1].bytes):
        if volume.fits(FEW) and volume.fits(left):
            left -= volume
            yield topic


def _by_topic(records: pa.Table) -> dict[str, pa.Table]:
    """The records by topic, in one pass however many topics there are."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, topic in enumerate(records["topic"].to_pylist()):
        places[topic].append(place)
    return {topic: records.take(of) for topic, of in places.items()}


@contextmanager
def planned_records(log: KafkaLog, plan: Plan) -> Iterator[PlannedRecords]:
    """The records of a plan, until the block ends. What is wrong with one topic is raised to whoever asks for it.

    Raises:
        RetryableError: the broker is away.
    """
    ranges = {place: (part.start_offset, part.end_offset) for place, part in plan.ranges.items() if part.records}
    troubles: dict[str, TableError] = dict(log.lost(ranges))
    with READING.of_plan():
        troubles |= log.too_large({place: of for place, of in ranges.items() if place[0] not in troubles})
    ranges = {place: of for place, of in ranges.items() if place[0] not in troubles}
    planned = {place: part for place, part in plan.ranges.items() if place[0] not in troubles}
    rows: Counter[str] = Counter()
    for part in planned.values():
        rows[part.topic] += part.records
    few = partial(log.few, ranges) if rows.total() <= one_consumer_rows(len(ranges)) else _not_few
    with READING.of_plan():
        records = PlannedRecords(
            partial(log.read, ranges, plan.rows), rows, partial(_alone, log.values), tasks_of(log, plan.rows), few
        )
    try:
        troubles |= other_counts(planned, counted_by_partition(records.measures))
        for each in records.large:
            if each.size > log.heap.largest_record:
                troubles[each.topic] = log.heap.too_large(each.topic, each.partition, each.offset, each.size)
        records.troubles = troubles
        yield records
    finally:
        records.close()


def tasks_of(log: KafkaLog, rows: int) -> int | None:
    """Over how many tasks so many records are spread before they are folded, where large records allow fewer readers
    than there are cores; None: they stay where they are."""
    return log.cores if rows > TASK_ROWS and log.readers < log.cores else None


def _alone(values: Values, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    """The same, while nobody else has Kafka read."""
    with READING.of_plan():
        yield from values(records)


def other_counts(
    planned: Mapping[PartitionId, PartitionRange], counted: Mapping[PartitionId, tuple[int, int, int]]
) -> dict[str, TableError]:
    """By topic: partitions whose records are not exactly those that their cuts promise.

    Args:
        counted: records, first and last offset by partition.
    """
    found: dict[str, TableError] = {}
    for place, part in planned.items():
        count, first, last = counted.get(place, (0, part.start_offset, part.end_offset - 1))
        if count != part.records or first < part.start_offset or last >= part.end_offset:
            found[place[0]] = TableError(
                f"{place[0]}[{place[1]}] holds {count} records in [{part.start_offset}, {part.end_offset}), "
                f"its cuts say {part.records}: the topic was changed from outside"
            )
    return found


def _fetch(records: DataFrame, value_bytes_max: int) -> pa.Table:
    """The records on the driver; values above the limit are left out, so that all of them have a bound (I9)."""
    is_left_out = F.col("size") > value_bytes_max
    limited = records.withColumn("is_left_out", is_left_out)
    return to_arrow(limited.withColumn("value", F.when(~is_left_out, F.col("value"))))


def found_large(found: pa.Table) -> list[LargeRecord]:
    """The large ones among records, which are all that there are of them here."""
    names = ("topic", "partition", "offset", "key", "frame_id", "large")
    return [LargeRecord(*each) for each in zip(*(found[name].to_pylist() for name in names), strict=True)]
