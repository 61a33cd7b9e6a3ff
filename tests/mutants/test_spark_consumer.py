"""Small mistakes where the job reads, plans, publishes and deletes, and the fast test that notices each.

Every line of the table is one mistake, what it would do, and the test that must fail on it.
"""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.mutants.mutant import Mutant, Noticed
from tests.mutants.runs import in_fed_lake, in_lake, over_metadata, over_topics, patched, tidied
from tests.spark_consumer import two_tables
from tests.spark_consumer.apply import test_existence
from tests.spark_consumer.delta.maintenance import test_maintenance, test_unnamed_files
from tests.spark_consumer.delta.manifest import test_manifest_reader
from tests.spark_consumer.in_memory import test_fed_tables_copied_again, test_job_in_memory, test_unfit_records
from tests.spark_consumer.kafka import test_counted_records, test_kafka_log
from tests.spark_consumer.kafka.control import test_cuts_source, test_metadata_topic
from tests.spark_consumer.plan import (
    test_cut_faults,
    test_ended_copies,
    test_kept_cuts,
    test_lake_state,
    test_plan_limits,
)
from tests.spark_consumer.plan.segments import test_table_walk
from walbridge.schemas.control import cut
from walbridge.spark_consumer import resumption
from walbridge.spark_consumer.apply import job_lake
from walbridge.spark_consumer.apply.table_folder import TableFolder
from walbridge.spark_consumer.between_plans import BetweenPlans
from walbridge.spark_consumer.delta.maintenance import unnamed_files
from walbridge.spark_consumer.delta.maintenance.old_files import OldFiles
from walbridge.spark_consumer.delta.manifest import manifest_reader
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka import plan_reader
from walbridge.spark_consumer.kafka.change_reader import PlannedRecords
from walbridge.spark_consumer.kafka.control.cuts_source import CutsSource
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.plan import cut_faults, ended_copies, kept_cuts, lake_state, next_entries, plan
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.segments.table_walk import TableWalk
from walbridge.spark_consumer.plan_runner import PlanRunner
from walbridge.spark_consumer.resumption import Resumption

