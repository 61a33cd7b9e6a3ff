"""The Spark job, top to bottom: cuts → plan → records → tables → published cut.

In: the cuts topic. Out: Delta tables and rows of ``_cuts``. Applying a plan has five durable
steps, and a job killed between any two is finished by the next start:

    1. the plan row is appended       "job:plan-open"       nothing but intent
    2. each table is committed        "job:table-applied"   skipped when it is done again (I5)
    3. every table is done            "job:before-publish"
    4. the published row is appended  "job:published"       readers see it, all tables at once (I8)
    5. the stream's checkpoint moves                        decides nothing
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import structlog
from pyspark.sql import SparkSession

from schemas.errors import COPY_AGAIN, OperatorError
from schemas.position import format_lsn
from schemas.settings import Settings, flatten
from spark_consumer.apply.apply import apply_table
from spark_consumer.delta.maintenance import Maintenance
from spark_consumer.delta.manifest import Manifest
from spark_consumer.kafka.change_reader import TableRecords, planned_records
from spark_consumer.kafka.cuts_source import Cuts, CutsSource
from spark_consumer.kafka.kafka_log import KafkaLog
from spark_consumer.kafka.metadata_topic import MetadataTopic
from spark_consumer.metrics import RUNNING, JobMetrics
from spark_consumer.plan.lake_state import LakeState, Relations, same_tables
from spark_consumer.plan.manifest_row import CutRow
from spark_consumer.plan.plan import Plan, TableHead, TablePlan, cut_fault, make_plan, take_cuts
from spark_consumer.stopwatch import Stopwatch
from walbridge_runtime.kill_points import kill_point

log = structlog.get_logger()


class Job:
    """One pipeline into one lake. A new object starts from what the lake says."""

    def __init__(
        self, spark: SparkSession, settings: Settings, stop: threading.Event, metrics: JobMetrics | None = None
    ) -> None:
        self._settings, self._stop = settings, stop
        self._metrics = metrics or JobMetrics()
        self._lake = settings.lake.path.rstrip("/")
        self._storage_options = flatten(settings.lake.storage_options)
        self._kafka = KafkaLog(spark, settings)
        self._source = CutsSource(spark, self._kafka, settings)
        self._metadata = MetadataTopic(self._kafka, settings.name)
        self._manifest = Manifest(self._lake, settings.name, self._storage_options)
        self._maintenance = Maintenance(self._lake, self._manifest, settings)
        self._state = LakeState(settings.name)
        self.is_started = False
        """Kafka has answered: from now on its silence is not the operator's."""

    def run(self, *, once: bool) -> None:
        """Finish what is open, catch up with the log, then follow it. ``once``: up to its end as it is now."""
        start, end = self._source.bounds()
        self.is_started = True
        self._metrics.enter(RUNNING)
        self._resume(start, end)
        for cuts in self._source.read(self._state.next_offset, end):
            self._apply(cuts)
        if not self._stop.is_set():
            self._source.follow(end, self._apply, self._stop, self._metrics.pulse.beat, once=once)

    def close(self) -> None:
        """Let go of Kafka."""
        self._kafka.close()

    def _resume(self, start: int, end: int) -> None:
        newest = self._manifest.newest()
        opened = newest if newest is not None and newest.kind == "plan" else None
        finished = self._manifest.finished_before(opened) if opened else newest
        self._state = LakeState.after(self._settings.name, finished)
        if finished is not None:
            self._metrics.found(finished)
        if self._state.epoch is None:
            self._state = LakeState(self._settings.name, next_offset=start)
        elif self._state.next_offset > end:
            raise OperatorError(
                "the cuts topic ends before what this lake has applied: it was made anew",
                remedy=COPY_AGAIN,
            )
        if opened is not None:
            self._finish(opened)

    def _finish(self, opened: CutRow) -> None:
        """Make the open plan again from the same cuts over the same heads, and carry it out."""
        cuts = [pair for part in self._source.read(self._state.next_offset, opened.next_offset) for pair in part]
        self._refuse_faults(cuts)
        planned = [(at, cut) for at, cut in cuts if str(cut.epoch) == opened.epoch and cut.cut_id >= opened.from_cut]
        plan = make_plan(planned, self._state.heads(planned[-1][1].epoch)) if planned else None
        if plan is None or plan.to_cut != opened.to_cut or not same_tables(opened, plan):
            raise OperatorError(
                f"the open plan of cuts {opened.from_cut} to {opened.to_cut} cannot be made again: its cuts changed",
                remedy=f"the cuts topic was changed from outside: {COPY_AGAIN}",
            )
        self._carry_out(plan, is_open=True)

    def _apply(self, cuts: Cuts) -> None:
        """Apply the cuts that are new, plan by plan."""
        new = [(offset, cut) for offset, cut in cuts if offset >= self._state.next_offset]
        self._refuse_faults(new)
        while new and not self._stop.is_set():
            count = take_cuts(new, self._settings.lake.plan_rows_max)
            self._carry_out(make_plan(new[:count], self._state.heads(new[count - 1][1].epoch)), is_open=False)
            new = new[count:]

    def _refuse_faults(self, cuts: Cuts) -> None:
        previous = self._state.last_cut
        for _, cut in cuts:
            if fault := cut_fault(previous, cut):
                raise OperatorError(
                    f"the cuts do not fit together: {fault}",
                    remedy=f"cuts were lost or written twice: {COPY_AGAIN}",
                )
            previous = cut

    def _carry_out(self, plan: Plan, *, is_open: bool) -> None:
        watch = Stopwatch()
        relations = self._metadata.relations(plan)
        if plan.tables and not is_open:
            kill_point("job:before-plan")
            self._manifest.append(self._state.planned(plan, relations))
            kill_point("job:plan-open")
        watch.lap("plan_ms")
        heads = self._apply_tables(plan, relations, watch) if plan.tables else []
        row = self._state.applied(plan, heads, relations)
        if not plan.tables and row.kind != "published":
            self._state = self._state.passed(plan)
            return
        kill_point("job:before-publish")
        self._manifest.append(row)
        kill_point("job:published")
        watch.lap("publish_ms")
        self._state = LakeState.after(self._settings.name, row)
        self._metrics.plan_done(plan, row, watch.laps_ms)
        _report(plan, row, watch)
        self._maintenance.after_plan([head.path for head in heads])

    def _apply_tables(self, plan: Plan, relations: Relations, watch: Stopwatch) -> list[TableHead]:
        with planned_records(self._kafka, plan) as records:
            watch.lap("read_ms")

            def apply_one(table: TablePlan) -> TableHead:
                head = self._apply_table(records.of(table.topic), relations, table, plan)
                self._metrics.pulse.beat()
                kill_point("job:table-applied")
                return head

            with ThreadPoolExecutor(self._settings.lake.apply_threads) as threads:
                applied = [threads.submit(apply_one, table) for table in plan.tables]
            # All have ended: a failed table fails the plan, but nothing runs on behind it.
            watch.lap("apply_ms")
            return [each.result() for each in applied]

    def _apply_table(self, records: TableRecords, relations: Relations, table: TablePlan, plan: Plan) -> TableHead:
        return apply_table(
            self._lake, records, relations, table, plan, self._settings.name, storage_options=self._storage_options
        )


def _report(plan: Plan, row: CutRow, watch: Stopwatch) -> None:
    log.info(
        row.kind,
        from_cut=plan.from_cut,
        to_cut=plan.to_cut,
        rows=plan.rows,
        tables=len(plan.tables),
        end_lsn=format_lsn(plan.end_lsn),
        **watch.laps_ms,
    )
