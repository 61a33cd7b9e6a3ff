"""Replays events into dictionaries: the oracle of the producer's tests.

In: cuts with their events. Out: table contents as the contract says a reader must see them:
everything before the last copy or truncate void, unchanged values kept, key changes as a delete
and a create. Written from the contract alone, so that a mistake of the producer's is not made twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.value_encoders import encoder_of
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import ColumnType
from walbridge.schemas.position import Position
from walbridge.schemas.table_schema import Column

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A value that its Avro type cannot hold, as Postgres prints it."""

    text: str


UNKNOWN = Text("unknown: the row that has it was not copied yet")


@dataclass(frozen=True, slots=True)
class Event:
    """One change as a reader of its topic decodes it. Rows are by Postgres column name."""

    relation: RelationRecord
    partition: int
    offset: int
    key: bytes | None
    headers: Mapping[str, bytes]
    op: str
    position: Position
    before: Row | None
    after: Row | None
    unchanged: tuple[str, ...]
    before_image: str | None
    source: Mapping[str, Any]


def check_chain(cuts: Iterable[Cut]) -> None:
    """Numbers and LSNs unbroken within an epoch, counts that add up, ranges that only move forward."""
    previous: Cut | None = None
    ends: dict[tuple[str, int], int] = {}
    for cut in cuts:
        if previous is None or previous.epoch != cut.epoch:
            assert cut.cut_id == 1
            assert cut.previous_end_lsn == cut.epoch.consistent_point
        else:
            assert cut.cut_id == previous.cut_id + 1
            assert cut.previous_end_lsn == previous.end_lsn
        assert cut.end_lsn >= cut.previous_end_lsn
        assert cut.complete or cut.end_lsn == cut.previous_end_lsn
        for part in cut.partitions:
            assert part.end_offset - part.start_offset == part.records > 0
            assert part.start_offset >= ends.get((part.topic, part.partition), 0)
            ends[part.topic, part.partition] = part.end_offset
        in_tables, in_ranges = Counter[str](), Counter[str]()
        for table in cut.tables:
            in_tables[table.topic] += table.row_count
        for part in cut.partitions:
            in_ranges[part.topic] += part.records
        assert +in_tables == in_ranges
        previous = cut


@dataclass
class TableState:
    """Rows by Kafka key, or a multiset of them for a table without a key."""

    by_key: dict[bytes, Row] = field(default_factory=dict)
    keyless: list[Row] = field(default_factory=list)
    moved: Row | None = None
    """The row whose key is being changed: its ``d`` was applied, its ``c`` comes next."""
    partitions: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """By topic and key: where the key's events are (I3)."""
    named: set[bytes] | None = None
    """While the table is copied beside the stream: keys that were named since its copy began."""
    aside: list[Row] = field(default_factory=list)
    """Likewise: the rows of a table without a key that have come since then."""

    def end_copy(self) -> None:
        """What the copy did not name was gone before it; what it named is whole."""
        assert self.named is not None
        self.by_key = {key: row for key, row in self.by_key.items() if key in self.named}
        assert not [row for row in self.by_key.values() if UNKNOWN in row.values()], "a row lacks a value for good"
        self.keyless, self.aside = self.aside, []
        self.named = None

    @property
    def rows(self) -> list[Row]:
        return [*self.by_key.values(), *self.keyless]

    @property
    def every_row(self) -> list[Row]:
        """Also those that are not the table's yet."""
        return [*self.rows, *self.aside]


