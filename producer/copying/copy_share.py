"""How much of a table is copied, and how long the rest takes: estimates, from what Postgres knows without counting.

In: the table's size as the catalogue has it, rows and bytes that are copied. Out: a share between 0 and 1, seconds; and
what a line of the log says of them. Pure.
"""

from dataclasses import dataclass

LINE_S = 10.0
"""At least so often a line tells how far a copy is."""
SHARE_MAX = 0.99
"""An estimate may be too low; what is whole is not told by it."""
_ROW_HEADER_BYTES = 28
"""Of a row in the table, beside its values: header and line pointer."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """``rows``: estimated by the server, None where nothing was ever analysed. ``size_bytes``: with TOAST."""

    rows: int | None
    size_bytes: int

    def expected_rows(self, row_count: int, size_bytes: int) -> int | None:
        """How many rows there may be; ``row_count``, ``size_bytes``: of those that are copied."""
        if self.rows is not None:
            return self.rows
        return round(self.size_bytes / (size_bytes / row_count + _ROW_HEADER_BYTES)) if row_count else None

    def share(self, row_count: int, size_bytes: int) -> float | None:
        """Of the rows, those that are copied; None where that cannot be said yet."""
        expected = self.expected_rows(row_count, size_bytes)
        if expected is None:
            return None
        return min(row_count / expected, SHARE_MAX) if expected > row_count else SHARE_MAX


def seconds_left(share: float | None, share_before: float | None, seconds: float) -> float | None:
    """How long the rest takes at the pace at which the share grew in these seconds."""
    if share is None or share_before is None or share <= share_before or seconds <= 0:
        return None
    return (1 - share) / (share - share_before) * seconds


def line_of(
    table: str, row_count: int, size_bytes: int, share: float | None, rows_per_s: float, left_s: float | None
) -> dict[str, str | int | None]:
    """How far a copy is."""
    return {
        "table": table,
        "rows": row_count,
        "bytes": size_bytes,
        "percent": None if share is None else round(100 * share),
        "rows_per_s": round(rows_per_s),
        "seconds_left": None if left_s is None else round(left_s),
    }
