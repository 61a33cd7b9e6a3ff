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

from collections.abc import Sequence
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
    return F.when(F.size(texts) > 0, F.map_from_entries(F.array_sort(F.map_entries(texts))))


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
    prepared, aggregates, _, folded = _fold_expressions(shape, has_large)
    return events.select(group, *prepared).groupBy(group).agg(*aggregates).select(*folded)


def rows_of_single_events(events: DataFrame, shape: TableShape, *, has_large: bool = False) -> DataFrame:
    """The same where no two events have one key: nothing is sorted, shuffled or aggregated."""
    prepared, _, alone, folded = _fold_expressions(shape, has_large)
    return events.select(*prepared).select(*alone).select(*folded)


@lru_cache(maxsize=512)
def _fold_expressions(shape: TableShape, has_large: bool) -> tuple[list[Column], ...]:
    """Columns of an event, of a key's events, of a single event, and of a row.

    Built once a shape: every expression is a call into the JVM, and small plans are many.
    """
    row = _row(shape)
    prepared = [
        F.struct("commit_lsn", "ordinal").alias("position"),
        *[column.alias(name) for name, column in (("row", row), ("texts", _texts()))],
        *[F.col(name) for name in _OF_LAST[1:]],
        F.coalesce("unchanged", F.array().cast("array<string>")).alias("unchanged"),
    ]
    toastable = set(shape.toastable_places)
    always_sent = [f"row.{place_name(place)}" for place in range(len(shape.columns)) if place not in toastable]
    key = [f"row.{place_name(place)}" for place in shape.key_places]
    last, first = F.struct(*always_sent, *_OF_LAST), F.struct(*key, "texts", "op", "ordinal")
    moved = (F.col("op") == "c") & (F.size("unchanged") > 0)
    known = {_known(place): _value_where_known(shape, place) for place in shape.toastable_places}
    aggregates = [
        F.max_by(last, "position").alias("last"),
        F.min_by(first, "position").alias("first"),
        F.bool_or(moved).alias("moved"),
        # max_by skips null positions.
        *[F.max_by(value, F.when(knows, F.col("position"))).alias(name) for name, (value, knows) in known.items()],
    ]
    alone = [
        *(last.alias("last"), first.alias("first"), moved.alias("moved")),
        *[F.when(knows, value).alias(name) for name, (value, knows) in known.items()],
    ]
    is_new = F.when(F.col("first.ordinal") != COPIED_ORDINAL, F.col("first.op") == "c").alias("is_new")
    return prepared, aggregates, alone, [*_folded_columns(shape, has_large), F.col("moved"), *_root_key(shape), is_new]


def _row(shape: TableShape) -> Column:
    """The row that an event is about; of a row that is gone only its key is asked for, and decoded."""
    of_key = set(shape.key_places)
    names = [place_name(place) for place in range(len(shape.columns))]
    gone = F.col("after").isNull()
    values = [
        F.when(gone, F.col(f"before.{name}")).otherwise(F.col(f"after.{name}"))
        if place in of_key
        else F.col(f"after.{name}")
        for place, name in enumerate(names)
    ]
    return F.struct(*[value.alias(name) for value, name in zip(values, names, strict=True)])


_OF_LAST = ("texts", "op", "commit_lsn", "ordinal", "commit_time")


def _known(place: int) -> str:
    return f"known{place}"


def _value_where_known(shape: TableShape, place: int) -> tuple[Column, Column]:
    """A column's value and text at an event, and whether the event knows them."""
    name = F.lit(shape.columns[place].name)
    knows = (F.col("op") != "d") & ~F.array_contains("unchanged", name)
    value = F.struct(
        F.col(f"row.{place_name(place)}").alias("value"),
        F.element_at("texts", name).alias("text"),
    )
    return value, knows


def _folded_columns(shape: TableShape, has_large: bool) -> list[Column]:
    toastable = set(shape.toastable_places)
    gone = F.col("last.op") == "d"
    values = [
        (F.col(f"{_known(place)}.value") if place in toastable else F.col(f"last.{place_name(place)}")).alias(
            place_name(place)
        )
        for place in range(len(shape.columns))
    ]
    unknown = [F.when(~gone & F.col(_known(place)).isNull(), F.lit(place)) for place in shape.toastable_places]
    listed = F.filter(F.array(*unknown), lambda place: place.isNotNull()) if unknown else F.array()
    struct = struct_of(
        F.col("last.op"),
        F.when(~gone, _folded_exceptional(shape, has_large)),
        _key_text(shape, F.col("last.texts")),
        "last.",
    )
    return [*values, struct.alias("change"), listed.cast("array<int>").alias("unknown")]


def _folded_exceptional(shape: TableShape, has_large: bool) -> Column:
    """The last event's texts, but for columns that it may have left out: those come with their values."""
    texts = F.col("last.texts")
    apart = shape.toastable_places if has_large else shape.toastable_exceptional_places
    if not apart:
        return sorted_map(texts)
    names = F.array(*[F.lit(shape.columns[place].name) for place in apart])
    rest = F.map_entries(F.map_filter(texts, lambda name, _: ~F.array_contains(names, name)))
    with_values = F.array(
        *[
            F.struct(F.lit(shape.columns[place].name).alias("key"), F.col(f"{_known(place)}.text").alias("value"))
            for place in apart
        ]
    )
    present = F.filter(with_values, lambda entry: entry["value"].isNotNull())
    entries = F.array_sort(F.concat(F.coalesce(rest, F.array().cast(_ENTRIES)), present.cast(_ENTRIES)))
    return F.when(F.size(entries) > 0, F.map_from_entries(entries))


_ENTRIES = "array<struct<key: string, value: string>>"


def root_name(place: int) -> str:
    """The name of a key column of the row that a chain of key changes began with."""
    return f"root{place}"


def _root_key(shape: TableShape) -> Sequence[Column]:
    values = [F.col(f"first.{place_name(place)}").alias(root_name(place)) for place in shape.key_places]
    return [*values, _key_text(shape, F.col("first.texts")).alias("root_key_text")]