NOTICED = {
    "a plan is complete when any of its cuts is": Noticed(
        Mutant(plan.make_plan, "complete=last.complete", "complete=any(cut.complete for _, cut in cuts)"),
        test_plan_limits.test_a_plan_is_at_its_end_what_its_last_cut_is,
    ),
    "rows of an aborted transaction between two cuts are taken": Noticed(
        Mutant(plan_reader.other_counts, "count != part.records", "count < part.records"),
        partial(test_counted_records.test_other_records_than_the_cuts_promise_are_refused, {("t", 0): (6, 10, 16)}),
    ),
    "a lost row between two others is not missed": Noticed(
        Mutant(plan_reader.other_counts, "count != part.records", "count > part.records"),
        partial(test_counted_records.test_other_records_than_the_cuts_promise_are_refused, {("t", 0): (4, 10, 16)}),
    ),
    "rows of another program within a range are taken": Noticed(
        Mutant(cut.count_mismatch, "!= r.records", "< r.records"),
        partial(
            test_cut_faults.test_a_cut_that_does_not_fit_in_one_table_is_the_trouble_of_that_table,
            test_cut_faults.OF_A_TABLE["a range has a hole"],
        ),
    ),
    "holes in the ranges of a cut are not looked for": Noticed(
        Mutant(cut_faults.topic_faults, "torn := count_mismatch(", "torn := None and ("),
        partial(
            test_cut_faults.test_a_cut_that_does_not_fit_in_one_table_is_the_trouble_of_that_table,
            test_cut_faults.OF_A_TABLE["a range has a hole"],
        ),
    ),
    "records that belong to no table are dropped": Noticed(
        Mutant(
            cut_faults.topic_faults,
            "in_partitions[topic] != in_tables[topic]",
            "in_partitions[topic] < in_tables[topic]",
        ),
        partial(
            test_cut_faults.test_a_cut_that_does_not_fit_is_told,
            test_cut_faults.FAULTY["records belong to no table"],
        ),
    ),
    "a gap between two cuts is not seen": Noticed(
        Mutant(cut.chain_break, "cut.previous_end_lsn != previous.end_lsn", "False"),
        partial(test_cut_faults.test_a_cut_that_does_not_fit_is_told, test_cut_faults.FAULTY["an LSN is missing"]),
    ),
    "the chain of cuts is not checked within a read": Noticed(
        Mutant(resumption.refuse_faults, "previous = cut", "pass"),
        over_topics(
            test_job_in_memory.test_cuts_that_do_not_fit_together_stop_the_job_before_they_are_applied,
            "a cut comes twice",
            False,
        ),
    ),
    "new rows are appended to a table that is not current": Noticed(
        Mutant(plan.TablePlan.follows_source, 'self.base.state == self.state == "current"', "True"),
        in_lake(test_existence.test_rows_of_a_table_that_may_differ_from_the_source_are_searched_for, "stale"),
    ),
    "new rows are appended behind a copy's own": Noticed(
        Mutant(plan.TablePlan.follows_source, " and not is_copied", ""),
        partial(
            test_table_walk.test_an_operation_tells_what_exists_only_where_a_current_table_gets_nothing_but_changes,
            "a copy",
        ),
    ),
    "rows that were never told are missed": Noticed(
        Mutant(job_lake.job_lake, 'settings.postgres.origin == "any"', "True"),
        in_lake(
            test_job_in_memory.test_a_row_that_was_never_told_is_changed_only_where_the_source_does_not_tell_all, "none"
        ),
    ),
    "transactions of two plans meet": Noticed(
        Mutant(plan.Plan.txn_version, "self.to_cut * TXN_STRIDE + segment", "self.to_cut + segment"),
        test_plan_limits.test_transactions_of_a_plan_come_after_all_of_the_plan_before,
    ),
    "the version that readers take now is deleted": Noticed(
        Mutant(OldFiles._delete_expired, "self._published_versions(path)", "[]"),
        tidied(test_maintenance.test_version_that_readers_take_now_is_kept_whatever_the_clocks_say, "published"),
    ),
    "a file is deleted that a named version holds": Noticed(
        Mutant(unnamed_files._is_in_one_of, "bisect_left(versions, since)", "bisect_left(versions, since + 1)"),
        test_unnamed_files.test_file_goes_that_went_and_that_no_named_version_holds,
    ),
    "a plan that goes on is dropped": Noticed(
        Mutant(kept_cuts.dropped, "row.sequence >= newest", "row.sequence == newest"),
        test_kept_cuts.test_newest_published_row_and_the_plan_after_it_stay_however_old,
    ),
    "a minute is thinned before all of it is old": Noticed(
        Mutant(kept_cuts._span, "since // MINUTE + 1", "since // MINUTE"),
        test_kept_cuts.test_minute_is_thinned_when_all_of_it_is_old,
    ),
    "versions that old rows name are deleted": Noticed(
        Mutant(
            OldFiles._delete_expired,
            "max(self._retention.hours_for, now - oldest)",
            "min(self._retention.hours_for, now - oldest)",
        ),
        tidied(test_maintenance.test_files_are_kept_as_long_as_the_oldest_row_that_may_name_them),
    ),
    "files are deleted as soon as they are replaced": Noticed(
        Mutant(OldFiles._delete_expired, "int(kept.total_seconds()) // 3600", "0"),
        tidied(test_maintenance.test_files_are_kept_for_the_retention_and_an_hour),
    ),
    "an open plan is finished over versions that may hold it": Noticed(
        Mutant(
            lake_state.same_tables,
            "table.base.version if table.base else None) for table",
            "dict(opened).get(table.relation_id)) for table",
        ),
        partial(test_lake_state.test_a_plan_made_again_is_the_opened_one_only_over_the_same_versions, "another"),
    ),
    "an open plan is finished whatever it was": Noticed(
        Mutant(Resumption._finished, "not same_tables(opened, plan)", "False"),
        over_topics(test_job_in_memory.test_open_plan_over_other_versions_stops_the_job),
    ),
    "an open plan is finished without its last cut": Noticed(
        Mutant(Resumption._finished, "plan.to_cut != opened.to_cut", "False"),
        over_topics(test_job_in_memory.test_open_plan_of_which_a_cut_is_gone_stops_the_job),
    ),
    "an open plan is forgotten": Noticed(
        Mutant(Resumption.state, "self._plans.manifest.finished_before(opened) if opened else newest", "newest"),
        over_topics(test_job_in_memory.test_a_job_killed_at_any_step_applies_every_row_once, "job:table-applied"),
    ),
    "a failed table does not fail its plan where it should": Noticed(
        Mutant(PlanRunner._carry_out, "self.refuse_troubles(troubles, lake_is_empty=state.epoch is None)", "pass"),
        in_lake(
            lambda lake: test_job_in_memory.test_table_that_cannot_be_applied_fails_its_plan_where_the_settings_say_so(
                two_tables.begun(), lake
            )
        ),
    ),
    "a table that could not be written is called current": Noticed(
        Mutant(next_entries.entry_in_trouble, "state=trouble.state", "state=before.state"),
        over_topics(test_unfit_records.test_half_applied_table_shows_nothing_of_it),
    ),
    "a table that was left takes changes": Noticed(
        Mutant(TableWalk.__post_init__, "not self.awaits_copy and ", ""),
        test_table_walk.test_a_table_that_was_left_takes_nothing_whatever_comes_of_it,
    ),
    "cuts that were applied are applied again": Noticed(
        Mutant(Job._apply_new, "self._state.next_offset", "0"),
        over_topics(test_job_in_memory.test_a_stream_that_begins_anew_brings_nothing_twice),
    ),
    "a copy is written where its table is fed": Noticed(
        Mutant(ended_copies.is_fed, "in (CURRENT, ARCHIVE)", "in ()"),
        test_ended_copies.test_a_copy_of_a_table_that_is_fed_is_written_where_no_plan_writes,
    ),
    "a table that is fed takes rows of its copy": Noticed(
        Mutant(TableWalk._end_copy, "self._divide(_behind_copied_rows(barrier.position))", "pass"),
        test_ended_copies.test_a_table_that_is_fed_takes_its_changes_and_no_row_of_its_copy,
    ),
    "rows of listed keys are taken for those of an ended copy": Noticed(
        Mutant(TableWalk._copy_goes_on, " and not self.copy.has_ended", ""),
        test_ended_copies.test_a_table_that_is_fed_takes_its_changes_and_no_row_of_its_copy,
    ),
    "a plan goes on with what an earlier version did with its copy": Noticed(
        Mutant(TableFolder.commit, 'f"{of_cut}-deferred"', "of_cut"),
        in_fed_lake(test_fed_tables_copied_again.test_a_plan_in_which_an_earlier_version_ended_the_copy_is_made_anew),
    ),
    "what a killed job wrote aside stays": Noticed(
        Mutant(BetweenPlans.step, "self._maintenance.delete_aside()", "pass"),
        in_fed_lake(test_fed_tables_copied_again.test_what_killed_jobs_have_written_aside_is_deleted_when_a_job_starts),
    ),
    "what was written of a copy is read again": Noticed(
        Mutant(ended_copies._behind, "start_offset=known.end_offset", "start_offset=known.start_offset"),
        test_ended_copies.test_what_came_behind_is_read_from_where_the_written_part_ends,
    ),
    "what was written of one copy is taken for another": Noticed(
        Mutant(
            ended_copies.continues, "(now.topic, now.shapes_at_end) != (written.topic, written.shapes_at_end)", "False"
        ),
        partial(
            test_ended_copies.test_what_was_written_is_void_where_the_copy_is_another_one, test_ended_copies.GOES_ON
        ),
    ),
    "half a copy is published": Noticed(
        Mutant(LakeState.applied_row, "plan.complete and not copying", "plan.complete"),
        test_lake_state.test_nothing_is_published_while_a_table_is_copied,
    ),
    "half a transaction is published": Noticed(
        Mutant(LakeState.applied_row, "plan.complete and not copying", "not copying"),
        test_lake_state.test_nothing_is_published_inside_a_transaction,
    ),
    "two tables are at one path": Noticed(
        Mutant(LakeState._entries_after, " if e.path != head.path and e.topic != head.topic", ""),
        test_lake_state.test_a_table_made_anew_takes_the_place_of_the_one_that_was_at_its_path,
    ),
    "tables of an older epoch take changes of the new one": Noticed(
        Mutant(LakeState._entries_in, "replace(entry, state=SUPERSEDED, since=self.end_lsn, copy_from=None)", "entry"),
        test_lake_state.test_tables_of_an_older_epoch_must_be_copied_before_they_are_read_again,
    ),
    "readers take a row that is not published": Noticed(
        Mutant(manifest_reader.newest_published, "row.kind == PUBLISHED", 'row.kind != "plan"'),
        in_lake(
            test_manifest_reader.test_readers_take_the_newest_row_that_is_published,
            "stands before rows that are applied but not complete",
        ),
    ),
    "a cut between two slices is left out": Noticed(
        Mutant(CutsSource.read, "start = upto\n", "start = upto + 1\n"),
        patched(test_cuts_source.test_every_cut_is_read_once_and_in_order_whatever_the_slices, 2),
    ),
    "records are read before they are decided": Noticed(
        Mutant(
            KafkaLog.lost,
            "_undecided_partitions(ends := self._ask_existing_topics(self.ends, ranges, found), ranges)",
            "None",
        ),
        partial(
            test_kafka_log.test_records_that_are_gone_or_never_decided_stop_the_job, [5], [8], "not visible after 0 s"
        ),
    ),
    "records that are gone are not missed": Noticed(
        Mutant(KafkaLog.lost, "starts[partition_id] > start", "False"),
        partial(test_kafka_log.test_records_that_are_gone_or_never_decided_stop_the_job, [6], [9], "are gone"),
    ),
    "aborted records are read when a setting says so": Noticed(
        Mutant(KafkaLog.options, "(_PATIENCE | client | fixed)", "(_PATIENCE | fixed | client)"),
        test_kafka_log.test_no_setting_makes_aborted_records_readable_or_loss_silent,
    ),
    "metadata records are left out between two plans": Noticed(
        Mutant(MetadataTopic._read_to, "self._next_offset = end_offset", "self._next_offset = end_offset + 2"),
        over_metadata(test_metadata_topic.test_record_at_the_very_end_of_what_was_read_is_not_missed),
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()


@pytest.mark.variant(of="test_mistake_is_noticed")
def test_large_value_of_a_small_table_that_the_driver_would_drop_is_noticed(spark: SparkSession) -> None:
    mutant = Mutant(PlannedRecords._fetched_of, 'not pc.any(mine["is_left_out"], min_count=0).as_py()', "True")

    Noticed(
        mutant, patched(test_counted_records.test_value_that_is_left_out_on_the_driver_is_in_the_frame, spark)
    ).check()
