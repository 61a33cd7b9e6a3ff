"""Where a job begins: at the lake's newest row, whatever ended the job before it.

In: the newest row of ``_cuts``, and what the cuts topic holds. Out: the state from which the next cuts are applied. An
open plan is finished; an empty lake is filled from the first cut on; a pipeline with a new name goes on in its lake. If
the next cuts are gone, or do not fit, the job goes on with the epoch that ``walbridge copy --all`` began.

An empty lake may also be a mount point whose storage is missing, which cannot be told apart. If cuts or records are no
longer kept from the beginning, the job stops before it writes a row of ``_cuts``, and names that case first: a copy
would be the wrong remedy. If all are kept, the job logs that it fills an empty lake, and makes the same states again,
each of them right (I8).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import structlog

from walbridge.schemas.errors import OperatorError, RetryableError, foreign_lake
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import CutsLost, cuts_made_anew, cuts_unfit, lake_may_lack_storage
from walbridge.spark_consumer.kafka.control.cuts_source import Cuts, CutsSource
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.plan import ended_copies
from walbridge.spark_consumer.plan.cut_faults import cut_fault, topic_faults
from walbridge.spark_consumer.plan.lake_state import LakeState, same_tables
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.plan import Plan, make_plan
from walbridge.spark_consumer.plan_runner import PlanRunner

log = structlog.get_logger()


class Resumption:
    """Finds the state from which one attempt of a job begins."""

    def __init__(self, settings: Settings, source: CutsSource, plans: PlanRunner, metrics: JobMetrics) -> None:
        self._name, self._path = settings.name, settings.lake.path
        self._source, self._plans, self._metrics = source, plans, metrics

    def state(self, newest: CutRow | None, start: int, end: int) -> LakeState:
        """The state after the newest row, with an open plan finished. ``start``, ``end``: bounds of the cuts topic.

        Raises:
            OperatorError: the lake is of another pipeline, or its cuts are not those of the topic.
        """
        opened = newest if newest is not None and newest.kind == "plan" else None
        finished = self._plans.manifest.finished_before(opened) if opened else newest
        state = LakeState.after(self._name, finished)
        if newest is not None and newest.pipeline != self._name:
            state, opened = self._renamed(newest, finished, start), None
        if finished is not None:
            self._metrics.show_row(finished, self._plans.manifest.newest_published)
        if state.epoch is None:
            log.info("the lake is empty: filling it from the first cut on", path=self._path)
            state = LakeState(self._name, next_offset=start)
        elif state.next_offset > end:
            raise cuts_made_anew()
        return state if opened is None else self._finished(opened, state)

    def _renamed(self, newest: CutRow, finished: CutRow | None, start: int) -> LakeState:
        """The state of the lake under the pipeline's new name. Its cuts come from another topic from now on, and begin
        with a copy of all tables, so that an open plan need not be finished: no reader sees what it wrote."""
        if finished is None:
            raise foreign_lake(self._path, newest.pipeline, self._name)
        log.warning("the lake goes on under a new name", name=self._name, before=newest.pipeline)
        self._source.forget_checkpoint()
        row = replace(
            finished, pipeline=self._name, sequence=newest.sequence + 1, next_offset=start, written_at=datetime.now(UTC)
        )
        self._plans.manifest.append(row)
        return LakeState.after(self._name, row)

    def state_of_newest_epoch(self, lost: CutsLost, start: int, end: int) -> LakeState:
        """The state from which the newest epoch is applied, where the next cuts cannot be. Its cut 1 makes every table
        stale until its copy, or copies all tables, so that an open plan need not be finished.

        Raises:
            CutsLost: no epoch has begun since.
        """
        newest = self._plans.manifest.newest()
        opened = newest if newest is not None and newest.kind == "plan" else None
        finished = self._plans.manifest.finished_before(opened) if opened else newest
        state = LakeState.after(self._name, finished)
        begins = self._source.newest_beginning(start, end, state.epoch)
        if begins is None:
            raise lost
        log.warning("the lake goes on with the newest epoch: cuts before it are left out", reason=lost.what)
        self._source.forget_checkpoint()
        if newest is None or finished is None:
            return replace(state, sequence=0 if newest is None else newest.sequence, next_offset=begins)
        row = replace(finished, sequence=newest.sequence + 1, next_offset=begins, written_at=datetime.now(UTC))
        self._plans.manifest.append(row)
        return LakeState.after(self._name, row)

    @contextmanager
    def retrying_with_new_epoch(self, state: Callable[[], LakeState]) -> Iterator[None]:
        """A block that applies cuts. If some cannot be applied and a new epoch has begun, the next attempt takes that.

        Raises:
            RetryableError: a new epoch has begun.
        """
        try:
            yield
        except CutsLost as lost:
            if self._source.newest_beginning(*self._source.bounds(), state().epoch) is None:
                raise
            raise RetryableError(f"a new epoch has begun, and {lost.what}") from lost

    def _finished(self, opened: CutRow, state: LakeState) -> LakeState:
        """Make the open plan again, from the same cuts and the same table versions, and carry it out."""
        cuts = [pair for part in self._source.read(state.next_offset, opened.next_offset) for pair in part]
        refuse_faults(state, cuts)
        planned = [(at, cut) for at, cut in cuts if str(cut.epoch) == opened.epoch and cut.cut_id >= opened.from_cut]
        if planned:
            state = self._after_untouched_cuts(cuts[: len(cuts) - len(planned)], state)
        entered, plan = self._plan_made_again(planned, opened, state) if planned else (state, None)
        if plan is None or plan.to_cut != opened.to_cut or not same_tables(opened, plan):
            raise CutsLost(
                f"the open plan of cuts {opened.from_cut} to {opened.to_cut} cannot be made again: its cuts changed"
            )
        return self._plans.carry_out(plan, entered, is_open=True)

    def _plan_made_again(self, cuts: Cuts, opened: CutRow, state: LakeState) -> tuple[LakeState, Plan]:
        """The plan that the row opened. Earlier versions of walbridge deferred no copies."""
        entered, plan = plan_of(cuts, state, self._plans)
        if same_tables(opened, plan):
            return entered, plan
        return plan_of(cuts, state, self._plans, defers_copies=False)

    def _after_untouched_cuts(self, cuts: Cuts, state: LakeState) -> LakeState:
        """The state after cuts before the open plan. They wrote to no table, but pending copies have records in
        them."""
        for _, of_epoch in groupby(cuts, key=lambda pair: pair[1].epoch):
            state, plan = plan_of(list(of_epoch), state, self._plans)
            state = state.after_empty_plan(*self._plans.known(plan))
        return state


def plan_of(cuts: Cuts, state: LakeState, plans: PlanRunner, *, defers_copies: bool = True) -> tuple[LakeState, Plan]:
    """The plan of cuts of one epoch, and the state in that epoch. ``defers_copies``: the plan skips large copies."""
    epoch = cuts[-1][1].epoch
    state = state.in_epoch_of(cuts[0][1])
    faults = {topic: fault for _, cut in cuts for topic, fault in topic_faults(cut).items()}
    plan = make_plan(
        cuts,
        state.heads(epoch),
        state.copies(epoch),
        state.awaiting_copy(epoch),
        faults,
        ended_copies.DEFERRED_RECORDS_MIN if defers_copies else None,
    )
    plans.refuse_troubles(plan.troubles)
    return state, plan


def refuse_faults(state: LakeState, cuts: Cuts) -> None:
    """Refuse cuts that do not follow the state's last cut without a gap.

    Raises:
        OperatorError: one of them does not.
    """
    previous = state.last_cut
    for _, cut in cuts:
        if fault := cut_fault(previous, cut):
            raise cuts_unfit(previous, cut, fault)
        previous = cut


@contextmanager
def suspecting_missing_storage(path: str) -> Iterator[None]:
    """A block for a start with an empty lake, whose errors name a missing storage as the first possible cause."""
    try:
        yield
    except OperatorError as error:
        explained = lake_may_lack_storage(path, error)
        if explained is error:
            raise
        raise explained from error
