"""Between two plans: what changes in the lake although the source stands where it was.

In: the state that the newest plan left. Out: the state after rows of ``_cuts`` that say the same LSN again, with

- tables that left the source taken out, where the settings say so;
- tables whose large copies were written beside the plans (``plan/ended_copies.py``), up to that LSN: they are current
  from that row on, and before it nobody has seen them (I8). A copy that cannot be written is its table's trouble.

Nothing is remembered of a copy in work: a job that was killed begins it again from what ``_cuts`` has.
"""

import threading
import time
from collections.abc import Callable, Collection

import structlog

from walbridge.runtime.kill_points import kill_point
from walbridge.runtime.logs import progress_interval_s
from walbridge.schemas.errors import RetryableError, TableError
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.apply.copy_builds import CopyBuild, CopyBuilds
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.kafka.left_tables import LeftTables
from walbridge.spark_consumer.kafka.metadata_topic import MetadataTopic
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.plan.dropped_tables import may_have_left, taken_out, without_folders
from walbridge.spark_consumer.plan.ended_copies import (
    Written,
    continues,
    copy_of,
    ended_copies,
    plan_of_copy,
    plan_of_later_changes,
)
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.next_entries import Relations
from walbridge.spark_consumer.plan.plan import Plan
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

CATCH_UP_ROWS_MAX = 20_000
"""Of what came while a copy was written: plans wait for so many, more are written beside them too."""
LINE_EVERY_S = 9.0
WAIT_S = 0.2
LEAVE_S = 60.0
"""For a copy to end that nobody wants any more: a commit of delta-rs cannot be interrupted."""
STUCK_S = 600.0
"""Without a step of the copy, or of any job of Spark's: its thread hangs in storage that does not answer."""

log = structlog.get_logger()

Tell = Callable[[Collection[TableTrouble], CutRow, Plan, Relations], None]
"""Says what has happened to tables, before the row that has it."""


