"""The rows of a segment, made from its records: on the driver where they are few, else by Spark.

In: a table's records, a shape, a segment. Out: Arrow slices of rows, bounded by rows and bytes (I9),
as ``fold``, ``key_changes`` and ``keyless`` describe them; both engines give the same rows.
Small records stand in for large ones while rows are folded (``large_values``); the rows that come out have
their large values again.
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
from walbridge.spark_consumer.fold.columns.column_rows import ColumnRows
from walbridge.spark_consumer.fold.key_changes import fold_by_chain
from walbridge.spark_consumer.fold.large_values import LargeValues
from walbridge.spark_consumer.fold.local_events import Event, decoded_events
from walbridge.spark_consumer.fold.schema_join import events, malformed_records, place_name, records_of_schema
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.ranges import RECORD
from walbridge.spark_consumer.kafka.slices import (
    ONE_TASK_ROWS_MAX,
    Volume,
    conformed,
    gathered,
    in_slice,
    pieces_of,
    slices_of,
    slices_of_persisted,
    to_driver,
)
from walbridge.spark_consumer.plan.plan import Segment

REPEATED_MAX = 50_000
"""Keys that come more than once; with more of them, all are folded."""
_HASH = "_hash"


@dataclass(frozen=True)
class SegmentRows:
    """The rows of one segment. ``schema``, where it is asked for: the types of the rows that come out."""

    records: TableRecords
    shape: TableShape
    segment: Segment

    @property
    def volume(self) -> Volume:
        """How much all records of the segment's schema are."""
        return self.records.volumes.get(self.shape.relation.frame_id, Volume())

    def close(self) -> None:
        """Delete the large values that were set aside on disk."""
        if "_large_values" in vars(self):  # made when first asked for
            self._large_values.close()

    def unfolded(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row an event.

        Raises:
            NotPlain: while slices are read, if the rows were to be decoded by columns.
        """
        if self._by_column is not None:
            return self._reporting_progress(gathered(self._by_column.unfolded(schema)))
        if self._local_events is not None:
            return self._with_large_values([local_fold.unfolded_rows(self._local_events, self.shape, schema)], schema)
        by = F.struct("partition", "offset")
        return self._with_large_values(
            self._slices_of_records(by, lambda some: fold.unfolded_rows(self._events(some), self.shape)), schema
        )

    @property
    def _by_column(self) -> ColumnRows | None:
        found = self.records.spooled
        return None if found is None or self._large_records else ColumnRows(found, self.shape, self.segment)

    @property
    def has_no_large_values(self) -> bool:
        """Whether Spark holds complete rows, since no record is large."""
        return not self._large_records

    def unfolded_frame(self) -> DataFrame:
        """One row an event, in Spark."""
        return self._unfolded(self._frame())

    def frame_by_key(self) -> DataFrame:
        """One row a key, in Spark."""
        return self._folded(self._frame())

    def folded_by_key(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key.

        Raises:
            NotPlain: as ``unfolded``.
        """
        if self._by_column is not None:
            return self._reporting_progress(gathered(self._by_column.folded_by_key(schema)))
        if self._local_events is not None:
            return self._with_large_values([local_fold.fold_by_key(self._local_events, self.shape, schema)], schema)
        return self._with_large_values(self._slices_of_records(F.col("key"), self._folded), schema)

    def persisted_by_key(self, held: DataFrame, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key, from a ``frame_by_key`` that Spark has persisted."""
        return self._with_large_values(slices_of_persisted(held, self._key, self.volume), schema)

    def folded_by_chain(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key, key changes followed."""
        events = self._events(self._frame())
        chained = fold_by_chain(events, self.shape, has_large=self._stand_ins is not None)
        return self._with_large_values(slices_of(chained, self._key, self.volume), schema)

    def row_deltas(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row for each distinct source row, with its ``net``, of a table without a key."""
        net = keyless.row_deltas(self._events(self._frame()), self.shape)
        return self._with_large_values(slices_of(net, keyless.distinguishing_values(self.shape), self.volume), schema)

    @property
    def _key(self) -> Column:
        """A value that differs between any two folded rows. Positions may be equal: those of copied rows are."""
        return F.struct(*map(place_name, self.shape.key_places), "change.key_text")

    @cached_property
    def _local_events(self) -> list[Event] | None:
        fetched = self.records.fetched
        if fetched is None:
            return None
        if self._stand_ins is not None:
            fetched = pa.concat_tables(
                [fetched.select(self._stand_ins.column_names), self._stand_ins.cast(_types(fetched))]
            )
        found = decoded_events(fetched, self.shape.relation, self.segment)
        # Spark then folds the whole segment: with two engines each would fold a part of a key's events.
        return None if local_fold.needs_spark(found, self.shape) else found

    @cached_property
    def _large_values(self) -> LargeValues:
        return LargeValues(self.shape)

    @property
    def _large_records(self) -> list[LargeRecord]:
        """The large records of the segment's schema: where they are in Kafka."""
        return [record for record in self.records.large if record.frame_id == self.shape.relation.frame_id]

    @cached_property
    def _stand_ins(self) -> pa.Table | None:
        """The small records that stand in for large ones of this schema; None where there are none."""
        if not self._large_records:
            return None
        rows = []
        for record, value in chain(
            self.records.values(self._large_records), self._other_wide_records() if self._compares_rows else ()
        ):
            try:
                small = self._large_values.stand_in(value)
            except (ProtocolError, LookupError, TypeError):
                place = f"partition {record.partition} offsets {record.offset} to {record.offset}"
                raise malformed_records(self.shape.relation, [place]) from None
            rows.append((record.topic, record.partition, record.offset, record.key, small))
            self.records.on_step()
        return pa.table([list(column) for column in zip(*rows, strict=True)], schema=RECORD)

    @property
    def _compares_rows(self) -> bool:
        return self.shape.is_keyless and not self.segment.is_copied

    def _other_wide_records(self) -> Iterator[tuple[LargeRecord, bytes]]:
        """All other records that may hold a value which is set aside: rows are compared, so equal values need equal
        tokens."""
        frame = self.records.frame()
        wide = records_of_schema(frame, self.shape.relation).where(F.length("value") > large_values.VALUE_BYTES_MAX)
        for index in range(self.volume.slices):
            by = in_slice(F.struct("partition", "offset"), index, self.volume.slices)
            for row in to_driver(wide.where(by), self.volume).to_pylist():
                value = row.pop("value")
                yield LargeRecord(**row, frame_id=self.shape.relation.frame_id, size=len(value)), value

    def _with_large_values(self, slices: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows with the large values that they were folded without."""
        slices = self._reporting_progress(slices)
        if self._stand_ins is None:
            return slices
        return self._large_values.restored(conformed(some, schema) for some in slices)

    def _reporting_progress(self, slices: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for some in slices:
            self.records.on_step()
            yield some

    def _frame(self) -> DataFrame:
        frame = self.records.frame()
        if self._stand_ins is None:
            return frame
        if self._compares_rows:
            frame = frame.where(F.length("value") <= large_values.VALUE_BYTES_MAX)
        return frame.unionByName(frame.sparkSession.createDataFrame(self._stand_ins))

    def _slices_of_records(self, by: Column, rows: Callable[[DataFrame], DataFrame]) -> Iterator[pa.Table]:
        """The rows of one slice of the records after another, so that each record is decoded once."""
        with pieces_of(self._frame(), by, self.volume.slices) as piece:
            for index in range(self.volume.slices):
                yield to_driver(rows(piece(index)), self.volume)

    def _unfolded(self, records: DataFrame) -> DataFrame:
        return fold.unfolded_rows(self._events(records), self.shape)

    def _folded(self, records: DataFrame) -> DataFrame:
        """One row a key. Most keys of a large segment come once, and those need no fold."""
        has_large, repeated = self._stand_ins is not None, self._repeated
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
        """Hashes of the keys with more than one event; None where all are folded: there are many, or few records.

        Two keys with one hash are folded needlessly, but each by itself.
        """
        if self.volume.rows <= ONE_TASK_ROWS_MAX:
            return None
        mine = records_of_schema(self._frame(), self.shape.relation).select(F.xxhash64("key").alias(_HASH))
        found = mine.groupBy(_HASH).count().where("count > 1").select(_HASH).limit(REPEATED_MAX + 1).toArrow()
        return found if found.num_rows <= REPEATED_MAX else None

    def _events(self, records: DataFrame) -> DataFrame:
        few = self.volume.rows <= ONE_TASK_ROWS_MAX
        mine = records_of_schema(records, self.shape.relation)
        return events(mine.coalesce(1) if few else mine, self.shape.relation, self.segment)


def _types(records: pa.Table) -> pa.Schema:
    return records.select(RECORD.names).schema
