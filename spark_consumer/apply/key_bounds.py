"""Where in a table the rows of a merge can be, so that files outside are not read.

In: folded rows. Out: a condition on the lake's key columns that is true of every row which one of them can
match: ranges of whole numbers and dates, torn apart at their largest gaps, and from the smallest to the largest
text. What the log says of a file's columns then leaves it out; one that is left out wrongly would get its rows
twice (I5), so nothing is said of other types, whose statistics leave NaN out or are cut off below a millisecond or a
double's precision, nor of a column with a null, which may stand for ``infinity``. Spark is also told few values one by
one: it then leaves out all other rows of a file before it sends them to the join.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walbridge.spark_consumer.delta.dialect import DELTA_RS, Dialect
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

RANGES_MAX = 16
"""Of one column: each is compared with each file's bounds."""
TEXT_BYTES_MAX = 256
"""Longer texts would stand in the condition."""
VALUES_MAX = 5_000
"""Of one column, told one by one: reading the condition costs Spark some microseconds for each."""
LIST_CHARACTERS_MAX = 2**18
"""Of all of them."""


class _ColumnBounds(Protocol):
    """What is known of one column so far."""

    def widen(self, values: pa.Array) -> bool:
        """Hold these values, too; False where nothing can be said any more."""

    def condition(self, name: str, dialect: Dialect) -> str:
        """In SQL."""

    def overlap(self, lows: pa.Array, highs: pa.Array) -> pa.Array:
        """Which files, with these bounds, may hold one of the values; null where nobody knows."""


@dataclass(frozen=True)
class KeyBounds:
    """By the name that a key column has in the lake."""

    columns: Mapping[str, _ColumnBounds]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], shape: TableShape) -> "KeyBounds":
        """Of folded rows."""
        found: dict[int, _ColumnBounds] = {}
        for place in shape.key_places:
            codec = shape.columns[place].column_type.codec
            if codec in ("int", "date"):
                found[place] = _Numbers(is_date=codec == "date")
            elif codec == "string":
                found[place] = _Texts()
        is_empty = True
        for batch in filter(len, batches):
            is_empty = False
            for place in [*found]:
                values = batch.column(place_name(place))
                if values.null_count or not found[place].widen(values):
                    del found[place]
        return cls({} if is_empty else {shape.lake_names[place]: bounds for place, bounds in found.items()})

    def condition(self, dialect: Dialect = DELTA_RS) -> str:
        """In SQL, over ``target``; empty where nothing can be said."""
        terms = (of.condition(f"target.{dialect.quoted(name)}", dialect) for name, of in self.columns.items())
        return " AND ".join(terms)

    def files_within(self, files: pa.Table) -> pa.Table:
        """Of ``LakeTable.file_statistics`` those that may hold one of the rows."""
        for name, bounds in self.columns.items():
            if f"min.{name}" in files.column_names:
                may = bounds.overlap(files[f"min.{name}"], files[f"max.{name}"])
                files = files.filter(pc.fill_null(may, True))
        return files


@dataclass
class _Numbers:
    """Ranges in order, apart from each other. Dates are numbers of days."""

    is_date: bool
    ranges: list[tuple[int, int]] = field(default_factory=list)
    few: "_Few" = field(default_factory=lambda: _Few())

    def widen(self, values: pa.Array) -> bool:
        found = np.unique(self._numbers(values).to_numpy())
        self.ranges = _joined([*self.ranges, *_ranges(found)])
        self.few.add(found)
        return True

    def condition(self, name: str, dialect: Dialect) -> str:
        terms = (f"{name} BETWEEN {self._sql(low)} AND {self._sql(high)}" for low, high in self.ranges)
        return f"({' OR '.join(terms)})" + self.few.condition(name, self._sql, dialect)

    def overlap(self, lows: pa.Array, highs: pa.Array) -> pa.Array:
        lows, highs = self._numbers(lows), self._numbers(highs)
        may = pa.nulls(len(lows), pa.bool_())
        for low, high in self.ranges:
            of_range = pc.and_(pc.less_equal(lows, high), pc.greater_equal(highs, low))
            may = pc.or_(pc.fill_null(may, False), of_range)
        return may

    def _numbers(self, values: Any) -> Any:
        return values.cast(pa.int32()).cast(pa.int64()) if self.is_date else values.cast(pa.int64())

    def _sql(self, number: int) -> str:
        return f"CAST('{np.datetime64(number, 'D')}' AS DATE)" if self.is_date else str(number)


def _ranges(found: Any) -> list[tuple[int, int]]:
    """Of numbers in order, torn apart at the largest gaps."""
    gaps = found[1:].astype(np.uint64) - found[:-1].astype(np.uint64)  # which may be larger than any signed number
    ends = np.sort(np.argsort(gaps)[max(len(gaps) - RANGES_MAX + 1, 0) :])
    lows, highs = found[[0, *(ends + 1)]], found[[*ends, len(found) - 1]]
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order and without overlaps; the smallest gaps are closed until there are no more than ``RANGES_MAX``."""
    apart: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if apart and low <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], high)
        else:
            apart.append((low, high))
    while len(apart) > RANGES_MAX:
        at = min(range(len(apart) - 1), key=lambda place: apart[place + 1][0] - apart[place][1])
        apart[at : at + 2] = [(apart[at][0], apart[at + 1][1])]
    return apart


@dataclass
class _Texts:
    """From the smallest to the largest, in the order of code points, which is that of UTF-8."""

    ends: tuple[str, str] = ("", "")
    is_empty: bool = True
    few: "_Few" = field(default_factory=lambda: _Few())

    def widen(self, values: pa.Array) -> bool:
        self.few.add(values)
        texts = [*pc.min_max(values).as_py().values(), *(() if self.is_empty else self.ends)]
        self.ends, self.is_empty = (min(texts), max(texts)), False
        return max(len(text.encode()) for text in self.ends) <= TEXT_BYTES_MAX

    def condition(self, name: str, dialect: Dialect) -> str:
        low, high = map(dialect.literal, self.ends)
        return f"({name} BETWEEN {low} AND {high})" + self.few.condition(name, dialect.literal, dialect)

    def overlap(self, lows: pa.Array, highs: pa.Array) -> pa.Array:
        low, high = self.ends
        return pc.and_(pc.less_equal(lows, high), pc.greater_equal(highs, low))


@dataclass
class _Few:
    """The values themselves, as long as they are few; None: they are not."""

    values: set[Any] | None = field(default_factory=set)

    def add(self, values: Any) -> None:
        """Hold these, too: an array of Arrow or NumPy."""
        if self.values is not None:
            found = self.values | {*values.tolist()} if len(values) <= VALUES_MAX else ()
            self.values = {*found} if 0 < len(found) <= VALUES_MAX else None

    def condition(self, name: str, sql: Callable[[Any], str], dialect: Dialect) -> str:
        """Behind what is said of the column; empty where nothing is to be added."""
        if self.values is None or not dialect.looks_up_lists:
            return ""
        listed = ", ".join(map(sql, sorted(self.values)))
        return f" AND {name} IN ({listed})" if len(listed) <= LIST_CHARACTERS_MAX else ""
