"""Mistakes with copies beside the stream that would lose, double or invent rows: each is noticed by a test."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.mutants.mutant import Mutant, Noticed
from tests.mutants.runs import in_lake, patched_in_lake
from tests.spark_consumer.in_memory import test_copies_in_memory
from tests.spark_consumer.plan import test_copies_beside, test_copies_in_the_lake, test_read_ranges
from walbridge.spark_consumer.apply import changes
from walbridge.spark_consumer.fold import schema_join
from walbridge.spark_consumer.plan import next_entries, pending_copy, read_ranges
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.pending_copy import PendingCopy
from walbridge.spark_consumer.plan.segments import table_walk
from walbridge.spark_consumer.plan.segments.table_walk import TableWalk
from walbridge.spark_consumer.resumption import Resumption

Test = Callable[[], object]


NOTICED = {
    "a table that is fed takes the rows of its copy": Noticed(
        Mutant(schema_join.ignored_operations, "if segment.ignores_copied_rows", "if False"),
        in_lake(test_copies_in_memory.test_rows_of_a_copy_are_not_for_the_table_that_is_fed),
    ),
    "changes of a table that is fed are passed over with the rows of its copy": Noticed(
        Mutant(pending_copy.is_step_of_copy, "cut.commit_lsn is None", "True"),
        test_read_ranges.test_a_table_that_is_fed_is_not_read_the_rows_of_its_copy,
    ),
    "rows that are read again behind a copy are passed over": Noticed(
        Mutant(TableWalk._copy_goes_on, " and not self.copy.has_ended", ""),
        test_read_ranges.test_rows_that_are_read_again_behind_a_copy_are_changes_of_the_table,
    ),
    "a table that does not equal the source is fed": Noticed(
        Mutant(TableWalk.__post_init__, 'self.copy is None or self.state == "current"', "True"),
        partial(test_copies_beside.test_a_table_in_any_other_state_waits_for_its_copy, "stale"),
    ),
    "a table of a lost epoch is fed by the next one": Noticed(
        Mutant(LakeState._entries_in_new_epoch, "else STALE", "else entry.state"),
        test_copies_in_the_lake.test_an_epoch_that_begins_without_a_copy_leaves_each_table_as_it_is_and_calls_it_stale,
    ),
    "half a copy of a lost epoch goes on in the next one": Noticed(
        Mutant(LakeState._entries_in_new_epoch, ", copy_from=None", ""),
        test_copies_in_the_lake.test_an_epoch_that_begins_without_a_copy_leaves_each_table_as_it_is_and_calls_it_stale,
    ),
    "tables of before a first copy are no longer replaced by it": Noticed(
        Mutant(pending_copy.begins_without_copy, ' and "copy_begin" not in barriers', ""),
        test_copies_in_the_lake.test_only_an_epoch_without_a_first_copy_is_entered_so,
    ),
    "a table of another cluster takes the place of one with its relation id": Noticed(
        Mutant(LakeState._entries_in_new_epoch, "entry.relation_id if is_same else -number", "entry.relation_id"),
        test_copies_in_the_lake.test_relation_ids_of_another_cluster_mean_other_tables,
    ),
    "a truncate leaves what was copied before": Noticed(
        Mutant(table_walk._copy_after, "copy.began_anew(barrier.position)", "copy"),
        test_copies_beside.test_what_was_copied_before_a_truncate_is_void,
    ),
    "a table that was left is copied on": Noticed(
        Mutant(table_walk._copy_after, 'barrier.kind == "dropped"', "False"),
        test_copies_beside.test_a_table_that_is_left_inside_of_its_copy_is_copied_no_more,
    ),
    "rows that were copied at the LSN of a change of shape are lost": Noticed(
        Mutant(table_walk._behind_copied_rows, "max(at.ordinal, 0)", "at.ordinal"),
        test_copies_beside.test_a_copy_with_two_shapes_is_two_segments_of_which_the_first_may_lack_values,
    ),
    "shapes inside of a copy are forgotten": Noticed(
        Mutant(PendingCopy.shaped, "schema_id == self.schema_id", "True"),
        test_copies_beside.test_shapes_are_remembered_over_plans_unless_they_are_no_change,
    ),
    "a copy is read from the cut that ends it": Noticed(
        Mutant(read_ranges.read_ranges, "place in copied or ", ""),
        partial(test_copies_beside.test_at_its_end_all_records_of_the_copy_are_read_and_take_the_tables_place, None),
    ),
    "records of a copy are not counted": Noticed(
        Mutant(pending_copy._joined, "before.records + part.records", "before.records"),
        test_copies_beside.test_records_of_a_copy_are_counted_until_it_ends,
    ),
    "the first copy of earlier versions is taken for one beside the stream": Noticed(
        Mutant(pending_copy.begins_copy_beside, "return cut.complete and", "return"),
        partial(
            test_copies_beside.test_a_copy_beside_the_stream_is_told_from_the_first_copy_of_earlier_versions,
            "the first copy of earlier versions, with more of it to come",
        ),
    ),
    "a copy holds up the others": Noticed(
        Mutant(LakeState.applied_row, " and entry.copy_from is None", ""),
        test_copies_in_the_lake.test_a_first_copy_holds_up_nobody_and_is_named_as_one,
    ),
    "a table without a key is called current while its changes wait": Noticed(
        Mutant(next_entries.copying_entry, "not table.key_columns", "False"),
        test_copies_in_the_lake.test_a_table_without_a_key_is_not_current_while_it_is_copied,
    ),
    "a table made anew is called current with the rows of the one before": Noticed(
        Mutant(next_entries.copying_entry, " or before.relation_id != relation_id", ""),
        test_copies_in_the_lake.test_the_copy_of_a_table_made_anew_takes_its_entry_and_its_rows_are_stale,
    ),
    "cuts before an open plan are forgotten": Noticed(
        Mutant(
            Resumption._finished, "state = self._after_untouched_cuts(cuts[: len(cuts) - len(planned)], state)", "pass"
        ),
        patched_in_lake(test_copies_in_memory.test_a_copy_whose_beginning_left_no_row_is_whole_after_a_death),
    ),
    "a row that comes again has nulls for what it left out": Noticed(
        Mutant(changes.SegmentChanges._merge_folded, "_complete_rows(_not_deleted(batch))", "_not_deleted(batch)"),
        in_lake(test_copies_in_memory.test_a_row_that_is_not_whole_when_the_shape_changes_is_left_until_it_is_copied),
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()
