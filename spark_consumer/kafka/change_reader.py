"""Reads a plan's records: exactly its ranges, once, and counts them before any table is written.

In: a plan. Out: ``PlannedRecords``: the records, and how many and how large they are for each table.

- A very small plan is fetched by one consumer, without Spark.
- A small plan comes to the driver in one Spark job without a shuffle.
- A large plan is fetched by one consumer to the driver's disk, where the driver itself has the cores (``many/``).
- Else a large plan stays in Spark: one job measures each partition and fills a cache. Tables with few records then have
  them on the driver, all others as a DataFrame (topic, partition, offset, key, value).

Values of more than ``LARGE_BYTES`` are null in both: only their partition, offset and size are kept
(``LargeRecord``), and the decoder fetches them one at a time, so that no task, slice or batch exceeds its bound (I9).
If a count differs from that of the cuts, the table is in trouble (I7): records were lost, repeated or written by
another program.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce

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
from walbridge.spark_consumer.kafka.many.spooled_records import SpooledRecords, ignored
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
from walbridge.spark_consumer.kafka.ranges import RECORD, Rounds, rounds
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Plan

LOCAL_FOLD_MAX = Volume(rows=4_000, bytes=4 * 2**20)
"""Up to so many records of a table are decoded and folded on the driver, in a tenth of a second at most."""
LARGE_BYTES = 256 * 2**10
"""Larger values are fetched one by one. A slice has room for 128 values of this size, so slices differ little."""
FETCHED_MAX = Volume(rows=40_000, bytes=32 * 2**20)
"""Records of all tables of a plan that are on the driver at a time (I9)."""

Values = Callable[[Sequence[LargeRecord]], Iterator[tuple[LargeRecord, bytes]]]
"""Fetches the values of large records, one at a time."""


def one_consumer_rows(partitions: int) -> int:
    """Up to how many records of so many partitions one consumer is quicker than Spark.

    A thousand take it some ten milliseconds. Spark takes a quarter of a second, and 20 ms for each partition for which
    it has no consumer in its cache (``make bench``: job over many tables).
    """
    return 10_000 + 20 * partitions


FetchFew = Callable[[int], pa.Table | None]
"""Fetches all records as ``SIZED_RECORD``; None if a value has more bytes than the argument."""
FetchMany = Callable[[int], SpooledRecords | None]
"""Fetches all records to the driver's disk; None if a value has more bytes, or if Spark is to read them."""


