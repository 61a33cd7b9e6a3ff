"""Logs the progress of a plan that takes long, so that an operator sees what the job is doing.

In: a plan, and which of its tables are begun and done. Out: a line at least every 10 s while the plan goes on. A
shorter plan has only the line at its end.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from walbridge.runtime.logs import progress_interval_s
from walbridge.spark_consumer.plan.plan import Plan, TablePlan

LINE_EVERY_S = 9.0
"""A little less than 10 s: whether a line is due is asked every five seconds."""
NAMED_MAX = 3

log = structlog.get_logger()


class Stopwatch:
    """How long consecutive stages of a plan took, in milliseconds, by name."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self.laps_ms: dict[str, int] = {}

    def lap(self, name: str) -> None:
        """End the stage ``name``; the next one begins."""
        now = time.perf_counter()
        self.laps_ms[name] = round((now - self._since) * 1000)
        self._since = now


class PlanProgress:
    """The progress of one plan. Tables begin and end in several threads; another thread logs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._begun_s = self._logged_s = time.monotonic()
        self._lock = threading.Lock()
        self._in_work: dict[str, float] = {}
        self._done = 0

    @contextmanager
    def applying(self, table: TablePlan) -> Iterator[None]:
        """A block that applies one table."""
        with self._lock:
            self._in_work[table.topic] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._in_work[table.topic]
                self._done += 1

    def log_if_due(self) -> None:
        """Write a line, unless one was written just now."""
        now_s = time.monotonic()
        if now_s - self._logged_s < progress_interval_s(LINE_EVERY_S):
            return
        self._logged_s = now_s
        with self._lock:
            done, longest_first = self._done, sorted(self._in_work, key=self._in_work.__getitem__)
        log.info(
            "a plan is in work",
            to_cut=self._plan.to_cut,
            rows=self._plan.rows,
            tables=len(self._plan.tables),
            tables_done=done,
            seconds=round(now_s - self._begun_s),
            **({"at": ", ".join(longest_first[:NAMED_MAX])} if longest_first else {}),
        )
