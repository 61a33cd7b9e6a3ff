"""Folds a segment's events to at most one row a key: what the segment does to the table.

In: a segment's events (``schema_join.events``). Out: one row a key, with these columns:

- the values of the table's columns, by place;
- ``change``: our struct;
- ``unknown``: places of the columns whose value these events do not tell (I6);
- ``moved``: whether a key change left columns out; then ``key_changes.py`` folds again;
- ``is_new``: whether the key's first event is ``c``, so that the table held no such key before. It is null where the
  first event was copied, since a copied row says nothing of that.

A column's value and its exceptional text are one thing: ``infinity`` after a date replaces the
date, and a date after ``infinity`` removes the text. So both are taken from the same event.
Events are grouped by the bytes of their Kafka key: it holds the key columns with their exceptional texts, and
Postgres takes two keys for equal only if these bytes are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from walbridge.schemas.position import COPIED_ORDINAL
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape


def _texts() -> Column:
    """The exceptional texts of an event's row."""
    return F.when(F.col("after").isNull(), F.col("before_exceptional")).otherwise(F.col("exceptional"))


def sorted_map(texts: Column) -> Column:
    """The map with its entries sorted, or null if it is empty: maps of equal rows are then equal."""
    return F.when(F.size(texts) > 0, F.map_from_entries(F.sort_array(F.map_entries(texts))))


def _without_nulls(elements: Sequence[Column], of: str) -> Column:
    """An array of the elements that are not null; no two may be equal. Spark would interpret a lambda row by row."""
    return F.array_except(F.array(*elements), F.array(F.lit(None).cast(of)))


def _any(conditions: Iterable[Column]) -> Column:
    """The conditions joined by OR, as a balanced tree: Catalyst recurses into it, and a table may have 1,600
    columns."""
    found = [*conditions]
    if len(found) < 2:
        return found[0] if found else F.lit(False)
    half = len(found) // 2
    return _any(found[:half]) | _any(found[half:])


def _key_text(shape: TableShape, texts: Column) -> Column:
    """The key columns' exceptional texts as JSON; null when no key column has one."""
    if not shape.has_exceptional_key:
        return F.lit(None).cast("string")
    names = [F.lit(name) for name in shape.key_names]
    of_key = F.map_filter(texts, lambda name, _: F.array_contains(F.array(*names), name))
    return F.when(F.size(of_key) > 0, F.to_json(sorted_map(of_key)))


def struct_of(op: Column, exceptional: Column, key_text: Column, last: str = "") -> Column:
    return F.struct(
        F.col(f"{last}commit_lsn").alias("commit_lsn"),
        F.col(f"{last}ordinal").alias("ordinal"),
        F.col(f"{last}commit_time").alias("commit_time"),
        op.alias("op"),
        exceptional.alias("exceptional"),
        key_text.alias("key_text"),
    )


def unfolded_rows(events: DataFrame, shape: TableShape) -> DataFrame:
    """One row an event, for copied rows and for inserts into a table without a key."""
    values = [F.col(f"after.{place_name(place)}") for place in range(len(shape.columns))]
    texts = F.col("exceptional")
    struct = struct_of(F.col("op"), sorted_map(texts), _key_text(shape, texts))
    return events.select(*values, struct.alias("change"))


def fold_by_key(events: DataFrame, shape: TableShape, group: str = "key", *, has_large: bool = False) -> DataFrame:
    """One row a group of events: the last operation, each column's last known value, and which are unknown.

    The last event alone is not enough: it may leave out a TOASTed column that an earlier update has set.
    ``has_large``: any column may have a text that stands for a large value.
    """
    prepared, aggregates, folded = _fold_expressions(shape, has_large)
    return events.select(group, *prepared).groupBy(group).agg(*aggregates).select(*folded)


