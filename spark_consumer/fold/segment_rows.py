"""A segment's rows on their way out of the records: on the driver where they are few, else by Spark.

In: a table's records, a shape, a segment. Out: Arrow slices of rows, bounded by rows and bytes (I9),
in the form of ``fold``, ``key_changes`` and ``keyless``. Which engine it was makes no difference to them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_consumer.fold import fold, keyless, local_fold
from spark_consumer.fold.key_changes import fold_by_chain
from spark_consumer.fold.local_events import Event, decoded_events
from spark_consumer.fold.schema_join import events, of_schema
from spark_consumer.fold.shape import TableShape
from spark_consumer.kafka.change_reader import TableRecords
from spark_consumer.kafka.slices import ONE_TASK_ROWS_MAX, Volume, in_slice, slices_of
from spark_consumer.plan.plan import Segment

_BY_POSITION = ("w.commit_lsn", "w.ordinal")


@dataclass(frozen=True)
class SegmentRows:
    """Rows of one segment; ``schema``: the types that they are wanted in."""

    records: TableRecords
    shape: TableShape
    segment: Segment

    @property
    def volume(self) -> Volume:
        """Of all records of the segment's schema."""
        return self.records.volumes.get(self.segment.schema_id, Volume())

    def as_they_are(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row an event."""
        if self._few is not None:
            return iter([local_fold.rows_as_they_are(self._few, self.shape, schema)])
        by = F.struct("partition", "offset")
        return self._slices_of_records(by, lambda some: fold.rows_as_they_are(some, self.shape))

    def folded_by_key(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key."""
        if self._few is not None:
            return iter([local_fold.fold_by_key(self._few, self.shape, schema)])
        return self._slices_of_records(F.col("key"), lambda some: fold.fold_by_key(some, self.shape))

    def folded_by_chain(self) -> Iterator[pa.Table]:
        """One row a key, key changes followed."""
        chained = fold_by_chain(self._events(self.records.frame()), self.shape)
        return slices_of(chained, F.struct(*_BY_POSITION), self.volume.slices)

    def netted(self) -> Iterator[pa.Table]:
        """One row a distinct row, of a table without a key."""
        net = keyless.net_rows(self._events(self.records.frame()), self.shape)
        return slices_of(net, F.struct(*_BY_POSITION), self.volume.slices)

    @cached_property
    def _few(self) -> list[Event] | None:
        if self.records.fetched is None:
            return None
        found = decoded_events(self.records.fetched, self.shape.relation, self.segment)
        return None if local_fold.needs_spark(found, self.shape) else found

    def _slices_of_records(self, by: Column, rows: Callable[[DataFrame], DataFrame]) -> Iterator[pa.Table]:
        """Slice by slice of the records: each record is decoded once."""
        slices = self.volume.slices
        for place in range(slices):
            frame = self.records.frame()
            some = frame if slices == 1 else frame.where(in_slice(by, place, slices))
            yield rows(self._events(some)).toArrow()

    def _events(self, records: DataFrame) -> DataFrame:
        few = self.volume.rows <= ONE_TASK_ROWS_MAX
        mine = of_schema(records, self.shape.relation)
        return events(mine.coalesce(1) if few else mine, self.shape.relation, self.segment)
