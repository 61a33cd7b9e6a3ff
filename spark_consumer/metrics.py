"""What the Spark job counts, for ``/metrics`` and ``/healthz``.

In: one call for each plan, table and change of state. Out: a registry of its own. A metric's name is
``walbridge_job_`` and the name given here, of a counter with ``_total``. Labels are phases, kinds,
states and classes, never a row value or a setting (I10).
"""

import time
from collections import Counter as CountOf
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client import Counter, Gauge, Histogram

from walbridge.runtime.monitoring.health import STARTING, STOPPED, WAITING, WAITING_FOR_KAFKA, Health, Pulse
from walbridge.runtime.monitoring.registry import StateGauge, free_bytes, new_registry, show_start
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.plan import Plan
from walbridge.spark_consumer.plan.unread_since import PublishedBy, UnreadSince

RUNNING = "running"
STATES = (STARTING, RUNNING, WAITING_FOR_KAFKA, STOPPED)
_PHASE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PREFIX = "walbridge_job"


class JobMetrics:
    """The metrics of one process, over all attempts. Written by the job, read by the endpoint's threads."""

    def __init__(self, stalled_after_s: float = 300, pipeline: str = "", lake: str = "") -> None:
        self.registry = new_registry(pipeline)
        self.pulse = Pulse(stalled_after_s)
        self._begun_s: float | None = None
        self.open_plan: Plan | None = None
        """The plan in work, until the lake says that it is carried out."""
        self._unread = UnreadSince()
        self._plans = self._counter("plans", "Plans carried out, by what they ended as", "kind")
        self._rows = self._counter("rows", "Records read and applied")
        self._retries = self._counter("retries", "Times that Kafka went away and was waited for")
        self._errors = self._counter("errors", "Errors, by class", "class")
        self._phase_s = Histogram(
            f"{_PREFIX}_plan_seconds",
            "Time that plans took, by phase",
            ("phase",),
            buckets=_PHASE_BUCKETS_S,
            registry=self.registry,
        )
        self._cut_id = self._gauge("published_cut_id", "Of the newest published cut")
        self._lsn = self._gauge("published_lsn", "Of the newest published cut, as a number")
        self._tables = Gauge(f"{_PREFIX}_tables", "Tables of the lake, by state", ("state",), registry=self.registry)
        self._gauge(
            "published_age_seconds",
            "Since the newest commit in the published cut, or since the newest cut that added nothing to it",
        ).set_function(lambda: max(time.time() - self._unread.published_s, 0))
        self._gauge("published_time_seconds", "The time of that commit or cut").set_function(
            lambda: self._unread.published_s
        )
        self._gauge("unread_time_seconds", "The same, or when a copy began that is not in the lake").set_function(
            lambda: self._unread.at_s
        )
        self._gauge("since_progress_seconds", "Since a step of a plan got on or nothing was left to do").set_function(
            lambda: self.pulse.since_progress_s
        )
        self._gauge("plan_age_seconds", "Of the plan in work").set_function(self._plan_age_s)
        self._plan_rows = self._gauge("plan_rows", "Records of the plan in work")
        self._plan_tables = self._gauge("plan_tables", "Tables of the plan in work")
        self._copy_rows = self._gauge("copy_rows", "Records of the copy that is written beside the plans")
        self._gauge("lake_free_bytes", "Free on the disk of the lake").set_function(lambda: free_bytes(lake))
        show_start(_PREFIX, self.registry)
        self.registry.register(StateGauge(_PREFIX, STATES, lambda: self.state))

    def enter(self, state: str) -> None:
        """Enter a state."""
        self.pulse.enter(state)

    @property
    def state(self) -> str:
        """What the program is doing. Kafka is the only peer that it waits for."""
        return WAITING_FOR_KAFKA if self.pulse.state == WAITING else self.pulse.state

    def health(self) -> Health:
        """What ``/healthz`` answers."""
        return replace(self.pulse.health(), state=self.state)

    @contextmanager
    def in_work(self, plan: Plan) -> Iterator[None]:
        """A block that carries out a plan."""
        self._begun_s = time.monotonic()
        self.open_plan = plan
        self._plan_rows.set(plan.rows)
        self._plan_tables.set(len(plan.tables))
        try:
            yield
        finally:
            self._begun_s = self.open_plan = None
            self._plan_rows.set(0)
            self._plan_tables.set(0)

    def copy_in_work(self, rows: int) -> None:
        """A copy of so many records is written beside the plans; 0: none is."""
        self._copy_rows.set(rows)

    def plan_done(self, plan: Plan, row: CutRow, laps_ms: Mapping[str, int]) -> None:
        """A plan was carried out, and ``row`` says so in the lake."""
        self.pulse.beat()
        self.open_plan = None
        self._plans.labels(row.kind).inc()
        self._rows.inc(plan.rows)
        for lap, spent_ms in laps_ms.items():
            self._phase_s.labels(lap.removesuffix("_ms")).observe(spent_ms / 1000)
        self.show_row(row)

    def show_row(self, row: CutRow, published_by: PublishedBy | None = None) -> None:
        """Show the newest finished row of ``_cuts``. ``published_by``: given at the start only."""
        self._unread.add_row(row, published_by)
        if row.kind == "published":
            self._cut_id.set(row.to_cut)
            self._lsn.set(row.end_lsn)
        self._tables.clear()
        for state, count in CountOf(entry.state for entry in row.tables if not entry.is_dropped).items():
            self._tables.labels(state).set(count)

    def reached(self, idle: CutRow) -> None:
        """Note that the published state equals the source up to this row, since no table has changed until then."""
        self._unread.reached(idle.commit_time or idle.written_at)

    def kafka_away(self, error: BaseException) -> None:
        """Count an attempt that ended because Kafka is away; another one begins after a pause."""
        self.failed(error)
        self._retries.inc()
        self.enter(WAITING)

    def failed(self, error: BaseException) -> None:
        """Count an error by its class; its text is for the log."""
        self._errors.labels(type(error).__name__).inc()

    def _plan_age_s(self) -> float:
        begun_s = self._begun_s
        return 0.0 if begun_s is None else time.monotonic() - begun_s

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}_total", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", meaning, registry=self.registry)