def _no_values(_records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    return iter(())


def _spark_fetches(_value_bytes_max: int) -> None:
    """A ``FetchFew`` or ``FetchMany`` that leaves all records to Spark."""


@dataclass(frozen=True, slots=True)
class TableRecords:
    """A plan's records of one topic.

    ``fetched``: the same records as ``frame()``, on the driver, if they are few. ``on_slice`` is called after each
    slice and each large value, as a sign of progress.
    """

    frame: Callable[[], DataFrame]
    """topic, partition, offset, key, value (null where it is large); from Kafka unless they are here already."""
    volumes: Mapping[str | None, Volume]
    """Number and bytes of the records by frame id, large values not counted in bytes."""
    fetched: pa.Table | None
    large: Sequence[LargeRecord] = ()
    values: Values = _no_values
    on_slice: Callable[[], None] = ignored
    spooled: SpooledRecords | None = None
    """The records of all topics, on the driver's disk."""


class PlannedRecords:
    """The records of a plan, measured; read by the tables' threads."""

    def __init__(
        self,
        read: Callable[[], DataFrame],
        rows: Mapping[str, int],
        values: Values = _no_values,
        tasks: int | None = None,
        fetch_few: FetchFew = _spark_fetches,
        fetch_many: FetchMany = _spark_fetches,
    ) -> None:
        """
        Args:
            rows: how many records each topic must have.
            values: fetches large values.
            tasks: over how many tasks records are spread after fewer readers have read them; None: over no others.
            fetch_few: fetches all records without Spark, if they are small enough.
            fetch_many: likewise, to disk.
        """
        self._read = read
        self._frame: DataFrame | None = None
        self._tasks = tasks
        self._values = values
        self._is_persisted = False
        self._spooled: SpooledRecords | None = None
        self._lock = threading.RLock()
        self.measures: Sequence[Measure] = ()
        self.troubles: Mapping[str, TableError] = {}
        """By topic: why its records must not be applied."""
        fetched: pa.Table | None = None
        large: pa.Table | None = None
        total = sum(rows.values())
        if 0 < total <= FETCHED_MAX.rows and max(rows.values()) <= LOCAL_FOLD_MAX.rows:
            # No table has many records: one job without a shuffle. A value above its share is left out, and read later.
            share = FETCHED_MAX.bytes // total
            fetched = fetch_few(min(share, LARGE_BYTES))
            fetched = _fetch(self._records(), share) if fetched is None else fetched
            large = fetched.filter(pc.is_valid(fetched["large"]))
            self.measures = measured_here(fetched)
        elif total and (spooled := fetch_many(LARGE_BYTES)):
            self._spooled, self.measures = spooled, spooled.measures
            fetched = spooled.records(_topics_for_local_fold(self.measures))
        elif total:
            self.measures = measured(self.persisted())
            if any(measure.large for measure in self.measures):
                large = to_arrow(self._records().where("large is not null"))
            if topics := list(_topics_for_local_fold(self.measures)):
                fetched = _fetch(self._records().where(F.col("topic").isin(topics)), LOCAL_FOLD_MAX.bytes)
        self.large: Sequence[LargeRecord] = [] if large is None else found_large(large)
        self._volumes = volumes_by_topic(self.measures)
        self._fetched = {} if fetched is None else _by_topic(fetched)

    def of(self, topic: str) -> TableRecords:
        """The records of one topic.

        Raises:
            TableError: they are not what the cuts promise, or cannot be read.
        """
        if topic in self.troubles:
            raise self.troubles[topic]
        volumes = self._volumes.get(topic, {})
        few = self._fetched_of(topic, sum(volumes.values(), Volume()))
        frame = partial(self._from_spark, topic) if few is None else partial(self._from_driver, few)
        large = [record for record in self.large if record.topic == topic]
        return TableRecords(frame, volumes, few, large, self._values, spooled=self._spooled)

    def _records(self) -> DataFrame:
        """All records as a DataFrame, made when first asked for."""
        with self._lock:
            if self._frame is None:
                self._frame = without_large(sized(self._read()), LARGE_BYTES)
            return self._frame

    def persisted(self) -> DataFrame:
        """All records as a persisted DataFrame: read and decompressed once, in memory or on local disk."""
        with self._lock:
            records = self._records()
            if not self._is_persisted:
                spread = records if self._tasks is None else records.repartition(self._tasks, "offset")
                self._frame = records = spread.persist(StorageLevel.MEMORY_AND_DISK)
                self._is_persisted = True
        return records

    def close(self) -> None:
        """Unpersist the records, and delete those on disk."""
        if self._is_persisted:
            self._records().unpersist()
        if self._spooled is not None:
            self._spooled.close()

    def _from_spark(self, topic: str) -> DataFrame:
        with self._lock:
            if self._spooled is not None:  # not plain after all: Spark reads them, too
                self._spooled.plans.add_not_plain(topic)
                if not self._is_persisted:
                    with READING.of_plan():
                        self.persisted().count()
        return self.persisted().where(F.col("topic") == topic).select(*RECORD.names)

    def _from_driver(self, fetched: pa.Table) -> DataFrame:
        return self._records().sparkSession.createDataFrame(fetched.select(RECORD.names))

    def _fetched_of(self, topic: str, volume: Volume) -> pa.Table | None:
        mine = self._fetched.get(topic)
        if mine is None or not volume.fits(LOCAL_FOLD_MAX):
            return None
        is_whole = mine.num_rows == volume.rows and not pc.any(mine["is_left_out"], min_count=0).as_py()
        return mine if is_whole else None


def _topics_for_local_fold(measures: Iterable[Measure]) -> Iterator[str]:
    """The topics with few records, smallest first, until the driver may hold no more."""
    totals = {topic: sum(volumes.values(), Volume()) for topic, volumes in volumes_by_topic(measures).items()}
    left = FETCHED_MAX
    for topic, volume in sorted(totals.items(), key=lambda entry: entry[1].bytes):
        if volume.fits(LOCAL_FOLD_MAX) and volume.fits(left):
            left -= volume
            yield topic


def _by_topic(records: pa.Table) -> dict[str, pa.Table]:
    """The records by topic, in one pass however many topics there are."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, topic in enumerate(records["topic"].to_pylist()):
        indices[topic].append(index)
    return {topic: records.take(of_topic) for topic, of_topic in indices.items()}


@contextmanager
def planned_records(log: KafkaLog, plan: Plan, on_step: Callable[[], None] = ignored) -> Iterator[PlannedRecords]:
    """The records of a plan, until the block ends. A fault of one topic is raised when its records are asked for.

    Args:
        on_step: called whenever the driver has fetched or read some, as a sign of progress.

    Raises:
        RetryableError: the broker is away.
    """
    ranges = {
        partition_id: (part.start_offset, part.end_offset) for partition_id, part in plan.ranges.items() if part.records
    }
    troubles: dict[str, TableError] = dict(log.lost(ranges))
    ranges = {partition_id: of for partition_id, of in ranges.items() if partition_id[0] not in troubles}
    with READING.of_plan():
        for some in rounds(ranges, plan.gaps):
            troubles |= log.too_large(some)
    ranges = {partition_id: of for partition_id, of in ranges.items() if partition_id[0] not in troubles}
    planned = {partition_id: part for partition_id, part in plan.ranges.items() if partition_id[0] not in troubles}
    rows: Counter[str] = Counter()
    for part in planned.values():
        rows[part.topic] += part.records
    parts = rounds(ranges, plan.gaps)
    fetch_few = partial(_fetched_few, log, parts) if rows.total() <= one_consumer_rows(len(ranges)) else _spark_fetches
    with READING.of_plan():
        records = PlannedRecords(
            partial(_read, log, parts, plan.rows),
            rows,
            partial(_values_in_turn, log.values),
            tasks_of(log, plan.rows),
            fetch_few,
            partial(log.fetch_many, ranges, rows, on_step=on_step, gaps=plan.gaps),
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


def _read(log: KafkaLog, parts: Rounds, rows: int) -> DataFrame:
    frames = [log.read(some, rows) for some in parts] or [log.read({})]
    return frames[0] if len(frames) == 1 else reduce(DataFrame.unionByName, frames).coalesce(log.readers)


def _fetched_few(log: KafkaLog, parts: Rounds, value_bytes_max: int) -> pa.Table | None:
    found = [log.fetch_few(some, value_bytes_max) for some in parts]
    few = [each for each in found if each is not None]
    return pa.concat_tables(few) if len(few) == len(found) else None


def tasks_of(log: KafkaLog, rows: int) -> int | None:
    """Over how many tasks records are spread before they are folded, if fewer readers than cores may read at a time;
    None: they are not spread."""
    return log.cores if rows > TASK_ROWS and log.readers < log.cores else None


def _values_in_turn(values: Values, records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    """The same values, fetched while no other read of Kafka is under way."""
    with READING.of_plan():
        yield from values(records)


def other_counts(
    planned: Mapping[PartitionId, PartitionRange], counted: Mapping[PartitionId, tuple[int, int, int]]
) -> dict[str, TableError]:
    """By topic: the error of a partition whose records are not those that its cuts promise.

    Args:
        counted: records, first and last offset by partition.
    """
    found: dict[str, TableError] = {}
    for (topic, partition), part in planned.items():
        count, first, last = counted.get((topic, partition), (0, part.start_offset, part.end_offset - 1))
        if count != part.records or first < part.start_offset or last >= part.end_offset:
            found[topic] = TableError(
                f"{topic}[{partition}] holds {count} records in [{part.start_offset}, {part.end_offset}), "
                f"its cuts say {part.records}: the topic was changed from outside"
            )
    return found


def _fetch(records: DataFrame, value_bytes_max: int) -> pa.Table:
    """The records on the driver, without values above the limit, so that their total size is bounded (I9)."""
    is_left_out = F.col("size") > value_bytes_max
    limited = records.withColumn("is_left_out", is_left_out)
    return to_arrow(limited.withColumn("value", F.when(~is_left_out, F.col("value"))))


def found_large(found: pa.Table) -> list[LargeRecord]:
    """The large records of a table that holds nothing else."""
    names = ("topic", "partition", "offset", "key", "frame_id", "large")
    return [LargeRecord(*each) for each in zip(*(found[name].to_pylist() for name in names), strict=True)]
