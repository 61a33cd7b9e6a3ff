"""What ``walbridge verify --every`` counts, for ``/metrics`` and ``/healthz``, and what it says of itself in one line.

In: one call for each table and run. Out: a registry of its own; a metric's name is ``walbridge_verify_`` and the name
given here. No label is a table: a run tells its tables by result, and the log names those that are unequal (I10).
"""

import time
from collections import Counter as Counts
from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import Counter, Gauge

from walbridge.runtime.monitoring.health import STARTING, STOPPED, Health, Pulse
from walbridge.runtime.monitoring.registry import StateGauge, new_registry, show_start
from walbridge.schemas.control.run_record import difference_text
from walbridge.verify.report import TableResult

COMPARING, RESTING, WAITING_FOR_PEERS = "comparing", "resting", "waiting for its peers"
STATES = (STARTING, COMPARING, RESTING, WAITING_FOR_PEERS, STOPPED)
EQUAL, UNEQUAL, UNDECIDED, NOT_CURRENT = "equal", "unequal", "undecided", "not current"
NOT_COMPARED = "not compared"
RESULTS = (EQUAL, UNEQUAL, UNDECIDED, NOT_CURRENT, NOT_COMPARED)
_PREFIX = "walbridge_verify"
_NAMED_MAX = 3


def result_of(table: TableResult) -> str:
    """One of ``RESULTS``."""
    if table.why_not_compared:
        return NOT_COMPARED
    if table.state != "current":
        return NOT_CURRENT
    if any(table.counts.values()):
        return UNEQUAL
    return EQUAL if table.equal else UNDECIDED


class VerifyMetrics:
    """One for each process. Written by the thread that compares, read by others."""

    def __init__(self, pipeline: str, every_s: float, stalled_after_s: float) -> None:
        self.registry = new_registry(pipeline)
        self.pulse = Pulse(stalled_after_s)
        self._whole_s = time.monotonic()
        self._now: dict[str, str] = {}
        self._told, self._failed = "nothing is compared yet", ""
        self._why_not: dict[str, str] = {}
        self._last = ""
        self._tables = Gauge(f"{_PREFIX}_tables", "Tables by their last result", ["result"], registry=self.registry)
        self._count_tables({})
        self._unequal = self._counter("unequal_tables", "Times that a table of the lake was found to differ")
        self._rows = self._counter("rows", "Rows of the source that were compared")
        self._failures = self._counter("failures", "Runs that ended early: a peer was away")
        self._gauge("interval_seconds", "From the begin of one run to that of the next", lambda: every_s)
        self._gauge(
            "whole_run_age_seconds",
            "Since the last run that compared every table; before the first one, since the start",
            lambda: time.monotonic() - self._whole_s,
        )
        self._gauge(
            "since_progress_seconds",
            "Since a part of a table was compared, or nothing was to be done",
            lambda: self.pulse.since_progress_s,
        )
        show_start(_PREFIX, self.registry)
        self.registry.register(StateGauge(_PREFIX, STATES, lambda: self.pulse.state))

    def health(self) -> Health:
        """What ``/healthz`` answers."""
        return self.pulse.health()

    @property
    def summary(self) -> str:
        """For the record of this run: what it does, what it found last, and the last difference, however long ago."""
        return f"{self.pulse.state}; {self._told}{self._failed}{self._last}"

    def found(self, table: TableResult) -> None:
        """A table was compared."""
        result = result_of(table)
        self._rows.inc(table.rows)
        if result == UNEQUAL:
            self._unequal.inc()
            self._last = difference_text(table.table, datetime.now(UTC))
        self._now[table.table] = result
        self._why_not[table.table] = table.why_not_compared

    def run_ended(self, names: list[str]) -> int:
        """All of these had their turn. How many could not be compared."""
        self._now = {name: result for name, result in self._now.items() if name in names}
        why_not = [f"; {name}: {self._why_not[name]}" for name in sorted(self._now) if self._why_not[name]]
        if not why_not:
            self._whole_s = time.monotonic()
        self._count_tables(self._now)
        self._failed = "".join(why_not[:1])
        self._told = f"at {_now()}: {tables_by_result(self._now)}"
        return len(why_not)

    def run_failed(self, why: str) -> None:
        """It goes on later."""
        self._failures.inc()
        self._failed = f"; the run at {_now()} ended early: {why}"

    def _count_tables(self, results: dict[str, str]) -> None:
        counts = Counts(results.values())
        for each in RESULTS:
            self._tables.labels(each).set(counts[each])

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", meaning, registry=self.registry)

    def _gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        Gauge(f"{_PREFIX}_{name}", meaning, registry=self.registry).set_function(value)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}Z"


def tables_by_result(results: dict[str, str]) -> str:
    """``13 of 14 tables equal; unequal: public.orders``."""
    counts = Counts(results.values())
    parts = [f"{counts[EQUAL]} of {len(results)} tables equal"]
    for each in RESULTS[1:]:
        named = sorted(name for name, result in results.items() if result == each)
        more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
        if named:
            parts.append(f"{each}: {', '.join(named[:_NAMED_MAX])}{more}")
    return "; ".join(parts)
