"""A plan's records: exactly its ranges, in one read, counted before anything is touched.

In: a plan. Out: ``PlannedRecords``: a persisted DataFrame (topic, partition, offset, key, value) of
all its tables, and how much it holds of each. One job measures each partition and fills the cache;
a count that is not the cuts' stops the job (I7): something was lost, repeated or written by
somebody else. The records of tables that have few come to the driver, all in one more job.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.avro_codec import HEADER_BYTES, MARKER
from schemas.cut import PartitionRange
from schemas.errors import OperatorError
from spark_consumer.errors import sorted_error
from spark_consumer.kafka_log import KafkaLog, Place
from spark_consumer.plan import Plan
from spark_consumer.slices import Volume

FEW = Volume(rows=4_000, bytes=4 * 2**20)
"""Up to here a table's records are decoded on the driver, in a tenth of a second at most."""
FETCHED_MAX = Volume(rows=40_000, bytes=32 * 2**20)
"""Of all tables of a plan, on the driver at a time (I9)."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Records of one partition and schema id; None stands for values that are not single-object Avro."""

    topic: str
    partition: int
    schema_id: str | None
    volume: Volume
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class TableRecords:
    """A plan's records of one topic. ``fetched``: the same as ``frame``, where they are few."""

    of_plan: DataFrame
    topic: str
    volumes: Mapping[str | None, Volume]
    fetched: pa.Table | None

    @property
    def frame(self) -> DataFrame:
        """topic, partition, offset, key, value."""
        return self.of_plan.where(F.col("topic") == self.topic)


class PlannedRecords:
    """The records of a plan, measured; read by the tables' threads."""

    def __init__(self, frame: DataFrame, measures: Iterable[Measure]) -> None:
        self._frame = frame
        self._volumes: dict[str, dict[str | None, Volume]] = defaultdict(lambda: defaultdict(Volume))
        for measure in measures:
            self._volumes[measure.topic][measure.schema_id] += measure.volume
        self._fetched = self._fetch()

    def of(self, topic: str) -> TableRecords:
        """Those of one topic."""
        return TableRecords(self._frame, topic, self._volumes.get(topic, {}), self._fetched.get(topic))

    def _fetch(self) -> dict[str, pa.Table]:
        few = list(self._topics_of_few())
        if not few:
            return {}
        wanted = self._frame if len(few) == len(self._volumes) else self._frame.where(F.col("topic").isin(few))
        try:
            rows = wanted.toArrow()
        except Exception as error:
            raise sorted_error(error) from error
        return {topic: rows.filter(pc.equal(rows["topic"], topic)) for topic in few}

    def _topics_of_few(self) -> Iterator[str]:
        """The smallest first, as many as the driver may hold."""
        left = FETCHED_MAX
        totals = {topic: sum(found.values(), Volume()) for topic, found in self._volumes.items()}
        for topic, volume in sorted(totals.items(), key=lambda entry: entry[1].bytes):
            if volume.fits(FEW) and volume.fits(left):
                left -= volume
                yield topic


@contextmanager
def planned_records(log: KafkaLog, plan: Plan) -> Iterator[PlannedRecords]:
    """The records of a plan, in memory or on local disk until the block ends.

    Raises:
        OperatorError: records are gone, never become visible, or their count is not the cuts'.
        RetryableError: the broker is away.
    """
    ranges = {place: (part.start_offset, part.end_offset) for place, part in plan.ranges.items() if part.records}
    if ranges:
        log.wait_visible(ranges)
    records = log.read(ranges, plan.rows).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        measures = measured(records) if ranges else []
        refuse_other_counts(plan.ranges, _counted(measures))
        yield PlannedRecords(records, measures)
    finally:
        records.unpersist()


def refuse_other_counts(planned: Mapping[Place, PartitionRange], counted: Mapping[Place, tuple[int, int, int]]) -> None:
    """``counted``: records, first and last offset by partition.

    Raises:
        OperatorError: a partition whose records are not exactly those that its cuts promise.
    """
    for place, part in planned.items():
        count, first, last = counted.get(place, (0, part.start_offset, part.end_offset - 1))
        if count != part.records or first < part.start_offset or last >= part.end_offset:
            raise OperatorError(
                f"{place[0]}[{place[1]}] holds {count} records in [{part.start_offset}, {part.end_offset}), "
                f"its cuts say {part.records}",
                remedy="the topic was changed from outside: start with an empty lake and a new slot",
            )


def measured(records: DataFrame) -> list[Measure]:
    """What the records hold, in one job.

    Raises:
        RetryableError: the broker went away.
    """
    framed = (F.substring("value", 1, len(MARKER)) == F.lit(bytearray(MARKER))) & (F.length("value") > HEADER_BYTES)
    schema_id = F.when(framed, F.lower(F.hex(F.substring("value", len(MARKER) + 1, HEADER_BYTES - len(MARKER)))))
    found = records.groupBy("topic", "partition", schema_id.alias("schema_id")).agg(
        F.count(F.lit(1)), F.sum(F.coalesce(F.length("value"), F.lit(0))), F.min("offset"), F.max("offset")
    )
    try:
        return [
            Measure(topic, partition, of, Volume(rows, size), first, last)
            for topic, partition, of, rows, size, first, last in found.collect()
        ]
    except Exception as error:
        raise sorted_error(error) from error


def _counted(measures: Iterable[Measure]) -> dict[Place, tuple[int, int, int]]:
    """Records, first and last offset by partition."""
    counted: dict[Place, tuple[int, int, int]] = {}
    for each in measures:
        place = each.topic, each.partition
        count, first, last = counted.get(place, (0, each.first_offset, each.last_offset))
        counted[place] = count + each.volume.rows, min(first, each.first_offset), max(last, each.last_offset)
    return counted
