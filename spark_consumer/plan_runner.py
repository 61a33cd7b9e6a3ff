"""Carries out one plan, from its plan row to the published row.

In: a plan and the state of the lake before it. Out: the state after it. Applying a plan has five durable
steps. If the job is killed between any two, the next start finishes the plan:

    1. the plan row is appended       "job:plan-open"       only says what is to be done
    2. each table is committed        "job:table-applied"   skipped when the plan is applied again (I5)
    3. every table is done            "job:before-publish"
    4. the published row is appended  "job:published"       readers see all tables at once (I8)
    5. the stream's checkpoint moves                        nothing depends on it
"""

import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import structlog
from pyspark.sql import SparkSession

from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.errors import OperatorError, TableError, copy_command
from walbridge.schemas.position import format_lsn
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.appliers import LOCAL
from walbridge.spark_consumer.apply.apply import apply_table
from walbridge.spark_consumer.apply.copies.copy_builds import CopyBuilds
from walbridge.spark_consumer.apply.copies.copy_entry import enter_copy
from walbridge.spark_consumer.apply.job_lake import job_lake
from walbridge.spark_consumer.between_plans import BetweenPlans
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.maintenance.purge import Purge
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.jvm.spark_progress import SparkProgress, reporting_progress
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.control.copy_requests import CopyRequests
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic
from walbridge.spark_consumer.kafka.control.unpublished_tables import UnpublishedTables
from walbridge.spark_consumer.kafka.decided_log import RecordsLost, TopicGone
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.plan_reader import planned_records
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.pace import Pace
from walbridge.spark_consumer.plan.ended_copies import is_aside
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.missing_schemas import without_missing_schemas
from walbridge.spark_consumer.plan.next_entries import Relations
from walbridge.spark_consumer.plan.plan import Plan, TableHead, TablePlan
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY
from walbridge.spark_consumer.plan.table_trouble import TableTrouble
from walbridge.spark_consumer.plan_progress import PlanProgress, Stopwatch

log = structlog.get_logger()