class BetweenPlans:
    """One for each job. Called from one thread at a time, and never beside a plan."""

    def __init__(
        self,
        manifest: Manifest,
        maintenance: Maintenance,
        metadata: MetadataTopic,
        metrics: JobMetrics,
        left: LeftTables | None,
        builds: CopyBuilds,
        tell: Tell,
    ) -> None:
        self._manifest, self._maintenance, self._metadata, self._metrics = manifest, maintenance, metadata, metrics
        self._left, self._builds, self._tell = left, builds, tell
        self._logged_s = 0.0

    def step(self, state: LakeState) -> LakeState:
        """What is due; returns the state after it."""
        return self._with_copies(self._without_dropped(state))

    def finish(self, state: LakeState, stop: threading.Event) -> LakeState:
        """The state once no copy waits to be written, or ``stop`` is set. Each is written, or its table in trouble."""
        while (self._builds.running is not None or ended_copies(state)) and not stop.is_set():
            if self._builds.running is not None:
                self._builds.running.has_ended(WAIT_S)
            self._metrics.pulse.beat()
            state = self.step(state)
        return state

    def make_way(self, plan: Plan) -> None:
        """Return when nothing is written beside the plan to a table of it, or to its folder.

        Raises:
            RetryableError: that does not end in time.
        """
        build = self._builds.running
        if build is None:
            return
        ids, paths = {table.relation_id for table in plan.tables}, {table.path for table in plan.tables}
        if build.relation_id in ids or build.path in paths:
            build.leave()
            if not _is_over(build):
                raise RetryableError(
                    f"the copy that is written in {build.path} does not end, and a plan needs the folder"
                )

    def close(self) -> None:
        """Leave the copy in work, and wait for the end of it."""
        if self._builds.running is not None and not _is_over(self._builds.running):
            log.warning("a copy that is written beside the plans does not end", path=self._builds.running.path)

    def _without_dropped(self, state: LakeState) -> LakeState:
        """Take tables that left the source out of the lake, where the settings say so; then what their folders held.

        A row says so before the next plan, which may be of a table of that name, is made over these entries.
        """
        if self._left is None or not state.is_published or state.epoch is None:
            return state
        deleted = {entry.path for entry in state.entries.values() if entry.is_dropped} & self._maintenance.deleted
        left = self._left.of(may_have_left(state.entries), state.epoch, state.to_cut, state.end_lsn)
        if not left and not deleted:
            return state
        row = state.republished(taken_out(without_folders(state.entries, deleted), left))
        self._maintenance.deleted -= deleted
        after = self._appended(state, row)
        for entry in map(state.entries.__getitem__, sorted(left)):
            log.info(
                "table was dropped at the source, or left the publication: it is taken out of the lake",
                table=entry.qualified_name,
                folder=entry.path,
                goes="once no published state that is kept names it",
            )
        return after

    def _with_copies(self, state: LakeState) -> LakeState:
        """Take what is written over, or leave what is void; begin the next one."""
        build = self._builds.running
        if build is not None:
            if build.plan.epoch != state.epoch or not continues(copy_of(state, build.relation_id), build.copy):
                build.leave()
            is_stuck = not build.has_ended() and self._is_stuck(build, state)
            if not build.has_ended() and not is_stuck:
                return state
            self._builds.running = None
            self._metrics.copy_in_work(0)
            state = self._without_stuck(build, state) if is_stuck else self._after(build, state)
        if self._builds.running is None:
            self._begin_next(state)
        return state

    def _begin_next(self, state: LakeState) -> None:
        waiting = ended_copies(state)
        if not waiting or state.epoch is None:
            return
        plan = plan_of_copy(state, waiting[0], self._metadata.end_offset())
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
        self._maintenance.leave(table.path)
        self._logged_s = time.monotonic()
        self._metrics.copy_in_work(plan.rows)
        self._builds.begin(plan, copy, self._metadata.relations(plan))

    def _after(self, build: CopyBuild, state: LakeState) -> LakeState:
        if build.is_left:
            log.info("what was written of a copy is void", folder=build.path)
            if all(entry.path != build.path for entry in state.entries.values()):
                self._maintenance.delete_unseen(build.path)
            return state
        if isinstance(build.error, TableError):
            return self._in_trouble(build, build.error, state)
        if build.error is not None:
            raise build.error
        assert build.head is not None
        rest = plan_of_later_changes(state, Written(build.head, build.copy), self._metadata.end_offset())
        # Each time fewer: what comes faster than it can be written is for the plans, which let cuts wait.
        if rest is not None and CATCH_UP_ROWS_MAX < rest.rows < build.plan.rows:
            self._begin(rest, state)
            return state
        relations = self._metadata.relations(rest or build.plan)
        try:
            head = build.head if rest is None else self._builds.write_now(rest, relations)
        except TableError as error:
            return self._in_trouble(build, error, state)
        row = state.with_written(head, relations)
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
        self._maintenance.after_plan([head.path])
        return after

    def _in_trouble(self, build: CopyBuild, error: TableError, state: LakeState) -> LakeState:
        (table,) = build.plan.tables
        trouble = TableTrouble(table.relation_id, table.topic, build.copy.schema_id, error)
        relations = self._metadata.relations(build.plan)
        row = state.with_trouble(trouble, relations)
        self._tell([trouble], row, build.plan, relations)
        self._maintenance.leave(table.path)
        return self._appended(state, row)

    def _appended(self, state: LakeState, row: CutRow) -> LakeState:
        self._manifest.append(row)
        self._metrics.found(row)
        return LakeState.after(state.pipeline, row)

    def _without_stuck(self, build: CopyBuild, state: LakeState) -> LakeState:
        build.leave()
        if not continues(copy_of(state, build.relation_id), build.copy):
            return state
        return self._in_trouble(
            build, TableError(f"its copy is written, and did not get on for {STUCK_S:.0f} s"), state
        )

    def _is_stuck(self, build: CopyBuild, state: LakeState) -> bool:
        """Asked for now and then, and told how far it is."""
        now_s = time.monotonic()
        if now_s - self._logged_s >= progress_interval_s(LINE_EVERY_S):
            self._logged_s = now_s
            self._builds.look()
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


def _is_over(build: CopyBuild) -> bool:
    """Whether a copy that is left has ended, in time."""
    until_s = time.monotonic() + LEAVE_S
    build.leave()
    while not build.has_ended(WAIT_S):
        if time.monotonic() > until_s:
            return False
        build.leave()
    return True
