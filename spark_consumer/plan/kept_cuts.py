"""Which rows of ``_cuts`` are kept as they grow old: all of them, then one a minute, then one an hour, then none.

In: rows by sequence. Out: the ranges of sequences to drop. Pure.

A minute or an hour is thinned when all of it is old enough, and its last published row stays. So what
is kept at a moment follows from the rows alone, not from when anybody looked before. The newest
published row is what readers take, and what comes after it is a plan that goes on: they stay, however
old they are (I8).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

PUBLISHED = "published"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


class WrittenRow(NamedTuple):
    """As much of a row as the rule asks for."""

    sequence: int
    kind: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class Retention:
    """How long every row is kept, one published row a minute, and one an hour."""

    all_for: timedelta
    minutes_for: timedelta
    hours_for: timedelta


def dropped(rows: Sequence[WrittenRow], retention: Retention, now: datetime) -> list[tuple[int, int]]:
    """First and last sequence of each run of rows that are to go. ``rows``: in the order of their sequences."""
    newest = max((row.sequence for row in rows if row.kind == PUBLISHED), default=None)
    if newest is None:
        return []
    last = {_span(row, retention, now): row.sequence for row in rows if row.kind == PUBLISHED}
    runs: list[tuple[int, int]] = []
    is_running = False
    for row in rows:
        if row.sequence >= newest or _is_kept(row, last, retention, now):
            is_running = False
        elif is_running:
            runs[-1] = runs[-1][0], row.sequence
        else:
            runs.append((row.sequence, row.sequence))
            is_running = True
    return runs


_Span = tuple[timedelta, int] | None


def _is_kept(row: WrittenRow, last: dict[_Span, int], retention: Retention, now: datetime) -> bool:
    if row.written_at < now - retention.hours_for:
        return False
    span = _span(row, retention, now)
    return span is None or last.get(span) == row.sequence


def _span(row: WrittenRow, retention: Retention, now: datetime) -> _Span:
    """The minute or hour that keeps one row, of which this one may be it; None while all are kept."""
    since = row.written_at - _EPOCH
    if (since // MINUTE + 1) * MINUTE > now - retention.all_for - _EPOCH:
        return None
    if (since // HOUR + 1) * HOUR > now - retention.minutes_for - _EPOCH:
        return MINUTE, since // MINUTE
    return HOUR, since // HOUR