class PlanRunner:
    """Carries out the plans of one job, one at a time."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaLog,
        metadata: MetadataTopic,
        settings: Settings,
        metrics: JobMetrics,
        pace: Pace,
        open_log: Callable[[], KafkaLog],
    ) -> None:
        """``open_log``: opens another ``KafkaLog``, for a thread."""
        self._kafka, self._metadata, self._metrics, self._pace = kafka, metadata, metrics, pace
        self._pipeline, self._threads = settings.name, settings.lake.apply_threads
        self._stops_at_trouble = settings.lake.on_table_error == "stop"
        self._lake = lake = job_lake(settings, spark)
        self._spark = spark
        self._requests = CopyRequests(spark, kafka, settings)
        unpublished = UnpublishedTables(kafka, settings.name) if settings.lake.dropped_tables == "drop" else None
        self.manifest = Manifest(lake.path, settings.name, lake.storage_options, settings.formerly)
        purge = Purge(spark) if lake.appliers.setting != LOCAL else None
        self._maintenance = Maintenance(lake.path, self.manifest, settings, purge=purge)
        builds = CopyBuilds(spark, kafka, open_log, self._apply_table, partial(enter_copy, lake))
        self._between = BetweenPlans(
            self.manifest,
            self._maintenance,
            metadata,
            metrics,
            unpublished,
            builds,
            self._refuse_or_report,
        )

    def known(self, plan: Plan) -> tuple[Plan, Relations]:
        """The plan without tables whose schemas are missing, and all relation versions."""
        relations = self._metadata.relations(plan)
        known = without_missing_schemas(plan, relations, self._metadata.topic)
        self.refuse_troubles(known.troubles)
        return known, relations

    def carry_out(self, plan: Plan, state: LakeState, *, is_open: bool) -> LakeState:
        """Apply the plan and return the state after it. ``is_open``: the plan's row is in ``_cuts`` already.

        Raises:
            OperatorError: only a person can go on; the plan stays open.
            RetryableError: Kafka is away.
        """
        with self._metrics.in_work(plan):
            return self._carry_out(plan, state, is_open=is_open)

    def _carry_out(self, plan: Plan, state: LakeState, *, is_open: bool) -> LakeState:
        watch, begun_s = Stopwatch(), self._pace.now_s()
        known, relations = self.known(plan)
        if is_open and not known.tables:
            raise known.troubles[-1].error  # its row in _cuts is of a plan with tables
        plan = state.with_folders(known, relations)
        if plan.tables and not is_open:
            kill_point("job:before-plan")
            self.manifest.append(state.planned_row(plan, relations))
            kill_point("job:plan-open")
        watch.lap("plan_ms")
        self._between.cancel_conflicting_copy(plan)
        heads, troubles = self._apply_tables(plan, relations, watch) if plan.tables else ([], [])
        self.refuse_troubles(troubles, lake_is_empty=state.epoch is None)
        row = state.applied_row(plan, heads, relations, troubles)
        # Only the offset to read on from has changed, which is not worth a row of _cuts.
        if not plan.tables and row.kind != "published":
            self._report(plan.troubles, row, plan, relations)
            return state.after_empty_plan(plan, relations)
        if not plan.tables and state.is_idle(row):
            return self.publish_idle(state.after_empty_plan(plan, relations, row))
        self._report([*plan.troubles, *troubles], row, plan, relations)
        kill_point("job:before-publish")
        self.manifest.append(row)
        kill_point("job:published")
        self._pace.published(begun_s)
        watch.lap("publish_ms")
        self._metrics.plan_done(plan, row, watch.laps_ms)
        _report(plan, row, watch)
        for entry in row.tables:
            if entry.state in AWAITING_COPY:
                self._maintenance.stop_visiting(entry.path)
        self._maintenance.after_plan([head.path for head in heads])
        return self._between.step(LakeState.after(self._pipeline, row))

    def finish(self, state: LakeState, stop: threading.Event) -> LakeState:
        """The state once every deferred copy is in the lake, or ``stop`` is set."""
        return self._between.finish(state, stop)

    def close(self) -> None:
        """Cancel a copy that is written beside the plans."""
        self._between.close()

    def _refuse_or_report(
        self, troubles: Collection[TableTrouble], row: CutRow, plan: Plan, relations: Relations
    ) -> None:
        self.refuse_troubles(troubles)
        self._report(troubles, row, plan, relations)

    def _report(self, troubles: Collection[TableTrouble], row: CutRow, plan: Plan, relations: Relations) -> None:
        # An archive is not copied: rows that the source has deleted would be lost.
        mended = [each for each in troubles if not _is_archive(relations, each)]
        _report_troubles(troubles, row, self._requests.ask(plan.epoch.slot, mended))

    def refuse_troubles(self, troubles: Iterable[TableTrouble], *, lake_is_empty: bool = False) -> None:
        """Stop the job for a table in trouble, where the settings say so.

        It also stops if the lake is empty and records are kept no more: the lake may be a mount point without its
        storage, which holds them. If the whole topic is gone, only the table is in trouble: no copy of all tables would
        bring the topic back.

        Raises:
            OperatorError: a table is in trouble, and the job is to stop.
        """
        for trouble in troubles:
            is_kept_no_more = isinstance(trouble.error, RecordsLost) and not isinstance(trouble.error, TopicGone)
            if lake_is_empty and is_kept_no_more:
                raise trouble.error
            if self._stops_at_trouble:
                raise OperatorError(trouble.error.what, remedy=trouble.remedy_of_a_stop) from trouble.error

    def publish_idle(self, state: LakeState, *, now: bool = False) -> LakeState:
        """Publish cuts that changed nothing, once they are due, or ``now``; returns the state after it.

        Otherwise the newest row would never reach the LSN of a source at rest.
        """
        state = self._between.step(state)
        if state.idle is None:
            return state
        self._metrics.pulse.beat()
        self._metrics.reached(state.idle)
        if not now and not self._pace.is_idle_due:
            return state
        self.manifest.append(state.idle)
        self._pace.published_idle()
        self._metrics.show_row(state.idle)
        self._maintenance.after_plan([])
        return LakeState.after(self._pipeline, state.idle)

    def _apply_tables(
        self, plan: Plan, relations: Relations, watch: Stopwatch
    ) -> tuple[list[TableHead], list[TableTrouble]]:
        progress, in_spark = PlanProgress(plan), SparkProgress(self._spark)

        def has_moved() -> bool:
            progress.log_if_due()
            return in_spark.has_moved()

        beat = self._metrics.pulse.beat
        with reporting_progress(has_moved, beat), planned_records(self._kafka, plan, beat) as records:
            watch.lap("read_ms")

            def apply_one(table: TablePlan) -> TableHead | TableTrouble:
                try:
                    mine = records.of(table.topic)
                    with progress.applying(table):
                        done: TableHead | TableTrouble = self._apply_table(mine, relations, table, plan)
                except TableError as error:
                    done = TableTrouble(table.relation_id, table.topic, table.segments[-1].schema_id, error)
                beat()
                kill_point("job:table-applied")
                return done

            with ThreadPoolExecutor(self._threads) as threads:
                applied = [threads.submit(apply_one, table) for table in plan.tables]
            # All threads have ended, so no table is still written if an error that is not one table's fails the plan.
            watch.lap("apply_ms")
            results = [each.result() for each in applied]
            heads = [each for each in results if isinstance(each, TableHead)]
            return heads, [each for each in results if isinstance(each, TableTrouble)]

    def _apply_table(self, records: TableRecords, relations: Relations, table: TablePlan, plan: Plan) -> TableHead:
        lake = self._lake
        if is_aside(table.path):
            # Its files are to become the table's, by a commit that could not say which of their rows are marked.
            lake = replace(lake, appliers=replace(lake.appliers, marks_rows=False))
        return apply_table(lake, records, relations, table, plan)


def _is_archive(relations: Relations, trouble: TableTrouble) -> bool:
    known = relations.get(trouble.schema_id)
    return known is not None and known.table.is_archive


def _report_troubles(troubles: Iterable[TableTrouble], row: CutRow, asked: Collection[int]) -> None:
    """Log each table in trouble, before the row that says so is appended. A table is in trouble once until its copy.

    ``asked``: relation ids of tables that the producer was asked to copy.
    """
    entries = {entry.relation_id: entry for entry in row.tables}
    for trouble in troubles:
        entry = entries[trouble.relation_id]
        log.error(
            "a table takes no more changes until it is copied again; all others go on",
            table=entry.qualified_name,
            state=entry.state,
            since_lsn=format_lsn(entry.since or 0),
            why=entry.why,
            remedy="none: the producer is asked to copy it"
            if trouble.relation_id in asked
            else copy_command(entry.qualified_name),
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
