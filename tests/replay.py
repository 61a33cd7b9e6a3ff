"""Replays events into dictionaries: the oracle of the producer's tests.

In: cuts with their events. Out: table contents as the contract says a reader must see them:
everything before the last copy or truncate void, unchanged values kept, key changes as a delete
and a create. Written from the contract alone, so that a mistake of the producer's is not made twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from walbridge.schemas.cut import Cut
from walbridge.schemas.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.schemas.position import Position

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A value that its Avro type cannot hold, as Postgres prints it."""

    text: str


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
    partitions: dict[bytes, int] = field(default_factory=dict)
    """Where each key's events are (I3)."""

    @property
    def rows(self) -> list[Row]:
        return [*self.by_key.values(), *self.keyless]


class Replay:
    """Tables by relation id, as a reader that follows the contract has them."""

    def __init__(self) -> None:
        self.tables: dict[int, TableState] = {}
        self.relations: dict[int, RelationRecord] = {}
        self.end_lsn = 0

    def apply(self, cut: Cut, events: Iterable[Event]) -> None:
        begins = {t.relation_id for t in cut.tables for b in t.barriers if b.kind == "copy_begin"}
        events = list(events)
        for relation_id in begins:
            self.tables[relation_id] = TableState()
            voids = [e for e in events if e.op == "t" and e.position.ordinal < 0 and _id(e) == relation_id]
            count = next(e.relation.partition_count for e in events if _id(e) == relation_id)
            # Who reads a partition alone has no barrier to go by.
            assert sorted(event.partition for event in voids) == list(range(count))
        for event in events:
            relation_id = event.relation.table.relation_id
            if relation_id == MESSAGES_RELATION_ID:
                continue
            assert relation_id in self.tables, f"{event.relation.topic} has events before its copy_begin"
            if cut.complete:
                assert event.position.commit_lsn <= cut.end_lsn, f"{event.position} is in a cut, and after its end"
            if event.key is not None:
                known = self.tables[relation_id].partitions.setdefault(event.key, event.partition)
                assert event.partition == known, f"a key's event at {event.position} is in another partition"
            self._reshape(event.relation)
            _APPLY[event.op](self.tables[relation_id], event)
        self.end_lsn = cut.end_lsn

    def _reshape(self, relation: RelationRecord) -> None:
        """A new version: dropped columns leave, added ones are null, until a value comes."""
        table = relation.table
        old = self.relations.get(table.relation_id)
        self.relations[table.relation_id] = relation
        if old is None or old.schema_id == relation.schema_id:
            return
        names = [column.name for column in table.columns]
        state = self.tables[table.relation_id]
        for rows in (state.by_key.values(), state.keyless):
            for row in rows:
                kept = {name: row.get(name) for name in names}
                row.clear()
                row.update(kept)

    def rows(self, namespace: str, name: str) -> list[Row]:
        ids = [i for i, r in self.relations.items() if (r.table.namespace, r.table.name) == (namespace, name)]
        return [row for relation_id in ids for row in self.tables[relation_id].rows]

    def __iter__(self) -> Iterator[RelationRecord]:
        return iter(self.relations.values())


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