class Replay:
    """Tables by relation id, as a reader that follows the contract has them."""

    def __init__(self) -> None:
        self.tables: dict[int, TableState] = {}
        self.relations: dict[int, RelationRecord] = {}
        self.end_lsn = 0
        self.await_copies: set[int] = set()
        """Tables that were left, or whose copy has begun: until its end they need not equal their source."""

    def apply(self, cut: Cut, events: Iterable[Event]) -> None:
        self._note_barriers(cut)
        begins = {t.relation_id for t in cut.tables for b in t.barriers if b.kind == "copy_begin"}
        events = list(events)
        markers = [e for e in events if e.op == "m" and "data_collection" in str(e.source.get("snapshot"))]
        for relation_id in {_id(e) for e in markers}:
            self._mark(cut, [e for e in markers if _id(e) == relation_id])
        ends = {_id(e) for e in markers if e.source["snapshot"] == "last_in_data_collection"}
        events = [e for e in events if e not in markers]
        for relation_id in begins - {_id(e) for e in markers}:
            self.tables[relation_id] = TableState()
            voids = [e for e in events if e.op == "t" and e.position.ordinal < 0 and _id(e) == relation_id]
            count = next(e.relation.partition_count for e in events if _id(e) == relation_id)
            # Who reads a partition alone has no barrier to go by.
            assert sorted(event.partition for event in voids) == list(range(count))
        for event in events:
            if cut.complete:
                assert event.position.commit_lsn <= cut.end_lsn, f"{event.position} is in a cut, and after its end"
            if event.relation.table.relation_id != MESSAGES_RELATION_ID:
                self.apply_event(event)
        for relation_id in ends:
            self.tables[relation_id].end_copy()
        self.end_lsn = cut.end_lsn

    def _note_barriers(self, cut: Cut) -> None:
        for table in cut.tables:
            for barrier in sorted(table.barriers, key=lambda barrier: barrier.position):
                if barrier.kind in ("dropped", "copy_begin"):
                    self.await_copies.add(table.relation_id)
                elif barrier.kind == "copy_end":
                    self.await_copies.discard(table.relation_id)

    def apply_event(self, event: Event) -> None:
        """One change of a row."""
        relation_id = event.relation.table.relation_id
        assert relation_id in self.tables, f"{event.relation.topic} has events before its copy_begin"
        if event.key is not None:
            place = event.relation.topic, event.key
            known = self.tables[relation_id].partitions.setdefault(place, event.partition)
            assert event.partition == known, f"a key's event at {event.position} is in another partition"
        self._reshape(event.relation)
        apply = _APPLY if self.tables[relation_id].named is None else _APPLY_BESIDE
        if apply is _APPLY and _is_single(event):
            apply = _APPLY_SINGLE
        apply[event.op](self.tables[relation_id], self.placed(event))

    def placed(self, event: Event) -> Event:
        """The event with the key that its row is kept under: its own, as long as no key is altered."""
        return event

    def _mark(self, cut: Cut, markers: list[Event]) -> None:
        """A copy beside the stream begins or ends: in every partition, and with a barrier."""
        relation = markers[0].relation
        (snapshot,) = {marker.source["snapshot"] for marker in markers}
        assert sorted(marker.partition for marker in markers) == list(range(relation.partition_count))
        assert not any(marker.key or marker.before or marker.after for marker in markers)
        kind = "copy_begin" if snapshot == "first_in_data_collection" else "copy_end"
        barriers = [b for t in cut.tables if t.relation_id == _id(markers[0]) for b in t.barriers]
        assert [b.position for b in barriers if b.kind == kind] == [markers[0].position]
        assert cut.complete
        self.relations.setdefault(_id(markers[0]), relation)
        if kind == "copy_begin":
            state = self.tables.setdefault(_id(markers[0]), TableState())
            state.named, state.aside = set(), []

    def begin_version(self, relation: RelationRecord) -> None:
        """A shape barrier names it, and all events of the cut are applied."""
        if relation.table.relation_id in self.tables:
            self._reshape(relation)

    def _reshape(self, relation: RelationRecord) -> None:
        """A new version: dropped columns leave, renamed ones keep theirs, added ones are what older rows have there."""
        table = relation.table
        old = self.relations.get(table.relation_id)
        self.relations[table.relation_id] = relation
        if old is None or old.schema_id == relation.schema_id:
            return
        names = _names_before(old, relation)
        state = self.tables[table.relation_id]
        older = {column.name: _of_older_rows(column) for column in table.columns}
        for row in state.every_row:
            kept = {name: row.get(before) if before else older[name] for name, before in names.items()}
            row.clear()
            row.update(kept)

    def rows(self, namespace: str, name: str) -> list[Row]:
        ids = [i for i, r in self.relations.items() if (r.table.namespace, r.table.name) == (namespace, name)]
        return [row for relation_id in ids for row in self.tables[relation_id].rows]

    def __iter__(self) -> Iterator[RelationRecord]:
        return iter(self.relations.values())


