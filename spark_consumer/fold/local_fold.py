"""Folds few events on the driver, with the same result as ``fold`` in Spark, byte for byte.

In: a segment's events in position order, a shape. Out: Arrow rows in the form and the types that
``apply.changes`` takes. Some segments are folded by Spark alone: those with keys that have exceptional texts
(only Spark writes their JSON), with chains of key changes, and those of keyless tables.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from walbridge.schemas.position import COPIED_ORDINAL
from walbridge.spark_consumer.fold.local_events import Event, Texts
from walbridge.spark_consumer.fold.shape import STRUCT_FIELDS, TableShape

Values = list[Any]


def needs_spark(events: Iterable[Event], shape: TableShape) -> bool:
    """Whether a key column has an exceptional text."""
    if not shape.has_exceptional_key:
        return False
    keys = set(shape.key_names)
    return any(not keys.isdisjoint(event.texts) for event in events)


def unfolded_rows(events: Sequence[Event], shape: TableShape, schema: pa.Schema) -> pa.Table:
    """One row an event."""
    columns: list[Values] = [[event.row[place] for event in events] for place in range(len(shape.columns))]
    struct = _struct(events, [_sorted_entries(event.texts) for event in events], schema)
    return _table([*columns, struct], schema)


def fold_by_key(events: Sequence[Event], shape: TableShape, schema: pa.Schema) -> pa.Table:
    """One row a Kafka key: the last operation, each column's last known value, and which are unknown."""
    groups: dict[bytes | None, list[Event]] = {}
    for event in events:
        groups.setdefault(event.key, []).append(event)
    folded = [_Folded(group, shape) for group in groups.values()]
    columns: list[Values] = [[one.row[place] for one in folded] for place in range(len(shape.columns))]
    struct = _struct([one.last for one in folded], [one.exceptional for one in folded], schema)
    first_keys = [[one.first.row[place] for one in folded] for place in shape.key_places]
    rest = [[one.unknown for one in folded], [one.moved for one in folded], *first_keys, [None] * len(folded)]
    is_new = [None if one.first.ordinal == COPIED_ORDINAL else one.first.op == "c" for one in folded]
    return _table([*columns, struct, *rest, is_new], schema)


class _Folded:
    """One key's events as one row."""

    def __init__(self, group: Sequence[Event], shape: TableShape) -> None:
        self.first, self.last = group[0], group[-1]
        self.moved = any(event.op == "c" and event.unchanged for event in group)
        self.row = self.last.row
        self.unknown: list[int] = []
        texts = self.last.texts
        # Only updates may leave columns out, and only deletes hold none; any other event has all columns.
        if shape.toastable_places and (self.last.unchanged or self.last.op == "d"):
            texts = self._complete(group, shape)
        self.exceptional = None if self.last.op == "d" else _sorted_entries(texts)

    def _complete(self, group: Sequence[Event], shape: TableShape) -> Texts:
        """Take each column that the last event may have left out from the last event that holds it (I6)."""
        row, texts = list(self.last.row), dict(self.last.texts)
        for place in shape.toastable_places:
            name = shape.columns[place].name
            knowing = next((e for e in reversed(group) if e.op != "d" and name not in e.unchanged), None)
            row[place] = knowing.row[place] if knowing else None
            texts.pop(name, None)
            if knowing and name in knowing.texts:
                texts[name] = knowing.texts[name]
            if knowing is None and self.last.op != "d":
                self.unknown.append(place)
        self.row = row
        return texts


def _sorted_entries(texts: Texts) -> list[tuple[str, str]] | None:
    """A map's entries, sorted; None when it is empty: maps of equal rows are then equal."""
    return sorted(texts.items()) or None


def _struct(of: Sequence[Event], exceptional: Sequence[Any], schema: pa.Schema) -> pa.StructArray:
    """Our struct; ``key_text`` is null here, see ``needs_spark``."""
    values: dict[str, Values] = {name: [read(event) for event in of] for name, read in _STRUCT_VALUES.items()}
    values |= {"exceptional": list(exceptional), "key_text": [None] * len(of)}
    fields = list(schema.field("change").type)
    return pa.StructArray.from_arrays([pa.array(values[field.name], field.type) for field in fields], fields=fields)


_STRUCT_VALUES: dict[str, Callable[[Event], Any]] = {
    "commit_lsn": lambda event: event.commit_lsn,
    "ordinal": lambda event: event.ordinal,
    "commit_time": lambda event: event.commit_time_us,
    "op": lambda event: event.op,
}
assert {*_STRUCT_VALUES, "exceptional", "key_text"} == set(STRUCT_FIELDS)


def _table(columns: Sequence[Values | pa.Array], schema: pa.Schema) -> pa.Table:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