def rows_of_single_events(events: DataFrame, shape: TableShape, *, has_large: bool = False) -> DataFrame:
    """As ``fold_by_key``, for events of which no two have one key: nothing is sorted, shuffled or aggregated."""
    return events.select(*_single_expressions(shape, has_large))


@lru_cache(maxsize=512)
def _fold_expressions(shape: TableShape, has_large: bool) -> tuple[list[Column], ...]:
    """The expressions of a fold: those selected from events, the aggregates, and the columns of the row.

    They are built once a shape, since every expression is a call into the JVM, and most plans are small.
    """
    prepared = [
        F.struct("commit_lsn", "ordinal").alias("position"),
        F.struct(*[value.alias(name) for name, value in _row(shape).items()]).alias("row"),
        _texts().alias("texts"),
        *[F.col(name) for name in _OF_LAST[1:]],
        F.coalesce("unchanged", F.array().cast("array<string>")).alias("unchanged"),
    ]
    # Only a value that is stored out of line may be left out of an event: “unchanged TOASTed value” of TupleData in the
    # PostgreSQL manual, “Logical Replication Message Formats”.
    always_sent = [place_name(place) for place in range(len(shape.columns)) if place not in shape.toastable_places]
    key = [place_name(place) for place in shape.key_places]
    aggregates = [
        F.max_by(F.struct(*[f"row.{name}" for name in always_sent], *_OF_LAST), "position").alias("last"),
        F.min_by(F.struct(*[f"row.{name}" for name in key], *_OF_FIRST), "position").alias("first"),
        F.bool_or(_moved()).alias("moved"),
        *[_last_known(shape, place) for place in shape.toastable_places],
    ]
    row = _Folded(
        prefix="last.",
        last={name: F.col(f"last.{name}") for name in [*always_sent, *_OF_LAST]},
        first={name: F.col(f"first.{name}") for name in [*key, *_OF_FIRST]},
        known={place: _Known.of_struct(F.col(_known(place))) for place in shape.toastable_places},
        moved=F.col("moved"),
    )
    return prepared, aggregates, _folded_columns(shape, row, has_large)


@lru_cache(maxsize=512)
def _single_expressions(shape: TableShape, has_large: bool) -> list[Column]:
    """The columns of the row of a key's only event. They use no struct in between, which would box each value."""
    texts, row = _texts(), _row(shape)
    of_event = row | {"texts": texts} | {name: F.col(name) for name in _OF_LAST[1:]}
    known = {}
    for place in shape.toastable_places:
        knows = _tells_value(shape, place)
        text = F.element_at(texts, F.lit(shape.columns[place].name))
        known[place] = _Known(F.when(knows, row[place_name(place)]), F.when(knows, text), ~knows)
    return _folded_columns(shape, _Folded("", of_event, of_event, known, _moved()), has_large)


def _row(shape: TableShape) -> dict[str, Column]:
    """The values of an event's row, by column. Of a deleted row only the key columns are decoded."""
    of_key = set(shape.key_places)
    names = [place_name(place) for place in range(len(shape.columns))]
    gone = F.col("after").isNull()
    return {
        name: F.when(gone, F.col(f"before.{name}")).otherwise(F.col(f"after.{name}"))
        if place in of_key
        else F.col(f"after.{name}")
        for place, name in enumerate(names)
    }


_OF_LAST = ("texts", "op", "commit_lsn", "ordinal", "commit_time")
_OF_FIRST = ("texts", "op", "ordinal")


def _known(place: int) -> str:
    return f"known{place}"


@dataclass(frozen=True, slots=True)
class _Known:
    """The last known value of a column that events may leave out."""

    value: Column
    text: Column
    is_missing: Column

    @classmethod
    def of_struct(cls, found: Column) -> "_Known":
        return cls(found["value"], found["text"], found.isNull())


@dataclass(frozen=True, slots=True)
class _Folded:
    """Where a folded row takes its columns from. ``prefix``: of the last event's columns; ``known``: by place."""

    prefix: str
    last: Mapping[str, Column]
    first: Mapping[str, Column]
    known: Mapping[int, _Known]
    moved: Column


