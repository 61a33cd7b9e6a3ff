"""Small mistakes where the job folds rows and commits them, and the fast test that notices each.

Every line of the table is one mistake, what it would do, and the test that must fail on it.
"""

from functools import partial

import pytest

from tests.mutants.mutant import Mutant, Noticed
from tests.mutants.runs import in_lake, over_topics, patched_in_lake
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
from tests.spark_consumer.delta import test_statistics
from tests.spark_consumer.fold import test_key_changes, test_keyless, test_local_events, test_local_fold, test_shape
from tests.spark_consumer.in_memory import test_table_trouble
from walbridge.spark_consumer.apply import changes, equal_rows, existence, head, merge, reshape, unknown_values
from walbridge.spark_consumer.apply.apply import Application
from walbridge.spark_consumer.apply.changes import SegmentChanges
from walbridge.spark_consumer.apply.table_folder import TableFolder
from walbridge.spark_consumer.delta import statistics
from walbridge.spark_consumer.delta.commit import newest_commits
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold import kept_values, key_changes, keyless, local_events, local_fold, shape
from walbridge.spark_consumer.fold.local_fold import _Folded

NOTICED = {
    "an update is taken for an insert": Noticed(
        Mutant(local_fold.fold_by_key, 'one.first.op == "c"', 'one.first.op != "d"'),
        in_lake(test_existence.test_new_rows_beside_others_are_merged_in_one_commit),
    ),
    "a row is called new by its last event": Noticed(
        Mutant(local_fold.fold_by_key, "one.first.op", "one.last.op"),
        in_lake(test_existence.test_new_rows_beside_others_are_merged_in_one_commit),
    ),
    "rows that came and went are appended": Noticed(
        Mutant(SegmentChanges._write_folded, "self._add(rows, _not_deleted)", "self._add(rows)"),
        in_lake(test_existence.test_new_rows_are_appended_as_their_last_events_have_them),
    ),
    "rows that the lake holds are appended beside new ones": Noticed(
        Mutant(SegmentChanges._write_folded, " or expected.held", ""),
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
    "new rows are appended to a table whose partitions come and go": Noticed(
        Mutant(Application._existence, "table.is_root or ", ""),
        in_lake(test_existence.test_rows_of_a_partitioned_table_are_searched_for_and_not_counted),
    ),
    "a row too many makes up for one too few": Noticed(
        Mutant(SegmentChanges._merge_folded, "by_operation and is_counted", "False"),
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
    "a new table has the versions of the one that is gone": Noticed(
        Mutant(TableFolder.opened, "table is not None and table.version >= base.version", "True"),
        over_topics(test_table_trouble.test_versions_that_rows_of_cuts_name_are_never_those_of_a_new_table, "gone"),
    ),
    "a numeric loses digits behind its point": Noticed(
        Mutant(kept_values._has_more_digits, "scale >= old_scale and ", ""),
        partial(
            test_shape.test_type_change_that_may_change_values_is_refused,
            "numeric",
            "numeric",
            test_shape.numeric(10, 4),
            test_shape.numeric(10, 2),
        ),
    ),
    "a column is added before older rows have its value": Noticed(
        Mutant(shape.shape_steps, "or is_filled ", ""),
        test_shape.test_column_with_a_value_in_older_rows_comes_by_a_rewrite_and_only_once,
    ),
    "rows from before a table had a key are not found by it": Noticed(
        Mutant(reshape.reshape, "before is not None and", "before is not None and before.key_names and"),
        in_lake(test_reshape.test_key_that_was_written_otherwise_stops_the_job, "gained"),
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
        Mutant(key_changes.chain_beginnings, "beginnings.get(lifetime, lifetime)", "lifetime"),
        test_key_changes.test_every_lifetime_of_a_chain_is_led_back_to_the_first_one,
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
        Mutant(merge.key_merge, "insert_when = \"source.change['op'] <> 'd'\"", 'insert_when = "true"'),
        in_lake(test_merge.test_delete_of_a_row_that_is_not_there_adds_nothing),
    ),
    "infinity and -infinity are one key": Noticed(
        Mutant(merge._same_key, "shape.has_exceptional_key", "False"),
        in_lake(test_merge.test_keys_without_a_value_of_their_type_are_told_apart_by_their_texts),
    ),
    "a change that left a large column out empties it": Noticed(
        Mutant(SegmentChanges._merge_folded, "with_unknown=unknown > 0", "with_unknown=False"),
        in_lake(test_changes.test_update_of_unchanged_toast_keeps_the_stored_value),
    ),
    "a change of a row that is not there has nulls for what it left out": Noticed(
        Mutant(SegmentChanges._merge_folded, "if unknown and not self.segment.copy_goes_on:", "if False:"),
        in_lake(test_changes.test_unknown_value_of_a_row_that_is_missing_stops_the_job),
    ),
    "a truncate without records leaves the rows": Noticed(
        Mutant(changes.write_changes, "        if segment.empties:", "        if False:"),
        in_lake(test_truncated.test_a_truncate_without_records_empties_the_table),
    ),
    "deleted rows are in a table that was emptied": Noticed(
        Mutant(SegmentChanges._merge_folded, "_not_deleted(batch)", "_as_table(batch)"),
        in_lake(test_truncated.test_a_truncate_leaves_nothing_and_deletes_after_it_leave_no_trace),
    ),
    "an update is appended to copied rows": Noticed(
        Mutant(SegmentChanges.append, '["r"] if self.segment.is_copied else ["c", "r"]', '["r", "c", "u"]'),
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
    "rows of a program that does not say what it did stay": Noticed(
        Mutant(newest_commits, "len(found) < newest <= table.version()", "False"),
        in_lake(test_apply_without_spark.test_commit_that_does_not_say_whose_it_is_is_undone, True, None),
    ),
    "a decimal has bounds that a double does not hold": Noticed(
        Mutant(statistics._is_inexact, "> _DIGITS_MAX", "> 38"),
        in_lake(test_statistics.test_decimal_of_more_digits_than_a_double_holds_has_no_bounds),
    ),
    "a base that holds the plan takes it again": Noticed(
        Mutant(Application._settle, "self._refuse_newer_base(table, base.version)", "pass"),
        in_lake(test_apply_without_spark.test_base_that_already_holds_the_plan_is_refused_not_applied_twice),
    ),
    "records of a schema without a segment are dropped": Noticed(
        Mutant(Application._refuse_unknown_schemas, "frame_id not in used and not", "False and not"),
        in_lake(test_apply_without_spark.test_records_of_a_schema_that_has_no_segment_stop_the_plan),
    ),
    "a table that is gone is begun anew with the changes alone": Noticed(
        Mutant(Application.apply, "elif self.needed_base is not None:", "elif False:"),
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
    "a segment that two jobs wrote is done": Noticed(
        Mutant(head.segments_done, " and commit.segment >= done", ""),
        test_head.test_segment_that_is_there_twice_voids_all,
    ),
    "rows that are added hide rows of another program": Noticed(
        Mutant(head.segments_done, "commit.overwrites", "completes"),
        test_head.test_rows_added_to_what_was_emptied_heal_nothing,
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()
