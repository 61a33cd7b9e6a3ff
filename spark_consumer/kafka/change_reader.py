"""The records of a plan, read once and measured before any table is written.

In: ways to fetch them (``plan_reader.py``). Out: ``PlannedRecords``: the records, and how many and how large they are
for each table.

- A very small plan is fetched by one consumer, without Spark.
- A small plan comes to the driver in one Spark job without a shuffle.
- A large plan is fetched by one consumer to the driver's disk, where the driver itself has the cores (``many/``).
- Else a large plan stays in Spark: one job measures each partition and fills a cache. Tables with few records then have
  them on the driver, all others as a DataFrame (topic, partition, offset, key, value).

Values of more than ``LARGE_BYTES`` are null in both: only their partition, offset and size are kept
(``LargeRecord``), and the decoder fetches them one at a time, so that no task, slice or batch exceeds its bound (I9).
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.kafka.driver_heap import READING
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.many.spooled_records import SpooledRecords, ignored
from walbridge.spark_consumer.kafka.measures import (
    Measure,
    measured,
    measured_here,
    sized,
    to_arrow,
    volumes_by_topic,
    without_large,
)
from walbridge.spark_consumer.kafka.ranges import RECORD
from walbridge.spark_consumer.kafka.slices import Volume

LOCAL_FOLD_MAX = Volume(rows=4_000, bytes=4 * 2**20)
"""Up to so many records of a table are decoded and folded on the driver, in a tenth of a second at most."""
LARGE_BYTES = 256 * 2**10
"""Larger values are fetched one by one. A slice has room for 128 values of this size, so slices differ little."""
FETCHED_MAX = Volume(rows=40_000, bytes=32 * 2**20)
"""Records of all tables of a plan that are on the driver at a time (I9)."""

Values = Callable[[Sequence[LargeRecord]], Iterator[tuple[LargeRecord, bytes]]]
"""Fetches the values of large records, one at a time."""


FetchFew = Callable[[int], pa.Table | None]
"""Fetches all records as ``SIZED_RECORD``; None if a value has more bytes than the argument."""
FetchMany = Callable[[int, Callable[[], None]], SpooledRecords | None]
"""Likewise to the driver's disk, with a sign of progress; None also if Spark is to read them."""


def _no_values(_records: Sequence[LargeRecord]) -> Iterator[tuple[LargeRecord, bytes]]:
    return iter(())


def spark_fetches(_value_bytes_max: int, _on_step: Callable[[], None] = ignored) -> None:
    """A ``FetchFew`` or ``FetchMany`` that leaves all records to Spark."""


@dataclass(frozen=True, slots=True)
class TableRecords:
    """A plan's records of one topic.

    ``fetched``: the same records as ``frame()``, on the driver, if they are few. ``on_step`` is called after each
    slice, each chunk and each large value, as a sign of progress.
    """

    frame: Callable[[], DataFrame]
    """topic, partition, offset, key, value (null where it is large); from Kafka unless they are here already."""
    volumes: Mapping[str | None, Volume]
    """Number and bytes of the records by frame id, large values not counted in bytes."""
    fetched: pa.Table | None
    large: Sequence[LargeRecord] = ()
    values: Values = _no_values
    on_step: Callable[[], None] = ignored
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
        fetch_few: FetchFew = spark_fetches,
        fetch_many: FetchMany = spark_fetches,
        on_step: Callable[[], None] = ignored,
    ) -> None:
        """
        Args:
            rows: how many records each topic must have.
            values: fetches large values.
            tasks: over how many tasks records are spread after fewer readers have read them; None: over no others.
            fetch_few: fetches all records without Spark, if they are small enough.
            fetch_many: likewise, to disk.
            on_step: as in ``TableRecords``; also called whenever the driver has fetched some.
        """
        self._read = read
        self._frame: DataFrame | None = None
        self._tasks = tasks
        self._values, self._on_step = values, on_step
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
        elif total and (spooled := fetch_many(LARGE_BYTES, on_step)):
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
        return TableRecords(frame, volumes, few, large, self._values, self._on_step, self._spooled)

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


def _fetch(records: DataFrame, value_bytes_max: int) -> pa.Table:
    """The records on the driver, without values above the limit, so that their total size is bounded (I9)."""
    is_left_out = F.col("size") > value_bytes_max
    limited = records.withColumn("is_left_out", is_left_out)
    return to_arrow(limited.withColumn("value", F.when(~is_left_out, F.col("value"))))


def found_large(found: pa.Table) -> list[LargeRecord]:
    """The large records of a table that holds nothing else."""
    names = ("topic", "partition", "offset", "key", "frame_id", "large")
    return [LargeRecord(*each) for each in zip(*(found[name].to_pylist() for name in names), strict=True)]