def _names_before(old: RelationRecord, new: RelationRecord) -> dict[str, str | None]:
    """Each column's name in the version before; None where it was not there. Numbers tell, else names."""
    numbered = {column.attnum: column.name for column in old.table.columns if column.attnum is not None}
    named = {column.name: column.attnum for column in old.table.columns}
    return {
        column.name: numbered.get(column.attnum)
        if column.attnum is not None and named.get(column.name, 0) is not None
        else (column.name if column.name in named else None)
        for column in new.table.columns
    }


def _of_older_rows(column: Column) -> Any:
    """What rows have in it that are older than the column."""
    return None if column.missing_value is None else value_of_text(column.missing_value.encode(), column.column_type)


def value_of_text(text: bytes, column_type: ColumnType) -> Any:
    """What Postgres prints, as a change brings it."""
    encoded = encoder_of(column_type)(text)
    if encoded is None:
        return Text(text.decode())
    value = fastavro.schemaless_reader(BytesIO(encoded), fastavro.parse_schema(["null", column_type.avro]), None)
    return tuple(value) if isinstance(value, list) else value


def _id(event: Event) -> int:
    return event.relation.table.relation_id


def _insert(state: TableState, event: Event) -> None:
    after = dict(event.after or {})
    if "__debezium.oldkey" in event.headers:
        assert state.moved is not None, f"the create of a key change at {event.position} without its delete"
        after |= {name: state.moved[name] for name in event.unchanged}
        state.moved = None
    else:
        assert not event.unchanged, "a plain insert never lacks a value"
    if event.key is None:
        state.keyless.append(after)
        return
    assert event.key not in state.by_key, f"a row that is there comes again at {event.position}"
    state.by_key[event.key] = after


def _update(state: TableState, event: Event) -> None:
    after = dict(event.after or {})
    if event.key is None:
        assert event.before is not None
        state.keyless.remove(event.before)
        state.keyless.append(after)
        return
    old = state.by_key[event.key]
    state.by_key[event.key] = after | {name: old[name] for name in event.unchanged}


def _delete(state: TableState, event: Event) -> None:
    if event.key is None:
        assert event.before is not None
        state.keyless.remove(event.before)
        return
    gone = state.by_key.pop(event.key)
    if "__debezium.newkey" in event.headers:
        state.moved = gone


def _is_single(event: Event) -> bool:
    """A row that was read again by its key, or a key that the source lacks, whatever was there before."""
    return event.position.ordinal < 0 and (event.op == "d" or event.source.get("snapshot") == "incremental")


def _put_single(state: TableState, event: Event) -> None:
    assert event.key is not None
    assert not event.unchanged, "a copied row lacks a value"
    state.by_key[event.key] = dict(event.after or {})


def _delete_single(state: TableState, event: Event) -> None:
    assert event.key is not None
    state.by_key.pop(event.key, None)


_APPLY_SINGLE: dict[str, Callable[[TableState, Event], None]] = {"r": _put_single, "d": _delete_single}


def _truncate(state: TableState, event: Event) -> None:
    if event.position.ordinal >= 0:  # the one of a copy came with its copy_begin
        state.by_key.clear()
        state.keyless.clear()


_APPLY: dict[str, Callable[[TableState, Event], None]] = {
    "c": _insert,
    "r": _insert,
    "u": _update,
    "d": _delete,
    "t": _truncate,
}


def _put_beside(state: TableState, event: Event) -> None:
    """A row while its table is copied: the one that it replaces may not have been copied yet."""
    assert state.named is not None
    if event.key is None:
        if event.op == "u":
            _delete_beside(state, event)
        state.aside.append(dict(event.after or {}))
        return
    old = state.by_key.get(event.key, {})
    if "__debezium.oldkey" in event.headers:
        old, state.moved = state.moved or {}, None
    assert event.op != "r" or not event.unchanged, "a copied row lacks a value"
    state.named.add(event.key)
    state.by_key[event.key] = dict(event.after or {}) | {name: old.get(name, UNKNOWN) for name in event.unchanged}


def _delete_beside(state: TableState, event: Event) -> None:
    assert state.named is not None
    if event.key is None:
        assert event.before is not None
        state.aside.remove(event.before)
        return
    state.named.add(event.key)
    gone = state.by_key.pop(event.key, None)
    if "__debezium.newkey" in event.headers:
        state.moved = gone


_APPLY_BESIDE: dict[str, Callable[[TableState, Event], None]] = {
    "c": _put_beside,
    "r": _put_beside,
    "u": _put_beside,
    "d": _delete_beside,
    "t": _truncate,
}
