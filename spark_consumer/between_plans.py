"""What changes in the lake between two plans, at the LSN that it has reached.

In: the state after the newest plan. Out: the state after more rows of ``_cuts`` for the same LSN:

- tables that the source publishes no more are removed, where the settings say so;
- a table whose large copy was written beside the plans (``plan/ended_copies.py``) up to that LSN becomes current. No
  reader has seen it before that row (I8). If its copy cannot be written, the table is in trouble.

A copy in work is remembered nowhere: a job that was killed begins it again from what ``_cuts`` has, and first deletes
what was written aside.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import count

import structlog

from walbridge.runtime.kill_points import kill_point
from walbridge.runtime.logs import progress_interval_s
from walbridge.schemas.errors import RetryableError, TableError
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.apply.copies.copy_builds import CopyBuild, CopyBuilds
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic
from walbridge.spark_consumer.kafka.control.unpublished_tables import UnpublishedTables
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.plan.dropped_tables import may_be_unpublished, taken_out, without_folders
from walbridge.spark_consumer.plan.ended_copies import (
    Written,
    continues,
    copy_of,
    ended_copies,
    is_aside,
    plan_of_copy,
    plan_of_entry,
    plan_of_later_changes,
)
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.next_entries import Relations
from walbridge.spark_consumer.plan.plan import Plan
from walbridge.spark_consumer.plan.table_head import TableHead
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

CATCH_UP_ROWS_MAX = 20_000
"""Changes that came while a copy was written: up to so many are applied while plans wait, more beside them too."""
LINE_EVERY_S = 9.0
WAIT_S = 0.2
CANCEL_S = 60.0
"""How long a cancelled copy may take to end: a commit of delta-rs cannot be interrupted."""
STUCK_S = 600.0
"""A copy without progress for so long, of itself or of any Spark job, hangs in storage that does not answer."""

log = structlog.get_logger()

_numbers = count(1)

ReportTroubles = Callable[[Collection[TableTrouble], CutRow, Plan, Relations], None]
"""Tells the operator of tables in trouble, before the row that says it is appended."""


class BetweenPlans:
    """One for each job. Called from one thread at a time, and never beside a plan."""

    def __init__(
        self,
        manifest: Manifest,
        maintenance: Maintenance,
        metadata: MetadataTopic,
        metrics: JobMetrics,
        unpublished: UnpublishedTables | None,
        builds: CopyBuilds,
        report_troubles: ReportTroubles,
    ) -> None:
        """``unpublished``: None where such tables stay in the lake."""
        self._manifest, self._maintenance, self._metadata, self._metrics = manifest, maintenance, metadata, metrics
        self._unpublished, self._builds, self._report_troubles = unpublished, builds, report_troubles
        self._logged_s = 0.0
        self._is_begun = False

    def step(self, state: LakeState) -> LakeState:
        """Do what is due, without waiting for a copy in work; returns the state after it."""
        if not self._is_begun:
            self._maintenance.delete_aside()
            self._is_begun = True
        return self._with_copies(self._without_dropped(state))

    def finish(self, state: LakeState, stop: threading.Event) -> LakeState:
        """Return the state once every copy is written or in trouble, or ``stop`` is set."""
        while (self._builds.running is not None or ended_copies(state)) and not stop.is_set():
            if self._builds.running is not None:
                self._builds.running.has_ended(WAIT_S)
            self._metrics.pulse.beat()
            state = self.step(state)
        return state

    def cancel_conflicting_copy(self, plan: Plan) -> None:
        """Return when no copy is being written into the folder of a table of the plan.

        Raises:
            RetryableError: the copy does not end in time.
        """
        build = self._builds.running
        if build is None:
            return
        ids, paths = {table.relation_id for table in plan.tables}, {table.path for table in plan.tables}
        is_in_conflict = (build.relation_id in ids and not build.is_aside) or build.path in paths
        if is_in_conflict and not _cancel_and_wait(build):
            raise RetryableError(f"the copy that is written in {build.path} does not end, and a plan needs the folder")

    def close(self) -> None:
        """Cancel the copy in work, and wait for its end."""
        if self._builds.running is not None and not _cancel_and_wait(self._builds.running):
            log.warning("a copy that is written beside the plans does not end", path=self._builds.running.path)

    def _without_dropped(self, state: LakeState) -> LakeState:
        """Remove tables that the source publishes no more, where the settings say so, and forget deleted folders.

        The row comes before the next plan is made over these entries: that plan may hold a new table of the same name.
        """
        if self._unpublished is None or not state.is_published or state.epoch is None:
            return state
        deleted = {entry.path for entry in state.entries.values() if entry.is_dropped} & self._maintenance.deleted
        candidates = may_be_unpublished(state.entries)
        unpublished = self._unpublished.of(candidates, state.epoch, state.to_cut, state.end_lsn)
        if not unpublished and not deleted:
            return state
        row = state.row_at_same_lsn(taken_out(without_folders(state.entries, deleted), unpublished))
        self._maintenance.deleted -= deleted
        after = self._appended(state, row)
        for entry in map(state.entries.__getitem__, sorted(unpublished)):
            log.info(
                "table was dropped at the source, or left the publication: it is taken out of the lake",
                table=entry.qualified_name,
                folder=entry.path,
                goes="once no published state that is kept names it",
            )
        return after

    def _with_copies(self, state: LakeState) -> LakeState:
        """Name the copy that is written, or cancel one that is void; then begin the next one."""
        build = self._builds.running
        if build is not None:
            if build.plan.epoch != state.epoch or not continues(copy_of(state, build.relation_id), build.copy):
                build.cancel()
            is_stuck = not build.has_ended() and self._is_stuck(build, state)
            if not build.has_ended() and not is_stuck:
                return state
            self._builds.running = None
            self._metrics.copy_in_work(0)
            state = self._after_stuck(build, state) if is_stuck else self._after_build(build, state)
        if self._builds.running is None:
            self._begin_next(state)
        return state

    def _begin_next(self, state: LakeState) -> None:
        waiting = ended_copies(state)
        if not waiting or state.epoch is None:
            return
        plan = plan_of_copy(state, waiting[0], self._metadata.end_offset(), next(_numbers))
        log.info(
            "a table is copied: what came of it is written beside the plans",
            table=state.entries[waiting[0]].qualified_name,
            rows=plan.rows,
            waiting=len(waiting) - 1,
        )
        self._begin(plan, state)

    def _begin(self, plan: Plan, state: LakeState) -> None:
        (table,) = plan.tables
        copy = copy_of(state, table.relation_id)
        assert copy is not None
        self._maintenance.stop_visiting(table.path)
        self._logged_s = time.monotonic()
        self._metrics.copy_in_work(plan.rows)
        self._builds.begin(plan, copy, self._metadata.relations(plan))

    def _after_build(self, build: CopyBuild, state: LakeState) -> LakeState:
        if build.is_cancelled:
            log.info("what was written of a copy is void", folder=build.path)
            if build.is_aside:
                self._maintenance.delete_aside(build.path)
            elif all(entry.path != build.path for entry in state.entries.values()):
                self._maintenance.delete_unseen(build.path)
            return state
        if isinstance(build.error, TableError):
            return self._in_trouble(build, build.error, state)
        if build.error is not None:
            raise build.error
        assert build.head is not None
        written = Written(build.head, build.copy)
        rest = plan_of_later_changes(state, written, self._metadata.end_offset())
        # Only while they grow fewer: changes that come faster than they are written are applied while plans wait.
        if rest is not None and CATCH_UP_ROWS_MAX < rest.rows < build.plan.rows:
            self._begin(rest, state)
            return state
        try:
            head = self._caught_up(written, state)
        except TableError as error:
            return self._in_trouble(build, error, state)
        return self._named(build, head, state)

    def _caught_up(self, written: Written, state: LakeState) -> TableHead:
        """The table's head, once it has its folder and holds what came since it was written. All plans wait."""
        if is_aside(written.head.path):
            entry = plan_of_entry(state, written, self._metadata.end_offset())
            written = replace(written, head=self._builds.enter(written.head, entry))
        rest = plan_of_later_changes(state, written, self._metadata.end_offset())
        return written.head if rest is None else self._builds.write_now(rest, self._metadata.relations(rest))

    def _named(self, build: CopyBuild, head: TableHead, state: LakeState) -> LakeState:
        """The state after the row that names the table with its copy."""
        row = state.row_with_copy(head, self._metadata.relations(build.plan))
        kill_point("build:before-named")
        after = self._appended(state, row)
        kill_point("build:named")
        log.info(
            "a table's copy is written: it is current",
            table=after.entries[head.relation_id].qualified_name,
            rows=build.copy.records,
            since_lsn=format_lsn(state.end_lsn),
            seconds=round(time.monotonic() - build.begun_s),
        )
        if build.is_aside:
            self._maintenance.delete_aside(build.path)
        self._maintenance.after_plan([head.path])
        return after

    def _in_trouble(self, build: CopyBuild, error: TableError, state: LakeState) -> LakeState:
        (table,) = build.plan.tables
        trouble = TableTrouble(table.relation_id, table.topic, build.copy.schema_id, error)
        relations = self._metadata.relations(build.plan)
        row = state.row_with_trouble(trouble, relations)
        self._report_troubles([trouble], row, build.plan, relations)
        self._maintenance.stop_visiting(state.entries[table.relation_id].path)
        if build.is_aside and build.has_ended():
            self._maintenance.delete_aside(build.path)
        return self._appended(state, row)

    def _appended(self, state: LakeState, row: CutRow) -> LakeState:
        self._manifest.append(row)
        self._metrics.show_row(row)
        return LakeState.after(state.pipeline, row)

    def _after_stuck(self, build: CopyBuild, state: LakeState) -> LakeState:
        build.cancel()
        if not continues(copy_of(state, build.relation_id), build.copy):
            return state
        return self._in_trouble(
            build, TableError(f"its copy is written, and did not get on for {STUCK_S:.0f} s"), state
        )

    def _is_stuck(self, build: CopyBuild, state: LakeState) -> bool:
        """Whether the build has made no progress for ``STUCK_S``; also logs now and then that it runs."""
        now_s = time.monotonic()
        if now_s - self._logged_s >= progress_interval_s(LINE_EVERY_S):
            self._logged_s = now_s
            self._builds.note_progress()
            log.info(
                "a copy is written beside the plans",
                table=self._name(state, build),
                rows=build.plan.rows,
                seconds=round(now_s - build.begun_s),
            )
        return now_s - build.moved_s > STUCK_S

    def _name(self, state: LakeState, build: CopyBuild) -> str:
        entry = state.entries.get(build.relation_id)
        return build.path if entry is None else entry.qualified_name


def _cancel_and_wait(build: CopyBuild) -> bool:
    """Cancel a build; whether it ended within ``CANCEL_S``."""
    until_s = time.monotonic() + CANCEL_S
    build.cancel()
    while not build.has_ended(WAIT_S):
        if time.monotonic() > until_s:
            return False
        build.cancel()
    return True
