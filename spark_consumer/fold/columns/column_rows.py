"""Many records to rows, column by column: what ``fold`` does in Spark, for plain records.

In: a topic's records on disk, a shape, a segment. Out: Arrow slices of a chunk each, in the form and the types that
``apply.changes`` takes. What is not plain raises NotPlain, before or between two slices: Spark, or the driver's fold,
then makes all rows of the segment. Not plain are exceptional texts, columns that were left out, values in lists and
maps.

Of a key that comes more than once the last event has the row: plain events have all columns. Events of a key are in one
partition in the order of their positions (I3), which is looked at where it matters.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.position import COPIED_ORDINAL, Position
from walbridge.schemas.topics import avro_name
from walbridge.spark_consumer.fold.columns.arrow_values import arrow_array
from walbridge.spark_consumer.fold.columns.avro_bytes import AvroBytes, NotPlain
from walbridge.spark_consumer.fold.columns.decoded import Fields, Leaf, decoded
from walbridge.spark_consumer.fold.columns.key_groups import NO_KEY, KeyGroups
from walbridge.spark_consumer.fold.schema_join import ignored_operations
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.many.spooled_records import Chunk, SpooledRecords
from walbridge.spark_consumer.plan.plan import Segment

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_CREATED, _DELETED = ord("c"), ord("d")


@dataclass(frozen=True)
class _Events:
    """The events of one chunk that are in the segment. ``rows``: their places in ``fields``; ``numbers``: those of
    their records."""

    partition: int
    source: AvroBytes
    fields: Fields
    rows: Numbers
    numbers: Numbers
    op: npt.NDArray[np.uint8]

    def of(self, chosen: Flags) -> "_Events":
        """Some of them."""
        return replace(self, rows=self.rows[chosen], numbers=self.numbers[chosen], op=self.op[chosen])

    def leaf(self, path: str) -> Leaf | None:
        """The field of these events; None where all have null."""
        found = self.fields.get(path)
        if found is None or len(self.rows) == len(found.first):
            return found
        return found.of_rows(self.rows)

    def number(self, path: str) -> Numbers:
        """A field that is never null."""
        found = self.leaf(path)
        if found is None or found.present is not None:
            raise NotPlain
        return found.first


@dataclass(frozen=True)
class ColumnRows:
    """The rows of one segment."""

    records: SpooledRecords
    shape: TableShape
    segment: Segment

    def unfolded(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row an event.

        Raises:
            NotPlain: as described above.
        """
        for events in self._events():
            yield _table(self._columns(events, schema), schema)

    def folded_by_key(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """One row a key.

        Raises:
            NotPlain: as described above.
        """
        groups = self._key_groups()
        is_single, order = groups.are_single, _Order()
        first_ops = np.zeros(len(groups.first), np.uint8)
        first_ordinals = np.zeros(len(groups.first), np.int64)
        for events in self._events():
            first_ops[events.numbers], first_ordinals[events.numbers] = events.op, events.number("source.ordinal")
            if (groups.first[events.numbers] == NO_KEY).any():
                raise NotPlain
            if not is_single:
                order.check(events)
                events = events.of(groups.last[events.numbers] == events.numbers)
            first = groups.first[events.numbers]
            if not first_ops[first].all():
                raise NotPlain
            is_new = pa.array(first_ops[first] == _CREATED, mask=first_ordinals[first] == COPIED_ORDINAL)
            yield _table([*self._columns(events, schema), *self._of_fold(events, schema), is_new], schema)
        is_event = first_ops > 0
        if not is_event[groups.last[is_event]].all():
            raise NotPlain  # the last record with a key is none that changes its row

    def _key_groups(self) -> KeyGroups:
        """The groups of the segment's events; other records may be in some where no key comes twice."""
        groups = KeyGroups.of(self._chunks(), self._frame_id)
        if groups.are_single or self._is_whole:
            return groups
        is_event = np.zeros(len(groups.first), np.bool_)
        for events in self._events():
            is_event[events.numbers] = True
        return KeyGroups.of(self._chunks(), self._frame_id, is_event)

    @property
    def _is_whole(self) -> bool:
        """Whether each event of the schema is in the segment."""
        return self.segment.start is None and self.segment.end is None and not self.segment.ignores_copied_rows

    @property
    def _frame_id(self) -> str:
        return self.shape.relation.frame_id

    def _chunks(self) -> Iterator[Chunk]:
        return self.records.chunks(self.shape.relation.topic)

    def _events(self) -> Iterator[_Events]:
        ignored = [ord(op) for op in ignored_operations(self.segment)]
        for chunk in self._chunks():
            rows = np.flatnonzero(chunk.in_frame(self._frame_id))
            if len(rows) == 0:
                continue
            source, start = AvroBytes(chunk.data), chunk.key_ends[rows] + len(prefix_of(self._frame_id))
            fields = decoded(source, start, chunk.ends[rows], self.shape.relation.value_schema)
            op = fields["op"]
            if op.end is None or (op.end - op.first != 1).any():
                raise NotPlain
            every, numbers = np.arange(len(rows)), chunk.first + rows
            events = _Events(chunk.partition, source, fields, every, numbers, source.byte(op.first))
            events = events.of(~np.isin(events.op, ignored) & self._is_within(events))
            if len(events.rows):
                _refuse_without_row(events)
                yield events

    def _is_within(self, events: _Events) -> Flags:
        lsn, ordinal = events.number("source.commit_lsn"), events.number("source.ordinal")
        inside = np.ones(len(lsn), np.bool_)
        if self.segment.start is not None:
            inside &= ~_is_before(lsn, ordinal, self.segment.start)
        if self.segment.end is not None:
            inside &= _is_before(lsn, ordinal, self.segment.end)
        return inside

    def _columns(self, events: _Events, schema: pa.Schema) -> list[pa.Array]:
        """The columns by place, and our struct."""
        values = [self._column(events, place, schema.field(place).type) for place in range(len(self.shape.columns))]
        return [*values, _struct(events, schema.field("change").type)]

    def _column(self, events: _Events, place: int, of: pa.DataType) -> pa.Array:
        name = avro_name(self.shape.columns[place].name)
        found, there = events.leaf(f"after.{name}"), events.leaf("after")
        if place in self._key_places and there is not None and not there.first.all():
            old = events.leaf(f"before.{name}")
            if found is None or not found.is_present.any():
                found = old
            elif old is not None:
                found = found.otherwise(old, ~there.first)
        return pa.nulls(len(events.rows), of) if found is None else arrow_array(events.source, found, of)

    @cached_property
    def _key_places(self) -> frozenset[int]:
        return frozenset(self.shape.key_places)

    def _of_fold(self, events: _Events, schema: pa.Schema) -> list[pa.Array]:
        """What a fold says of each row besides, but for ``is_new``: nothing is unknown, and no key changed."""
        count = len(events.rows)
        unknown = pa.ListArray.from_arrays(np.zeros(count + 1, np.int32), pa.array([], pa.int32()))
        first_keys = [self._column(events, place, schema.field(place).type) for place in self.shape.key_places]
        return [unknown, pa.array(np.zeros(count, np.bool_)), *first_keys, pa.nulls(count, pa.string())]


class _Order:
    """Whether the events of each partition come in the order of their positions."""

    def __init__(self) -> None:
        self._partition: int | None = None
        self._last = 0, 0

    def check(self, events: _Events) -> None:
        """
        Raises:
            NotPlain: the last event of a key may not be the newest one.
        """
        lsn, ordinal = events.number("source.commit_lsn"), events.number("source.ordinal")
        later = (lsn[1:] > lsn[:-1]) | ((lsn[1:] == lsn[:-1]) & (ordinal[1:] >= ordinal[:-1]))
        goes_on = events.partition != self._partition or self._last <= (lsn[0], ordinal[0])
        if not (goes_on and later.all()):
            raise NotPlain
        self._partition, self._last = events.partition, (int(lsn[-1]), int(ordinal[-1]))


def _refuse_without_row(events: _Events) -> None:
    """
    Raises:
        NotPlain: a delete without the old row, or another event without the new one.
    """
    none = np.zeros(len(events.rows), np.bool_)
    after, before = (none if (found := events.leaf(path)) is None else found.first for path in ("after", "before"))
    is_gone = events.op == _DELETED
    if not np.array_equal(after, ~is_gone) or not before[is_gone].all():
        raise NotPlain


def _is_before(lsn: Numbers, ordinal: Numbers, end: Position) -> Flags:
    before: Flags = (lsn < end.commit_lsn) | ((lsn == end.commit_lsn) & (ordinal < end.ordinal))
    return before


def _struct(events: _Events, of: pa.StructType) -> pa.StructArray:
    count = len(events.rows)
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32))
    values = {
        "commit_lsn": pa.array(events.number("source.commit_lsn")),
        "ordinal": pa.array(events.number("source.ordinal")),
        "commit_time": pa.array(events.number("source.ts_us")),
        "op": pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(events.op)]),
        "exceptional": None,
        "key_text": None,
    }
    fields = list(of)
    arrays = [_as(values[field.name], field.type, count) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _as(values: pa.Array | None, of: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, of) if values is None else values.cast(of)


def _table(columns: list[pa.Array], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(columns, schema=schema)
