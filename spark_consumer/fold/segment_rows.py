"""A segment's rows on their way out of the records: on the driver where they are few, else by Spark.

In: a table's records, a shape, a segment. Out: Arrow slices of rows, bounded by rows and bytes (I9),
in the form of ``fold``, ``key_changes`` and ``keyless``. Which engine it was makes no difference to them.
Large records take part as small ones that stand for them (``large_values``), and are whole again
in the rows that come out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from walbridge.schemas.errors import ProtocolError
from walbridge.spark_consumer.fold import fold, keyless, large_values, local_fold
from walbridge.spark_consumer.fold.key_changes import fold_by_chain
from walbridge.spark_consumer.fold.large_values import LargeValues
from walbridge.spark_consumer.fold.local_events import Event, decoded_events
from walbridge.spark_consumer.fold.schema_join import events, malformed_records, of_schema, place_name
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.ranges import RECORD
from walbridge.spark_consumer.kafka.slices import (
    ONE_TASK_ROWS_MAX,
    Volume,
    conformed,
    handed_over,
    in_slice,
    pieces_of,
    slices_of,
    slices_of_held,
)
from walbridge.spark_consumer.plan.plan import Segment

REPEATED_MAX = 50_000
"""Keys that come more than once; with more of them, all are folded."""
_HASH = "_hash"


@dataclass(frozen=True)
class SegmentRows:
    """Rows of one segment; ``schema``: the types that they are wanted in."""

    records: TableRecords
    shape: TableShape
    segment: Segment

    @property
    def volume(self) -> Volume:
        """Of all records of the segment's schema."""
        return self.records.volumes.get(self.shape.relation.frame_id, Volume())

    def close(self) -> None:
        """Let go of what was set aside on disk."""
        if "_large_values" in vars(self):  # made when first asked for
            self._large_values.close()

    def as_they_are(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row an event."""
        if self._few is not None:
            return self._whole([local_fold.rows_as_they_are(self._few, self.shape, schema)], schema)
        by = F.struct("partition", "offset")
        return self._whole(
            self._slices_of_records(by, lambda some: fold.rows_as_they_are(self._events(some), self.shape)), schema
        )

    @property
    def is_whole(self) -> bool:
        """Whether Spark has the rows as they are, since none of them holds a large value."""
        return not self._large

    def frame_as_they_are(self) -> DataFrame:
        """One row an event, in Spark."""
        return self._as_they_are(self._frame())

    def frame_by_key(self) -> DataFrame:
        """One row a key, in Spark."""
        return self._folded(self._frame())

    def folded_by_key(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key."""
        if self._few is not None:
            return self._whole([local_fold.fold_by_key(self._few, self.shape, schema)], schema)
        return self._whole(self._slices_of_records(F.col("key"), self._folded), schema)

    def held_by_key(self, held: DataFrame, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key, of a ``frame_by_key`` that Spark holds."""
        return self._whole(slices_of_held(held, self._key, self.volume), schema)

    def folded_by_chain(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key, key changes followed."""
        events = self._events(self._frame())
        chained = fold_by_chain(events, self.shape, has_large=self._small is not None)
        return self._whole(slices_of(chained, self._key, self.volume), schema)

    def row_deltas(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a distinct row, of a table without a key."""
        net = keyless.row_deltas(self._events(self._frame()), self.shape)
        return self._whole(slices_of(net, keyless.values_apart(self.shape), self.volume), schema)

    @property
    def _key(self) -> Column:
        """What tells folded rows apart. Positions do not: all rows of a copy may stand at one."""
        return F.struct(*map(place_name, self.shape.key_places), "change.key_text")

    @cached_property
    def _few(self) -> list[Event] | None:
        fetched = self.records.fetched
        if fetched is None:
            return None
        if self._small is not None:
            fetched = pa.concat_tables([fetched.select(self._small.column_names), self._small.cast(_types(fetched))])
        found = decoded_events(fetched, self.shape.relation, self.segment)
        # All of the segment, since two engines would each fold a part of a key's events.
        return None if local_fold.needs_spark(found, self.shape) else found

    @cached_property
    def _large_values(self) -> LargeValues:
        return LargeValues(self.shape)

    @property
    def _large(self) -> list[LargeRecord]:
        """Those of the segment's schema, where they stand."""
        return [record for record in self.records.large if record.frame_id == self.shape.relation.frame_id]

    @cached_property
    def _small(self) -> pa.Table | None:
        """Records that stand for the large ones of this schema; None where there are none."""
        if not self._large:
            return None
        rows = []
        for record, value in chain(self.records.values(self._large), self._wide() if self._compares_rows else ()):
            try:
                small = self._large_values.stand_in(value)
            except (ProtocolError, LookupError, TypeError):
                place = f"partition {record.partition} offsets {record.offset} to {record.offset}"
                raise malformed_records(self.shape.relation, [place]) from None
            rows.append((record.topic, record.partition, record.offset, record.key, small))
            self.records.on_slice()
        return pa.table([list(column) for column in zip(*rows, strict=True)], schema=RECORD)

    @property
    def _compares_rows(self) -> bool:
        return self.shape.is_keyless and not self.segment.copies

    def _wide(self) -> Iterator[tuple[LargeRecord, bytes]]:
        """All other records that may hold such a value: rows are compared, so equal values need equal tokens."""
        frame = self.records.frame()
        wide = of_schema(frame, self.shape.relation).where(F.length("value") > large_values.VALUE_BYTES_MAX)
        for index in range(self.volume.slices):
            by = in_slice(F.struct("partition", "offset"), index, self.volume.slices)
            for row in handed_over(wide.where(by), self.volume).to_pylist():
                value = row.pop("value")
                yield LargeRecord(**row, frame_id=self.shape.relation.frame_id, size=len(value)), value

    def _whole(self, slices: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows with the large values that they were folded without."""
        heard = self._heard(slices)
        if self._small is None:
            return heard
        return self._large_values.restored(conformed(some, schema) for some in heard)

    def _heard(self, slices: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for some in slices:
            self.records.on_slice()
            yield some

    def _frame(self) -> DataFrame:
        frame = self.records.frame()
        if self._small is None:
            return frame
        if self._compares_rows:
            frame = frame.where(F.length("value") <= large_values.VALUE_BYTES_MAX)
        return frame.unionByName(frame.sparkSession.createDataFrame(self._small))

    def _slices_of_records(self, by: Column, rows: Callable[[DataFrame], DataFrame]) -> Iterator[pa.Table]:
        """Slice by slice of the records: each record is decoded once."""
        with pieces_of(self._frame(), by, self.volume.slices) as piece:
            for index in range(self.volume.slices):
                yield handed_over(rows(piece(index)), self.volume)

    def _as_they_are(self, records: DataFrame) -> DataFrame:
        return fold.rows_as_they_are(self._events(records), self.shape)

    def _folded(self, records: DataFrame) -> DataFrame:
        """One row a key. Most keys of a large segment come once, and those need no fold."""
        has_large, repeated = self._small is not None, self._repeated
        if repeated is None:
            return fold.fold_by_key(self._events(records), self.shape, has_large=has_large)
        if repeated.num_rows == 0:
            return fold.rows_of_single_events(self._events(records), self.shape, has_large=has_large)
        hashed = records.withColumn(_HASH, F.xxhash64("key"))
        hashes = F.broadcast(records.sparkSession.createDataFrame(repeated))
        once, often = (hashed.join(hashes, _HASH, how) for how in ("left_anti", "left_semi"))
        single = fold.rows_of_single_events(self._events(once), self.shape, has_large=has_large)
        return single.unionByName(fold.fold_by_key(self._events(often), self.shape, has_large=has_large))

    @cached_property
    def _repeated(self) -> pa.Table | None:
        """Hashes of keys that come more than once; None where all are folded, since they are many or the records few.

        Two keys of one hash are folded for nothing, each by itself.
        """
        if self.volume.rows <= ONE_TASK_ROWS_MAX:
            return None
        mine = of_schema(self._frame(), self.shape.relation).select(F.xxhash64("key").alias(_HASH))
        found = mine.groupBy(_HASH).count().where("count > 1").select(_HASH).limit(REPEATED_MAX + 1).toArrow()
        return found if found.num_rows <= REPEATED_MAX else None

    def _events(self, records: DataFrame) -> DataFrame:
        few = self.volume.rows <= ONE_TASK_ROWS_MAX
        mine = of_schema(records, self.shape.relation)
        return events(mine.coalesce(1) if few else mine, self.shape.relation, self.segment)


def _types(records: pa.Table) -> pa.Schema:
    return records.select(RECORD.names).schema
