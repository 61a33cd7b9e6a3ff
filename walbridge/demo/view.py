"""The demo's live view: a table on a terminal, a line every few seconds elsewhere.

In: measures. Out: what a person sees. Rates are over the last few looks, because Postgres'
sessions hand in their statistics once a second only.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from walbridge.demo.measures import Measure

WINDOW = 5
LINE_INTERVAL_S = 5.0


class View:
    """Shows measures as they come. A context manager: a terminal's cursor is given back on exit."""

    def __init__(self, tables: tuple[str, ...], console: Console, seconds: int) -> None:
        self._tables = tables
        self._console = console
        self._seconds = seconds
        self._window: deque[Measure] = deque(maxlen=WINDOW)
        self._began_s: float | None = None
        self._line_due_s = 0.0
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def show(self, measure: Measure) -> None:
        """Take a measure in, and show it if its time has come."""
        self._window.append(measure)
        self._began_s = measure.at_s if self._began_s is None else self._began_s
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif measure.at_s >= self._line_due_s:
            self._console.print(self._line(), soft_wrap=True, highlight=False)
            self._line_due_s = measure.at_s + LINE_INTERVAL_S

    def __enter__(self) -> Self:
        (self._live or nullcontext()).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self._live or nullcontext()).__exit__(kind, error, trace)

    def _table(self) -> Table:
        newest = self._window[-1]
        table = Table(title=f"pgbench, {self._elapsed_s():.0f} of {self._seconds} s", caption=f"lag {lag(newest)}")
        table.add_column("table")
        for column in ("Postgres rows/s", "Kafka rows/s", "lake rows"):
            table.add_column(column, justify="right")
        for name in self._tables:
            rates = f"{self._rate(name, 'written'):,.0f}", f"{self._rate(name, 'records'):,.0f}"
            table.add_row(name, *rates, f"{newest.lake_rows.get(name, 0):,}")
        return table

    def _line(self) -> str:
        newest = self._window[-1]
        parts = [
            f"{name.rpartition('_')[2]} {self._rate(name, 'written'):,.0f}/{self._rate(name, 'records'):,.0f} "
            f"{newest.lake_rows.get(name, 0):,}"
            for name in self._tables
        ]
        columns = "table, Postgres/Kafka rows/s, lake rows: "
        return f"{self._elapsed_s():3.0f} s  {columns}{' · '.join(parts)} · lag {lag(newest)}"

    def _elapsed_s(self) -> float:
        return self._window[-1].at_s - (self._began_s or 0.0)

    def _rate(self, table: str, of: str) -> float:
        oldest, newest = self._window[0], self._window[-1]
        if oldest is newest:
            return 0.0
        before: Mapping[str, int] = getattr(oldest, of)
        after: Mapping[str, int] = getattr(newest, of)
        return (after.get(table, 0) - before.get(table, 0)) / (newest.at_s - oldest.at_s)


def lag(measure: Measure) -> str:
    """``52 kB, 0.8 s``: from the source's commit to a published cut."""
    if measure.lag_bytes is None or measure.lag_s is None:
        return "not known yet"
    return f"{measure.lag_bytes / 1000:,.0f} kB, {measure.lag_s:.1f} s"
