"""Events to rows: what a segment does to a table, at most one row a key.

In: a segment's events (``schema_join.events``). Out: rows in the form that ``apply`` hands over:
the column values by place, ``change`` our struct, ``unknown`` the places of columns whose value is not
known from these events (I6), ``moved`` whether a key change left columns unknown (then
``key_changes.py`` folds again), ``is_new`` whether the first of them is ``c``: the key was free before. It is
null where the first of them was copied, which does not tell that.

A column's value and its exceptional text are one thing: ``infinity`` after a date replaces the
date, and a date after ``infinity`` removes the text. So both are taken from the same event.
Keys are told apart by their Kafka key, byte for byte: it holds the key columns and their
exceptional texts, and Postgres took two keys for equal only if their bytes were.
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
    """Exceptional texts of the row that an event is about."""
    return F.when(F.col("after").isNull(), F.col("before_exceptional")).otherwise(F.col("exceptional"))


def sorted_map(texts: Column) -> Column:
    """The same map whatever order it came in; null when it is empty, so that equal rows are equal."""
    return F.when(F.size(texts) > 0, F.map_from_entries(F.sort_array(F.map_entries(texts))))


def _without_nulls(elements: Sequence[Column], of: str) -> Column:
    """An array of those that are not null; no two are equal. A filter by a lambda would be interpreted row by row."""
    return F.array_except(F.array(*elements), F.array(F.lit(None).cast(of)))


def _any(conditions: Iterable[Column]) -> Column:
    """A tree of halves: Catalyst goes down a chain call by call, and a table may have 1,600 columns."""
    found = [*conditions]
    if len(found) < 2:
        return found[0] if found else F.lit(False)
    half = len(found) // 2
    return _any(found[:half]) | _any(found[half:])


def _key_text(shape: TableShape, texts: Column) -> Column:
    """JSON of the key columns' exceptional texts, null when no key column has one."""
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


def rows_as_they_are(events: DataFrame, shape: TableShape) -> DataFrame:
    """One row an event: copied rows, and inserts into a table without a key."""
    values = [F.col(f"after.{place_name(place)}") for place in range(len(shape.columns))]
    texts = F.col("exceptional")
    struct = struct_of(F.col("op"), sorted_map(texts), _key_text(shape, texts))
    return events.select(*values, struct.alias("change"))


def fold_by_key(events: DataFrame, shape: TableShape, group: str = "key", *, has_large: bool = False) -> DataFrame:
    """One row a group of events: the last operation, each column's last known value, the unknown.

    Keeping only the last event would lose what earlier updates set in columns that the last one
    left out. ``has_large``: any column may have a text, which stands for a large value.
    """
    prepared, aggregates, folded = _fold_expressions(shape, has_large)
    return events.select(group, *prepared).groupBy(group).agg(*aggregates).select(*folded)


def rows_of_single_events(events: DataFrame, shape: TableShape, *, has_large: bool = False) -> DataFrame:
    """The same where no two events have one key: nothing is sorted, shuffled or aggregated."""
    return events.select(*_single_expressions(shape, has_large))


@lru_cache(maxsize=512)
def _fold_expressions(shape: TableShape, has_large: bool) -> tuple[list[Column], ...]:
    """Columns of an event, of a key's events, and of a row.

    Built once a shape: every expression is a call into the JVM, and small plans are many.
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
    """Columns of a row of one event. Nothing is put into a struct on the way: each would box its values anew."""
    texts, row = _texts(), _row(shape)
    of_event = row | {"texts": texts} | {name: F.col(name) for name in _OF_LAST[1:]}
    known = {}
    for place in shape.toastable_places:
        knows = _knows(shape, place)
        text = F.element_at(texts, F.lit(shape.columns[place].name))
        known[place] = _Known(F.when(knows, row[place_name(place)]), F.when(knows, text), ~knows)
    return _folded_columns(shape, _Folded("", of_event, of_event, known, _moved()), has_large)


def _row(shape: TableShape) -> dict[str, Column]:
    """The row that an event is about; of a row that is gone only its key is asked for, and decoded."""
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
    """A column that an event may leave out: what is known of it."""

    value: Column
    text: Column
    is_missing: Column

    @classmethod
    def of_struct(cls, found: Column) -> "_Known":
        return cls(found["value"], found["text"], found.isNull())


@dataclass(frozen=True, slots=True)
class _Folded:
    """Where the columns of a row come from. ``prefix``: of the last event's own; ``known``: by place."""

    prefix: str
    last: Mapping[str, Column]
    first: Mapping[str, Column]
    known: Mapping[int, _Known]
    moved: Column


def _moved() -> Column:
    """Whether a key change left columns out."""
    return (F.col("op") == "c") & F.coalesce(F.size("unchanged") > 0, F.lit(False))


def _knows(shape: TableShape, place: int) -> Column:
    """Whether an event tells a column's value."""
    is_left_out = F.array_contains("unchanged", F.lit(shape.columns[place].name))
    return (F.col("op") != "d") & ~F.coalesce(is_left_out, F.lit(False))


def _last_known(shape: TableShape, place: int) -> Column:
    """A column's last known value and its text; max_by skips null positions."""
    value = F.struct(
        F.col(f"row.{place_name(place)}").alias("value"),
        F.element_at("texts", F.lit(shape.columns[place].name)).alias("text"),
    )
    return F.max_by(value, F.when(_knows(shape, place), F.col("position"))).alias(_known(place))


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
    """The last event's texts, but for columns that it may have left out: those come with their values."""
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
    """The name of a key column of the row that a chain of key changes began with."""
    return f"first_key{place}"
