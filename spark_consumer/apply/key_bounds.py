"""Where in a table the rows of a merge can be, so that files outside are not read.

In: folded rows. Out: a condition on the lake's key columns that is true of every row which one of them can
match: ranges of whole numbers and dates, torn apart at their largest gaps, and from the smallest to the largest
text. What the log says of a file's columns then leaves it out; one that is left out wrongly would get its rows
twice (I5), so nothing is said of other types, whose statistics leave NaN out or are cut off below a millisecond or a
double's precision, nor of a column with a null, which may stand for ``infinity``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walbridge.spark_consumer.delta.table import quoted
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

RANGES_MAX = 16
"""Of one column: each is compared with each file's bounds."""
TEXT_BYTES_MAX = 256
"""Longer texts would stand in the condition."""


class _Bounds(Protocol):
    """What is known of one column so far."""

    def widen(self, values: pa.Array) -> bool:
        """Hold these values, too; False where nothing can be said any more."""

    def condition(self, name: str) -> str:
        """In SQL."""


def within_bounds(batches: Iterable[pa.RecordBatch], shape: TableShape) -> str:
    """The condition, over ``target``; empty where nothing can be said, or there are no rows."""
    bounds: dict[int, _Bounds] = {}
    for place in shape.key_places:
        codec = shape.columns[place].column_type.codec
        if codec in ("int", "date"):
            bounds[place] = _Numbers(is_date=codec == "date")
        elif codec == "string":
            bounds[place] = _Texts()
    is_empty = True
    for batch in batches:
        if batch.num_rows:
            is_empty = False
            for place in [*bounds]:
                values = batch.column(place_name(place))
                if values.null_count or not bounds[place].widen(values):
                    del bounds[place]
    if is_empty:
        return ""
    return " AND ".join(of.condition(f"target.{quoted(shape.lake_names[place])}") for place, of in bounds.items())


@dataclass
class _Numbers:
    """Ranges in order, apart from each other. Dates are numbers of days."""

    is_date: bool
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def widen(self, values: pa.Array) -> bool:
        numbers = values.cast(pa.int32()) if self.is_date else values
        self.ranges = _joined([*self.ranges, *_ranges(numbers.to_numpy())])
        return True

    def condition(self, name: str) -> str:
        return (
            "("
            + " OR ".join(f"{name} BETWEEN {self._sql(low)} AND {self._sql(high)}" for low, high in self.ranges)
            + ")"
        )

    def _sql(self, number: int) -> str:
        return f"CAST('{np.datetime64(number, 'D')}' AS DATE)" if self.is_date else str(number)


def _ranges(values: np.ndarray) -> list[tuple[int, int]]:
    """Torn apart at the largest gaps."""
    found = np.unique(values.astype(np.int64))
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

    ends: tuple[str, str] | None = None

    def widen(self, values: pa.Array) -> bool:
        texts = [*(self.ends or ()), *pc.min_max(values).as_py().values()]
        self.ends = min(texts), max(texts)
        return max(len(text.encode()) for text in self.ends) <= TEXT_BYTES_MAX

    def condition(self, name: str) -> str:
        low, high = ("'" + text.replace("'", "''") + "'" for text in self.ends or ())
        return f"({name} BETWEEN {low} AND {high})"
