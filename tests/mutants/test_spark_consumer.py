"""Small mistakes in the job where each would lose or double rows, and the fast test that notices it.

Every line of the table is one mistake, what it would do, and the test that must fail on it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from tests.mutants.mutant import Mutant, Noticed
from tests.spark_consumer import test_job_in_memory, test_table_trouble, two_tables
from tests.spark_consumer.apply import (
    test_apply_without_spark,
    test_bags,
    test_changes,
    test_existence,
    test_head,
    test_merge,
    test_reshape,
    test_truncated,
)
from tests.spark_consumer.delta import test_maintenance, test_manifest_reader, test_unnamed_files
from tests.spark_consumer.fold import test_key_changes, test_keyless, test_local_events, test_local_fold, test_shape
from tests.spark_consumer.kafka import test_counted_records, test_cuts_source, test_kafka_log, test_metadata_topic
from tests.spark_consumer.memory_pipeline import job_over
from tests.spark_consumer.memory_topics import MemoryTopics
from tests.spark_consumer.plan import (
    test_cuts_that_fit,
    test_kept_cuts,
    test_lake_state,
    test_plan_limits,
    test_segments,
)
from walbridge.schemas import cut
from walbridge.spark_consumer.apply import changes, equal_rows, existence, head, merge, reshape, unknown_values
from walbridge.spark_consumer.apply.apply import Application
from walbridge.spark_consumer.apply.changes import Changes
from walbridge.spark_consumer.delta import manifest_reader, unnamed_files
from walbridge.spark_consumer.delta.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest import Manifest
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold import key_changes, keyless, local_events, local_fold, shape
from walbridge.spark_consumer.fold.local_fold import _Folded
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.change_reader import PlannedRecords
from walbridge.spark_consumer.kafka.cuts_source import CutsSource
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.metadata_topic import MetadataTopic
from walbridge.spark_consumer.plan import kept_cuts, lake_state, plan
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.segments import TableWalk
from walbridge.spark_consumer.plan_runner import PlanRunner

Test = Callable[[], object]


def in_lake(test: Callable[..., object], *args: object, lake_first: bool = True) -> Test:
    """The test in an empty lake of its own."""

    def run() -> None:
        with TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            test(*((lake, *args) if lake_first else (*args, lake)))

    return run


def patched(test: Callable[..., object], *args: object) -> Test:
    def run() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            test(*args, monkeypatch)

    return run


def patched_in_lake(test: Callable[..., object]) -> Test:
    def run() -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            test(Path(folder) / "lake", monkeypatch)

    return run


def tidied(test: Callable[..., object], *args: object) -> Test:
    """The test over maintenance with small limits."""

    def run() -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            lake = Path(folder) / "lake"
            manifest = Manifest(str(lake), "p", {})
            test(test_maintenance.with_small_limits(lake, manifest, monkeypatch), manifest, lake, *args)

    return run


def over_topics(test: Callable[..., object], *args: object) -> Test:
    """The test over a job and topics in memory."""

    def run() -> None:
        pipeline = two_tables.begun()
        with TemporaryDirectory() as folder, job_over(pipeline, Path(folder) / "lake") as run_job:
            test(pipeline, run_job, Path(folder) / "lake", *args)

    return run


def over_metadata(test: Callable[..., object]) -> Test:
    def run() -> None:
        topics = MemoryTopics()
        test(topics, MetadataTopic(topics, "p"))  # type: ignore[arg-type]

    return run


NOTICED = {
    "a plan is complete when any of its cuts is": Noticed(
        Mutant(plan.make_plan, "complete=last.complete", "complete=any(cut.complete for _, cut in cuts)"),
        test_plan_limits.test_a_plan_is_at_its_end_what_its_last_cut_is,
    ),
    "rows of an aborted transaction between two cuts are taken": Noticed(
        Mutant(change_reader.other_counts, "count != part.records", "count < part.records"),
        partial(test_counted_records.test_other_records_than_the_cuts_promise_are_refused, {("t", 0): (6, 10, 16)}),
    ),
    "a lost row between two others is not missed": Noticed(
        Mutant(change_reader.other_counts, "count != part.records", "count > part.records"),
        partial(test_counted_records.test_other_records_than_the_cuts_promise_are_refused, {("t", 0): (4, 10, 16)}),
    ),
    "rows of another program within a range are taken": Noticed(
        Mutant(cut.count_mismatch, "!= r.records", "< r.records"),
        partial(
            test_cuts_that_fit.test_a_cut_that_does_not_fit_in_one_table_is_the_trouble_of_that_table,
            test_cuts_that_fit.OF_A_TABLE["a range has a hole"],
        ),
    ),
    "holes in the ranges of a cut are not looked for": Noticed(
        Mutant(plan.topic_faults, "torn := count_mismatch(", "torn := None and ("),
        partial(
            test_cuts_that_fit.test_a_cut_that_does_not_fit_in_one_table_is_the_trouble_of_that_table,
            test_cuts_that_fit.OF_A_TABLE["a range has a hole"],
        ),
    ),
    "records that belong to no table are dropped": Noticed(
        Mutant(
            plan.topic_faults, "in_partitions[topic] != in_tables[topic]", "in_partitions[topic] < in_tables[topic]"
        ),
        partial(
            test_cuts_that_fit.test_a_cut_that_does_not_fit_is_told,
            test_cuts_that_fit.FAULTY["records belong to no table"],
        ),
    ),
    "a gap between two cuts is not seen": Noticed(
        Mutant(cut.chain_break, "cut.previous_end_lsn != previous.end_lsn", "False"),
        partial(
            test_cuts_that_fit.test_a_cut_that_does_not_fit_is_told, test_cuts_that_fit.FAULTY["an LSN is missing"]
        ),
    ),
    "the chain of cuts is not checked within a read": Noticed(
        Mutant(Job._refuse_faults, "previous = cut", "pass"),
        over_topics(
            test_job_in_memory.test_cuts_that_do_not_fit_together_stop_the_job_before_they_are_applied,
            "a cut comes twice",
            False,
        ),
    ),
    "an update is taken for an insert": Noticed(
        Mutant(local_fold.fold_by_key, 'one.first.op == "c"', 'one.first.op != "d"'),
        in_lake(test_existence.test_new_rows_beside_others_are_merged_in_one_commit),
    ),
    "a row is called new by its last event": Noticed(
        Mutant(local_fold.fold_by_key, "one.first.op", "one.last.op"),
        in_lake(test_existence.test_new_rows_beside_others_are_merged_in_one_commit),
    ),
    "rows that came and went are appended": Noticed(
        Mutant(Changes._write_folded, "self._add(rows, _alive)", "self._add(rows)"),
        in_lake(test_existence.test_new_rows_are_appended_as_their_last_events_have_them),
    ),
    "rows that the lake holds are appended beside new ones": Noticed(
        Mutant(Changes._write_folded, " or expected.held", ""),
        in_lake(test_existence.test_new_rows_beside_others_are_merged_in_one_commit),
    ),
    "new rows are appended to what another program left": Noticed(
        Mutant(Application._existence, "is_untouched(commits)", "True"),
        in_lake(test_existence.test_a_table_that_another_program_changed_is_put_back_and_searched),
    ),
    "new rows are appended again after a kill": Noticed(
        Mutant(head.segments_done, "commit.segment + completes", "commit.segment"),
        in_lake(test_apply_without_spark.test_plan_that_is_applied_again_changes_nothing),
    ),
    "new rows are appended to a table that is not current": Noticed(
        Mutant(plan.TablePlan.follows_source, 'self.base.state == self.state == "current"', "True"),
        in_lake(test_existence.test_rows_of_a_table_that_may_differ_from_the_source_are_searched_for, "stale"),
    ),
    "new rows are appended behind a copy's own": Noticed(
        Mutant(plan.TablePlan.follows_source, " and not is_copied", ""),
        partial(
            test_segments.test_an_operation_tells_what_exists_only_where_a_current_table_gets_nothing_but_changes,
            "a copy",
        ),
    ),
    "new rows are appended to a table whose partitions come and go": Noticed(
        Mutant(Application._existence, "table.is_root or ", ""),
        in_lake(test_existence.test_rows_of_a_partitioned_table_are_searched_for_and_not_counted),
    ),
    "a row too many makes up for one too few": Noticed(
        Mutant(Changes._merge_folded, "by_operation and is_counted", "False"),
        in_lake(
            test_existence.test_rows_that_are_not_as_their_operations_tell_stop_the_job_again_and_again,
            [test_existence.c(1, 0), test_existence.u(9, 1)],
            "held 0 of 1 rows",
        ),
    ),
    "what a merge found is not compared": Noticed(
        Mutant(existence.refuse_other_matches, "found == expected", "True"),
        in_lake(
            test_existence.test_rows_that_are_not_as_their_operations_tell_stop_the_job_again_and_again,
            [test_existence.u(9, 0)],
            "held 0 of 1 rows",
        ),
    ),
    "what a merge found is not compared after a kill": Noticed(
        Mutant(Application._existence, "commit.expected is not None", "False"),
        patched_in_lake(test_existence.test_a_job_killed_before_it_could_compare_compares_when_it_goes_on),
    ),
    "rows that were never told are missed": Noticed(
        Mutant(PlanRunner.__init__, 'settings.postgres.origin == "any"', "True"),
        in_lake(
            test_job_in_memory.test_a_row_that_was_never_told_is_changed_only_where_the_source_does_not_tell_all, "none"
        ),
    ),
    "transactions of two plans meet": Noticed(
        Mutant(plan.Plan.txn_version, "self.to_cut * TXN_STRIDE + segment", "self.to_cut + segment"),
        test_plan_limits.test_transactions_of_a_plan_come_after_all_of_the_plan_before,
    ),
    "the version that readers take now is deleted": Noticed(
        Mutant(Maintenance._vacuum, "self._published_versions(path)", "[]"),
        tidied(test_maintenance.test_version_that_readers_take_now_is_kept_whatever_the_clocks_say, "published"),
    ),
    "a file is deleted that a named version holds": Noticed(
        Mutant(unnamed_files._is_there, "(version, True)", "(version, False)"),
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
            Maintenance._vacuum,
            "max(self._retention.hours_for, now - oldest)",
            "min(self._retention.hours_for, now - oldest)",
        ),
        tidied(test_maintenance.test_files_are_kept_as_long_as_the_oldest_row_that_may_name_them),
    ),
    "files are deleted as soon as they are replaced": Noticed(
        Mutant(Maintenance._vacuum, "int(kept.total_seconds()) // 3600", "0"),
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
        Mutant(Job._finish, "not same_tables(opened, plan)", "False"),
        over_topics(test_job_in_memory.test_open_plan_over_other_versions_stops_the_job),
    ),
    "an open plan is finished without its last cut": Noticed(
        Mutant(Job._finish, "plan.to_cut != opened.to_cut", "False"),
        over_topics(test_job_in_memory.test_open_plan_of_which_a_cut_is_gone_stops_the_job),
    ),
    "an open plan is forgotten": Noticed(
        Mutant(Job._resume, "self._plans.manifest.finished_before(opened) if opened else newest", "newest"),
        over_topics(test_job_in_memory.test_a_job_killed_at_any_step_applies_every_row_once, "job:table-applied"),
    ),
    "a failed table does not fail its plan where it should": Noticed(
        Mutant(PlanRunner.carry_out, "self.refuse_troubles(troubles, lake_is_empty=state.epoch is None)", "pass"),
        in_lake(
            lambda lake: test_job_in_memory.test_table_that_cannot_be_applied_fails_its_plan_where_the_settings_say_so(
                two_tables.begun(), lake
            )
        ),
    ),
    "a table that could not be written is called current": Noticed(
        Mutant(lake_state._left_entry, "state=trouble.state", "state=before.state"),
        over_topics(test_table_trouble.test_half_applied_table_shows_nothing_of_it),
    ),
    "a table that was left takes changes": Noticed(
        Mutant(TableWalk.__post_init__, "not self.is_left and ", ""),
        test_segments.test_a_table_that_was_left_takes_nothing_whatever_comes_of_it,
    ),
    "a new table has the versions of the one that is gone": Noticed(
        Mutant(Application._opened, "table is not None and table.version >= base.version", "True"),
        over_topics(test_table_trouble.test_versions_that_rows_of_cuts_name_are_never_those_of_a_new_table, "gone"),
    ),
    "cuts that were applied are applied again": Noticed(
        Mutant(Job._apply_new, "self._state.next_offset", "0"),
        over_topics(test_job_in_memory.test_a_stream_that_begins_anew_brings_nothing_twice),
    ),
    "a numeric loses digits behind its point": Noticed(
        Mutant(shape._is_longer, "scale >= old_scale and ", ""),
        partial(
            test_shape.test_type_change_that_may_change_values_is_refused,
            "numeric",
            "numeric",
            test_shape.numeric(10, 4),
            test_shape.numeric(10, 2),
        ),
    ),
    "rows from before a table had a key are not found by it": Noticed(
        Mutant(reshape.reshape, "before is not None and", "before is not None and before.key_names and"),
        in_lake(test_reshape.test_key_that_was_written_otherwise_stops_the_job, "gained"),
    ),
    "half a copy is published": Noticed(
        Mutant(LakeState.applied, "plan.complete and not copying", "plan.complete"),
        test_lake_state.test_nothing_is_published_while_a_table_is_copied,
    ),
    "half a transaction is published": Noticed(
        Mutant(LakeState.applied, "plan.complete and not copying", "not copying"),
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
        Mutant(manifest_reader.newest_published, 'row.kind == "published"', 'row.kind != "plan"'),
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
        Mutant(KafkaLog.lost, "_below(self._of_those_there(self.ends, ranges, found), ranges)", "None"),
        partial(
            test_kafka_log.test_records_that_are_gone_or_never_decided_stop_the_job, [5], [8], "not visible after 0 s"
        ),
    ),
    "records that are gone are not missed": Noticed(
        Mutant(KafkaLog.lost, "starts[place] > start", "False"),
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
    "an event at a barrier is in no segment": Noticed(
        Mutant(local_events.decoded_events, ">= segment.start", "> segment.start"),
        test_local_events.test_segment_begins_at_its_start_and_ends_before_its_end,
    ),
    "an event at a barrier is in two segments": Noticed(
        Mutant(local_events.decoded_events, "< segment.end", "<= segment.end"),
        test_local_events.test_segment_begins_at_its_start_and_ends_before_its_end,
    ),
    "an older value of a large column wins": Noticed(
        Mutant(_Folded._complete, "for e in reversed(group)", "for e in group"),
        partial(
            test_local_fold.test_changes_of_one_row_become_one,
            "the last known value outlives an event that left it out",
        ),
    ),
    "a deleted row lends its values to the one made anew": Noticed(
        Mutant(_Folded._complete, 'e.op != "d" and ', ""),
        partial(
            test_local_fold.test_changes_of_one_row_become_one,
            "a delete of a row that was known knows no values of its own",
        ),
    ),
    "a row whose key changed twice takes the values of another": Noticed(
        Mutant(key_changes.chain_roots, "roots.get(lifetime, lifetime)", "lifetime"),
        test_key_changes.test_every_lifetime_of_a_chain_has_its_first_one_as_root,
    ),
    "texts of a row that had another key stay with known columns": Noticed(
        Mutant(unknown_values._structs, " if name in names", ""),
        in_lake(test_changes.test_texts_of_known_columns_are_not_taken_from_the_row_it_was),
    ),
    "an older change overwrites a newer one": Noticed(
        Mutant(merge.key_merge, "source.change['op'] <> 'd' AND {_NEWER}", "source.change['op'] <> 'd'"),
        in_lake(test_merge.test_only_a_newer_position_changes_a_row),
    ),
    "an older delete takes a newer row": Noticed(
        Mutant(merge.key_merge, "source.change['op'] = 'd' AND {_NEWER}", "source.change['op'] = 'd'"),
        in_lake(test_merge.test_only_a_newer_position_changes_a_row),
    ),
    "a deleted row is inserted": Noticed(
        Mutant(merge.key_merge, "insert_when=\"source.change['op'] <> 'd'\"", 'insert_when="true"'),
        in_lake(test_merge.test_delete_of_a_row_that_is_not_there_adds_nothing),
    ),
    "infinity and -infinity are one key": Noticed(
        Mutant(merge._same_key, "shape.has_exceptional_key", "False"),
        in_lake(test_merge.test_keys_without_a_value_of_their_type_are_told_apart_by_their_texts),
    ),
    "a change that left a large column out empties it": Noticed(
        Mutant(Changes._merge_folded, "with_unknown=unknown > 0", "with_unknown=False"),
        in_lake(test_changes.test_update_of_unchanged_toast_keeps_the_stored_value),
    ),
    "a change of a row that is not there has nulls for what it left out": Noticed(
        Mutant(Changes._merge_folded, "if unknown and not self.segment.unfinished:", "if False:"),
        in_lake(test_changes.test_unknown_value_of_a_row_that_is_missing_stops_the_job),
    ),
    "a truncate without records leaves the rows": Noticed(
        Mutant(changes.write_changes, "        if segment.empties:", "        if False:"),
        in_lake(test_truncated.test_a_truncate_without_records_empties_the_table),
    ),
    "deleted rows are in a table that was emptied": Noticed(
        Mutant(Changes._merge_folded, "_alive(batch)", "_as_table(batch)"),
        in_lake(test_truncated.test_a_truncate_leaves_nothing_and_deletes_after_it_leave_no_trace),
    ),
    "an update is appended to copied rows": Noticed(
        Mutant(Changes.append, '["r"] if self.segment.copies else ["c", "r"]', '["r", "c", "u"]'),
        in_lake(test_changes.test_change_among_copied_rows_stops_the_job),
    ),
    "one more of equal rows goes": Noticed(
        Mutant(keyless.kept_rows_sql, "place > -net", "place > -net + 1"),
        in_lake(test_keyless.test_of_equal_rows_all_but_those_that_go_stay),
    ),
    "rows that go more often than they are there are not missed": Noticed(
        Mutant(keyless.missing_rows_sql, "found < -net", "found < 1"),
        in_lake(test_keyless.test_kinds_of_rows_that_go_more_often_than_they_are_there_are_counted),
    ),
    "rows that stay beside their equals are lost": Noticed(
        Mutant(equal_rows.exchanged, "    for batch in kept:", "    for batch in ():"),
        in_lake(test_bags.test_each_row_that_goes_takes_exactly_one_of_its_equals, 0),
    ),
    "kinds of rows in two slices have one number": Noticed(
        Mutant(equal_rows.numbered, "start += going.num_rows", "pass"),
        in_lake(test_bags.test_each_row_that_goes_takes_exactly_one_of_its_equals, 0),
    ),
    "segments that are done are done again": Noticed(
        Mutant(Application.apply, "self.table_plan.segments[done:]", "self.table_plan.segments"),
        in_lake(test_apply_without_spark.test_plan_that_is_applied_again_changes_nothing),
    ),
    "rows of another program stay": Noticed(
        Mutant(Application._settle, "if done is None and base is not None:", "if False:"),
        in_lake(test_apply_without_spark.test_commit_of_another_program_is_undone, True),
    ),
    "a base that holds the plan takes it again": Noticed(
        Mutant(Application._settle, "self._refuse_newer_base(table, base.version)", "pass"),
        in_lake(test_apply_without_spark.test_base_that_already_holds_the_plan_is_refused_not_applied_twice),
    ),
    "records of a schema without a segment are dropped": Noticed(
        Mutant(Application._refuse_unknown_schemas, "schema_id not in used and", "False and"),
        in_lake(test_apply_without_spark.test_records_of_a_schema_that_has_no_segment_stop_the_plan),
    ),
    "a table that is gone is begun anew with the changes alone": Noticed(
        Mutant(Application.apply, "elif self._needed_base is not None:", "elif False:"),
        in_lake(test_apply_without_spark.test_table_that_was_rolled_back_or_is_gone_stops_the_plan),
    ),
    "a transaction that a restore undid counts": Noticed(
        Mutant(LakeTable.transaction_version_at, "version=version, ", ""),
        in_lake(test_apply_without_spark.test_base_that_holds_the_plan_before_takes_the_next),
    ),
    "a step towards a segment completes it": Noticed(
        Mutant(head.segments_done, "commit.segment + completes", "commit.segment + 1"),
        test_head.test_step_towards_a_segment_does_not_complete_it,
    ),
    "a later segment hides rows of another program": Noticed(
        Mutant(head.segments_done, "commit.overwrites and commit.segment == 0", "commit.overwrites"),
        test_head.test_later_segment_heals_nothing,
    ),
    "rows that are added hide rows of another program": Noticed(
        Mutant(head.segments_done, "commit.overwrites", "completes"),
        test_head.test_rows_added_to_what_was_emptied_heal_nothing,
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()


def test_large_value_of_a_small_table_that_the_driver_would_drop_is_noticed(spark: SparkSession) -> None:
    mutant = Mutant(PlannedRecords._few_of, 'not pc.any(mine["is_left_out"], min_count=0).as_py()', "True")

    Noticed(
        mutant, patched(test_counted_records.test_value_that_is_left_out_on_the_driver_is_in_the_frame, spark)
    ).check()
