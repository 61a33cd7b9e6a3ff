"""Events to tables, as ``docs/kafka.md`` tells a reader to: the state of each table behind whole transactions.

In: the events of whole transactions, in order. Out: rows. Columns are known by their number where there is one, since a
column may be renamed. Written from the page alone, without the producer's or the job's way to do it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.conformance.expected import Texts, in_order, texts
from walbridge.consumer.event import Event, Operation, Row

Cells = dict[str, str | None]
"""By the column's number, else its name."""


@dataclass
class Table:
    """By key; or in no order where there is none."""

    name: str = ""
    names: dict[str, str] = field(default_factory=dict)
    """Of the newest version: number → name."""
    by_key: dict[str, Cells] = field(default_factory=dict)
    rows: list[Cells] = field(default_factory=list)
    moved: Cells | None = None
    named: set[str] | None = None
    aside: list[Cells] | None = None

    @property
    def target(self) -> list[Cells]:
        return self.rows if self.aside is None else self.aside

    def texts(self) -> list[Texts]:
        every = [*self.by_key.values(), *self.rows]
        return in_order({name: row.get(number) for number, name in self.names.items()} for row in every)


class Tables:
    """Tables by their relation's id; the last one is that of which an event came last."""

    def __init__(self) -> None:
        self.tables: dict[int, Table] = {}

    def apply(self, events: Iterable[Event]) -> None:
        for event in events:
            relation_id = event.relation.table.relation_id
            table = self.tables.pop(relation_id, None) or Table()
            self.tables[relation_id] = table
            table.name = event.table
            self._apply(table, event)

    def texts(self) -> dict[str, list[Texts]]:
        """By name; of two that have one, the last, since the other was dropped."""
        return dict(sorted({table.name: table.texts() for table in self.tables.values()}.items()))

    def _apply(self, table: Table, event: Event) -> None:
        _fill(table, event)
        match event.operation:
            case Operation.TRUNCATE:
                table.by_key.clear()
                table.target.clear()
            case Operation.COPY_BEGIN:
                table.named, table.aside = set(), []
            case Operation.COPY_END:
                _end_copy(table)
            case Operation.DELETE:
                _delete(table, event)
            case _:
                _put(table, event)


def _fill(table: Table, event: Event) -> None:
    """The event's columns; rows that are there get what they have in those that came with it."""
    names = {str(column.attnum or column.name): column.name for column in event.relation.table.columns}
    if new := names.keys() - table.names.keys():
        older = texts(event.older_values) or {}
        added = {number: older.get(names[number]) for number in new}
        for row in (*table.by_key.values(), *table.rows, *(table.aside or ())):
            row.update(added)
    table.names = names


def _end_copy(table: Table) -> None:
    assert table.named is not None
    assert table.aside is not None
    table.by_key = {key: row for key, row in table.by_key.items() if key in table.named}
    table.rows, table.named, table.aside = table.aside, None, None


def _delete(table: Table, event: Event) -> None:
    if event.key is None:
        table.target.remove(_cells(event, event.before))
        return
    gone = table.by_key.pop(_key(event.key), None)
    table.moved = gone if event.new_key is not None else None
    if table.named is not None:
        table.named.add(_key(event.key))


def _put(table: Table, event: Event) -> None:
    row = _cells(event, event.after)
    if event.key is None:
        if event.operation is Operation.UPDATE:
            table.target.remove(_cells(event, event.before))
        table.target.append(row)
        return
    key = _key(event.key)
    before = table.moved if event.old_key is not None else table.by_key.get(key)
    numbers = {column.name: str(column.attnum or column.name) for column in event.relation.table.columns}
    for name in event.unchanged:
        # In a copy the row may not have come yet: it does before the copy's end.
        row[numbers[name]] = (before or {}).get(numbers[name])
    table.by_key[key] = row
    if table.named is not None:
        table.named.add(key)


def _key(key: Row) -> str:
    """Its columns may be called otherwise in the next version."""
    return json.dumps([*(texts(key) or {}).values()])


def _cells(event: Event, row: Row | None) -> Cells:
    found = texts(row) or {}
    return {
        str(column.attnum or column.name): found[column.name]
        for column in event.relation.table.columns
        if column.name in found
    }
