"""The Spark job, top to bottom: cuts → plan → records → tables → published cut.

In: the cuts topic. Out: Delta tables and rows of ``_cuts``. A new object starts from what the lake says: it
finishes the plan that a killed job left open, catches up with the log, and follows it.

An empty lake is filled from the first cut on. It may also be a mount point whose storage is missing,
which nobody can see from here. Where cuts or records are no longer kept from the beginning, the job
stops before it writes a row of ``_cuts``, and names that case first: a copy would be the wrong remedy.
Where all are kept, it makes the same states again, each of them right (I8), and says that it begins so.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import structlog
from pyspark.sql import SparkSession

from walbridge.schemas.errors import OperatorError, foreign_lake
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import CHANGED_FROM_OUTSIDE, cuts_made_anew, cuts_unfit, doubting_empty
from walbridge.spark_consumer.kafka.cuts_source import Cuts, CutsFrom, CutsSource
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.metadata_topic import MetadataTopic
from walbridge.spark_consumer.metrics import RUNNING, JobMetrics
from walbridge.spark_consumer.pace import Pace
from walbridge.spark_consumer.plan.lake_state import LakeState, same_tables
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.plan import Plan, cut_fault, make_plan, take_cuts, topic_faults
from walbridge.spark_consumer.plan_runner import PlanRunner

log = structlog.get_logger()


class Job:
    """One pipeline into one lake."""

    def __init__(
        self, spark: SparkSession, settings: Settings, stop: threading.Event, metrics: JobMetrics | None = None
    ) -> None:
        self._settings, self._stop = settings, stop
        self._metrics = metrics or JobMetrics()
        self._kafka = KafkaLog(spark, settings)
        self._source = CutsSource(spark, self._kafka, settings)
        metadata = MetadataTopic(self._kafka, settings.name)
        self._pace = Pace(settings.lake.publish_interval_ms)
        self._plans = PlanRunner(spark, self._kafka, metadata, settings, self._metrics, self._pace)
        self._state = LakeState(settings.name)
        self.is_started = False
        """Kafka has answered once: from now on a silent broker is waited for, and is no operator's error."""

    def run(self, *, once: bool) -> None:
        """Finish the open plan, catch up with the log, then follow it. ``once``: only to its present end."""
        start, end = self._source.bounds()
        self.is_started = True
        self._metrics.enter(RUNNING)
        newest = self._plans.manifest.newest()
        with _doubting_an_empty_lake(self._settings.lake.path) if newest is None else nullcontext():
            self._resume(newest, start, end)
            self._apply_new(lambda offset: self._source.read(offset, end))
        if not self._stop.is_set():
            self._source.follow(
                end, self._apply_new, self._stop, self._rest, once=once, wait_s=lambda: self._pace.wait_s
            )
        self._state = self._plans.publish_idle(self._state, now=True)

    def close(self) -> None:
        """Let go of Kafka."""
        self._kafka.close()

    def _resume(self, newest: CutRow | None, start: int, end: int) -> None:
        opened = newest if newest is not None and newest.kind == "plan" else None
        finished = self._plans.manifest.finished_before(opened) if opened else newest
        self._state = LakeState.after(self._settings.name, finished)
        if newest is not None and newest.pipeline != self._settings.name:
            self._state, opened = self._renamed(newest, finished, start), None
        if finished is not None:
            self._metrics.found(finished)
        if self._state.epoch is None:
            log.info("the lake is empty: filling it from the first cut on", path=self._settings.lake.path)
            self._state = LakeState(self._settings.name, next_offset=start)
        elif self._state.next_offset > end:
            raise cuts_made_anew()
        if opened is not None:
            self._finish(opened)

    def _renamed(self, newest: CutRow, finished: CutRow | None, start: int) -> LakeState:
        """The lake as it is, under the pipeline's new name: its cuts are in another topic from here on, and begin with
        a copy of all tables. What a plan that was left open wrote is no reader's."""
        path, name = self._settings.lake.path, self._settings.name
        if finished is None:
            raise foreign_lake(path, newest.pipeline, name)
        log.warning("the lake goes on under a new name", name=name, before=newest.pipeline)
        self._source.forget_checkpoint()
        row = replace(
            finished, pipeline=name, sequence=newest.sequence + 1, next_offset=start, written_at=datetime.now(UTC)
        )
        self._plans.manifest.append(row)
        return LakeState.after(name, row)

    def _finish(self, opened: CutRow) -> None:
        """Make the open plan again from the same cuts over the same heads, and carry it out."""
        cuts = [pair for part in self._source.read(self._state.next_offset, opened.next_offset) for pair in part]
        self._refuse_faults(cuts)
        planned = [(at, cut) for at, cut in cuts if str(cut.epoch) == opened.epoch and cut.cut_id >= opened.from_cut]
        if planned:
            self._pass(cuts[: len(cuts) - len(planned)])
        plan = self._plan(planned) if planned else None
        if plan is None or plan.to_cut != opened.to_cut or not same_tables(opened, plan):
            raise OperatorError(
                f"the open plan of cuts {opened.from_cut} to {opened.to_cut} cannot be made again: its cuts changed",
                remedy=CHANGED_FROM_OUTSIDE,
            )
        self._state = self._plans.carry_out(plan, self._state, is_open=True)

    def _pass(self, cuts: Cuts) -> None:
        """Go over cuts that touched no table and were not published: copies may go on in them."""
        for _, of_epoch in groupby(cuts, key=lambda pair: pair[1].epoch):
            plan = self._plan(list(of_epoch))
            self._state = self._state.passed(*self._plans.known(plan))

    def _plan(self, cuts: Cuts) -> Plan:
        """The plan of cuts of one epoch, which is that of the state from here on."""
        epoch = cuts[-1][1].epoch
        state = self._state = self._state.entered(cuts[0][1])
        faults = {topic: fault for _, cut in cuts for topic, fault in topic_faults(cut).items()}
        plan = make_plan(cuts, state.heads(epoch), state.copies(epoch), state.left(epoch), faults)
        self._plans.refuse_troubles(plan.troubles)
        return plan

    def _apply_new(self, cuts_from: CutsFrom) -> None:
        """Apply the cuts from the next offset on, a bounded number at a time (I9)."""
        for cuts in cuts_from(self._state.next_offset):
            self._apply(cuts)
            # Cuts that a stop left out are no gap: those behind them must not be compared with the last applied one.
            if self._stop.is_set():
                return

    def _rest(self) -> None:
        """Nothing is to be applied."""
        self._metrics.pulse.beat()
        self._state = self._plans.publish_idle(self._state)

    def _apply(self, cuts: Cuts) -> None:
        """Apply these cuts plan by plan, until the job is asked to stop."""
        self._refuse_faults(cuts)
        while cuts and not self._stop.is_set():
            count = take_cuts(cuts, self._settings.lake.plan_rows_max)
            plan = self._plan(cuts[:count])
            self._state = self._plans.carry_out(plan, self._state, is_open=False)
            cuts = cuts[count:]

    def _refuse_faults(self, cuts: Cuts) -> None:
        previous = self._state.last_cut
        for _, cut in cuts:
            if fault := cut_fault(previous, cut):
                raise cuts_unfit(previous, cut, fault)
            previous = cut


@contextmanager
def _doubting_an_empty_lake(path: str) -> Iterator[None]:
    """A block in which a new copy is the remedy only if the lake is really new."""
    try:
        yield
    except OperatorError as error:
        doubting = doubting_empty(path, error)
        if doubting is error:
            raise
        raise doubting from error
