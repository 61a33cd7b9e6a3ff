"""A pipeline's topics replayed cut by cut, with the state that they tell of each table.

In: cuts with their events. Out: rows of each table, whether it is current, and where one that is called current cannot
be (I8). What comes of a table in a cut that leaves it is nobody's to read: it is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.fix_postgres import Database
from tests.replay import Event, Replay, Row, TableState, Text
from tests.source_rows import comparable, source_rows
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.cut import Barrier, Cut
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import Column

Key = tuple[tuple[int | None, str], ...]
_NAMES = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"
_COLUMNS = "SELECT attnum::int, attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
_GENERATED = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attgenerated <> '' AND NOT attisdropped"


class FollowedTables(Replay):
    """Tables as a reader of the topics has them, who knows which of them are current.

    Attributes:
        states: by relation: current, copying or stale.
        left: how often each was left.
        wrong: by relation that a cut called current, the first event that does not fit its rows.

    Args:
        source: the rows that a table has in the source.
    """

    def __init__(self, source: Callable[[Database, RelationRecord], list[Row]] = source_rows) -> None:
        super().__init__()
        self._source = source
        self.states: dict[int, str] = {}
        self.left, self.copied = Counter[int](), Counter[int]()
        self.wrong: dict[int, str] = {}
        self.key_schemas: defaultdict[str, set[str]] = defaultdict(set)
        """By topic, those of its keys."""
        self._unfit: dict[int, str] = {}

    def apply(self, cut: Cut, events: Iterable[Event]) -> None:
        barriers = [
            (table.relation_id, barrier)
            for table in cut.tables
            for barrier in sorted(table.barriers, key=lambda each: each.position)
        ]
        for relation_id, barrier in barriers:
            if barrier.kind == "copy_begin" and self.states.get(relation_id) != "current":
                self.tables[relation_id] = TableState()  # what was there may not be the source's
        super().apply(cut, events)
        for relation_id, barrier in barriers:
            self._pass(relation_id, barrier)
        if cut.complete:
            for relation_id, why in self._unfit.items():
                if self.states.get(relation_id) == "current":
                    self.wrong.setdefault(relation_id, f"cut {cut.cut_id} at {cut.end_lsn:X}: {why}")
            self._unfit.clear()

    def _pass(self, relation_id: int, barrier: Barrier) -> None:
        state = self.states.get(relation_id, "copying")
        if barrier.kind == "copy_begin":
            self.copied[relation_id] += 1
            state = state if state == "current" else "copying"
        elif barrier.kind == "copy_end":
            state = "current"
        elif barrier.kind == "dropped":
            self.left[relation_id] += 1
            state = "stale"
        self.states[relation_id] = state

    def apply_event(self, event: Event) -> None:
        relation_id = event.relation.table.relation_id
        if relation_id in self._unfit:
            return
        try:
            super().apply_event(event)
        except (AssertionError, KeyError, ValueError) as error:
            self._unfit[relation_id] = f"{event.op} at {event.position}: {type(error).__name__} {str(error)[:300]}"

    def placed(self, event: Event) -> Event:
        """By the values of the key's columns: its bytes are others in another topic."""
        row = event.after or event.before
        if event.key is None or row is None:
            return event
        self.key_schemas[event.relation.topic].add(frame_of(event.key).frame_id)
        return replace(event, key=_key(event.relation, row))

    def _reshape(self, relation: RelationRecord) -> None:
        known = self.relations.get(relation.table.relation_id)
        super()._reshape(relation)
        if known is None or known.schema_id == relation.schema_id:
            return
        state = self.tables[relation.table.relation_id]
        for row in state.every_row:
            row |= {each.name: _as_in(each, row[each.name]) for each in relation.table.columns}
        _rekey(state, relation)

    def key(self, relation_id: int) -> Key:
        """The key that a table has: numbers and Avro types of its columns."""
        relation = self.relations.get(relation_id)
        columns = () if relation is None else relation.table.key_columns
        return tuple((each.attnum, str(each.column_type.avro)) for each in columns)

    def differing(self, database: Database, named: Collection[int]) -> dict[int, str]:
        """The tables that are current and do not equal the source, in which nothing changes meanwhile.

        Args:
            named: those that were written since they were altered, and have the source's names and columns.
        """
        current = sorted(each for each, state in self.states.items() if state == "current")
        found = {each: self._difference(database, self.relations[each], is_named=each in named) for each in current}
        return {each: why for each, why in found.items() if why}

    def _difference(self, database: Database, relation: RelationRecord, *, is_named: bool) -> str:
        table = relation.table
        called: list[tuple[str, str]] = database.rows(_NAMES, (table.relation_id,))
        if not called:
            return ""  # the source has nothing to compare it with; that it is left is waited for
        columns: dict[int, str] = dict(database.rows(_COLUMNS, (table.relation_id,)))
        generated = {row[0] for row in database.rows(_GENERATED, (table.relation_id,))}
        ours = {each.name for each in table.columns} | generated  # these are published only where that is asked for
        if is_named and (ours != {*columns.values()} or (table.namespace, table.name) != called[0]):
            return f"{table.qualified_name} has {sorted(ours)}; it is {called[0]} and has {sorted(columns.values())}"
        # By number: what is called otherwise by now is told with the next change. One of which nobody could tell the
        # number is compared once it cannot be another one that has its name since.
        newest = max((each.attnum or 0 for each in table.columns), default=0)
        unnumbered = {each for number, each in columns.items() if is_named or number <= newest}
        now = {
            each.name: each.name if each.attnum is None else columns[each.attnum]
            for each in table.columns
            if (each.name in unnumbered if each.attnum is None else each.attnum in columns)
        }
        kept = tuple(replace(each, name=now[each.name]) for each in table.columns if each.name in now)
        source = replace(table, namespace=called[0][0], name=called[0][1], columns=kept)
        wanted = Counter(map(comparable, self._source(database, replace(relation, table=source))))
        rows = self.tables[table.relation_id].rows
        there = Counter(comparable({new: row[name] for name, new in now.items()}) for row in rows)
        if there == wanted:
            return ""
        more, fewer = [*(there - wanted)], [*(wanted - there)]
        return f"{'.'.join(called[0])}: {len(more)} rows more, for one {more[:1]}; {len(fewer)} fewer, {fewer[:1]}"


def _as_in(column: Column, old: Any) -> Any:
    """A value from before the column's type was altered: a numeric that lost its scale has no decimal of Avro any more,
    so NaN is an ordinary value, and a moment got a zone or lost it."""
    if column.column_type.codec == "string" and isinstance(old, Decimal | Text):
        return old.text if isinstance(old, Text) else f"{old:f}"
    if isinstance(old, datetime):
        return old.replace(tzinfo=UTC if column.column_type.codec == "timestamptz" else None)
    return old


def _key(relation: RelationRecord, row: Row) -> bytes:
    return repr([row[each.name] for each in relation.table.key_columns]).encode()


def _rekey(state: TableState, relation: RelationRecord) -> None:
    """The rows under the key that the table has now."""
    if not relation.table.key_columns:
        state.by_key, state.keyless = {}, state.rows
        return
    if state.named is not None:
        state.named = {_key(relation, state.by_key[each]) for each in state.named & state.by_key.keys()}
    rows = state.rows
    state.by_key, state.keyless = {_key(relation, row): row for row in rows}, []
    assert len(state.by_key) == len(rows), "two rows have one key"