def _moved() -> Column:
    """Whether an event is a key change that left columns out."""
    return (F.col("op") == "c") & F.coalesce(F.size("unchanged") > 0, F.lit(False))


def _tells_value(shape: TableShape, place: int) -> Column:
    """Whether an event holds the column's value."""
    is_left_out = F.array_contains("unchanged", F.lit(shape.columns[place].name))
    return (F.col("op") != "d") & ~F.coalesce(is_left_out, F.lit(False))


def _last_known(shape: TableShape, place: int) -> Column:
    """A column's last known value and its text; max_by skips null positions."""
    value = F.struct(
        F.col(f"row.{place_name(place)}").alias("value"),
        F.element_at("texts", F.lit(shape.columns[place].name)).alias("text"),
    )
    return F.max_by(value, F.when(_tells_value(shape, place), F.col("position"))).alias(_known(place))


def _folded_columns(shape: TableShape, row: _Folded, has_large: bool) -> list[Column]:
    gone = row.last["op"] == "d"
    values = [
        (row.known[place].value if place in row.known else row.last[place_name(place)]).alias(place_name(place))
        for place in range(len(shape.columns))
    ]
    is_unknown = {place: ~gone & row.known[place].is_missing for place in shape.toastable_places}
    places = [F.when(condition, F.lit(place)) for place, condition in is_unknown.items()]
    none = F.array().cast("array<int>")
    # Most rows are known whole, and no array is made for them.
    unknown = F.when(_any(is_unknown.values()), _without_nulls(places, "int")).otherwise(none) if places else none
    exceptional = F.when(~gone, _folded_exceptional(shape, row, has_large))
    struct = struct_of(row.last["op"], exceptional, _key_text(shape, row.last["texts"]), row.prefix)
    is_new = F.when(row.first["ordinal"] != COPIED_ORDINAL, row.first["op"] == "c")
    return [
        *values,
        struct.alias("change"),
        unknown.alias("unknown"),
        row.moved.alias("moved"),
        *[row.first[place_name(place)].alias(first_key_name(place)) for place in shape.key_places],
        _key_text(shape, row.first["texts"]).alias("first_key_text"),
        is_new.alias("is_new"),
    ]


def _folded_exceptional(shape: TableShape, row: _Folded, has_large: bool) -> Column:
    """The last event's texts. A column that it may have left out takes its text from the event with its value."""
    texts = row.last["texts"]
    apart = shape.toastable_places if has_large else shape.toastable_exceptional_places
    if not apart:
        return sorted_map(texts)
    names = {place: F.lit(shape.columns[place].name) for place in apart}
    found = {place: row.known[place].text for place in apart}
    left_out = F.array(*[_entry(name, F.element_at(texts, name)) for name in names.values()])
    rest = F.array_except(F.map_entries(texts).cast(_ENTRIES), left_out.cast(_ENTRIES))
    with_values = [F.when(text.isNotNull(), _entry(names[place], text).cast(_ENTRY)) for place, text in found.items()]
    present = _without_nulls(with_values, _ENTRY).cast(_ENTRIES)
    entries = F.sort_array(F.concat(F.coalesce(rest, F.array().cast(_ENTRIES)), present))
    has_some = _any([texts.isNotNull(), *(text.isNotNull() for text in found.values())])
    return F.when(has_some, F.when(F.size(entries) > 0, F.map_from_entries(entries)))


def _entry(name: Column, text: Column) -> Column:
    return F.struct(name.alias("key"), text.alias("value"))


_ENTRY = "struct<key: string, value: string>"
_ENTRIES = f"array<{_ENTRY}>"


def first_key_name(place: int) -> str:
    """The column that holds a key column of the first key in a chain of key changes."""
    return f"first_key{place}"
