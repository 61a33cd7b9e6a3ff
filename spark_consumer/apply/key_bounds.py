"""Bounds of the keys in a merge, so that files without such keys are not read.

In: folded rows. Out: a condition on the lake's key columns that holds for every row which one of them can
match: ranges of integers and dates, split at their largest gaps, or the range from the smallest to the largest text.
The engine skips each file whose statistics rule the condition out. If it skipped a file wrongly, rows would be there
twice (I5). So other types have no bounds: their statistics leave NaN out, or are cut off at a millisecond or at a
double's precision. Nor has a column with a null, which may stand for ``infinity``. If there are few values, Spark also
gets each of them, and drops all other rows of a file before the join.
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
"""Ranges of one column: each is compared with each file's bounds."""
TEXT_BYTES_MAX = 256
"""A column with a longer text at either end has no bounds, since the condition would hold it."""
VALUES_MAX = 5_000
"""Values of one column that are listed: parsing the condition costs Spark some microseconds for each."""
LIST_CHARACTERS_MAX = 2**18
"""Length of such a list."""


class _ColumnBounds(Protocol):
    """The bounds of one key column."""

    def widen(self, values: pa.Array) -> bool:
        """Include these values; False if the column can have no bounds any more."""

    def condition(self, name: str, dialect: Dialect) -> str:
        """The condition in SQL."""

    def overlap(self, lows: pa.Array, highs: pa.Array) -> pa.Array:
        """Which of the files with these bounds may hold one of the values; null where that is unknown."""


@dataclass(frozen=True)
class KeyBounds:
    """The bounds of all key columns that have some, by the column's name in the lake."""

    columns: Mapping[str, _ColumnBounds]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], shape: TableShape) -> "KeyBounds":
        """The bounds of folded rows."""
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
        """The condition in SQL, on ``target``; empty without bounds."""
        terms = (of.condition(f"target.{dialect.quoted(name)}", dialect) for name, of in self.columns.items())
        return " AND ".join(terms)

    def files_within(self, files: pa.Table) -> pa.Table:
        """The rows of ``LakeTable.file_statistics`` whose files may hold one of the keys."""
        for name, bounds in self.columns.items():
            if f"min.{name}" in files.column_names:
                may = bounds.overlap(files[f"min.{name}"], files[f"max.{name}"])
                files = files.filter(pc.fill_null(may, True))
        return files


@dataclass
class _Numbers:
    """Sorted ranges that do not overlap. Dates are numbers of days."""

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
    """Ranges over sorted numbers, split at their largest gaps."""
    gaps = found[1:].astype(np.uint64) - found[:-1].astype(np.uint64)  # which may be larger than any signed number
    ends = np.sort(np.argsort(gaps)[max(len(gaps) - RANGES_MAX + 1, 0) :])
    lows, highs = found[[0, *(ends + 1)]], found[[*ends, len(found) - 1]]
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges sorted and without overlaps, merged over the smallest gaps until there are ``RANGES_MAX`` at most."""
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
    """The smallest and the largest text, in the order of code points, which is that of UTF-8."""

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
    """The values themselves as long as they are few; ``values`` is None once there are more."""

    values: set[Any] | None = field(default_factory=set)

    def add(self, values: Any) -> None:
        """Include these values, an array of Arrow or NumPy."""
        if self.values is not None:
            found = self.values | {*values.tolist()} if len(values) <= VALUES_MAX else ()
            self.values = {*found} if 0 < len(found) <= VALUES_MAX else None

    def condition(self, name: str, sql: Callable[[Any], str], dialect: Dialect) -> str:
        """SQL to append to the column's condition; empty where the values are many or the engine gains nothing."""
        if self.values is None or not dialect.looks_up_lists:
            return ""
        listed = ", ".join(map(sql, sorted(self.values)))
        return f" AND {name} IN ({listed})" if len(listed) <= LIST_CHARACTERS_MAX else ""
