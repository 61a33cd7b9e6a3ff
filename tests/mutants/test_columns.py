"""Small mistakes where the job decodes and folds records column by column, and the fast test that notices each.

Every line of the table is one mistake, what it would do, and the test that must fail on it.
"""

from functools import partial

import pytest

from tests.contract_writer import Event
from tests.mutants.mutant import Mutant, Noticed
from tests.mutants.runs import patched_in_lake
from tests.spark_consumer.apply import test_apply_by_columns
from tests.spark_consumer.fold import test_columns
from walbridge.spark_consumer.fold.columns import column_rows, decoded, key_groups
from walbridge.spark_consumer.fold.columns.avro_bytes import AvroBytes
from walbridge.spark_consumer.fold.columns.column_rows import ColumnRows

OUT_OF_ORDER = [Event(test_columns.OF_TYPES, "c", lsn, 0, after={"id": 1}) for lsn in (0x1001, 0x1000)]

NOTICED = {
    "of a key that comes often the first event has the row": Noticed(
        Mutant(key_groups._group, "first_of[group], last_of[group]", "first_of[group], first_of[group]"),
        partial(test_columns.test_plain_events_fold_to_the_rows_that_they_do_one_by_one, 0, 30, "d"),
    ),
    "a row is called new by its last event": Noticed(
        Mutant(ColumnRows.folded_by_key, "first = groups.first[events.numbers]", "first = events.numbers"),
        partial(test_columns.test_plain_events_fold_to_the_rows_that_they_do_one_by_one, 0, 30, "d"),
    ),
    "of a key in two partitions one event is lost": Noticed(
        Mutant(key_groups._group, "not np.array_equal(partition_of[group], partitions)", "False"),
        test_columns.test_a_key_in_two_partitions_is_left_to_others,
    ),
    "an event without a key is lost": Noticed(
        Mutant(ColumnRows.folded_by_key, "(groups.first[events.numbers] == NO_KEY).any()", "False"),
        partial(test_columns.test_a_change_without_a_key_is_left_to_others, 2),
    ),
    "an older event is taken for the newest": Noticed(
        Mutant(column_rows._Order.check, "not (goes_on and later.all())", "False"),
        partial(test_columns.test_what_is_not_plain_is_left_to_others, OUT_OF_ORDER),
    ),
    "bytes behind a value are ignored": Noticed(
        Mutant(decoded.decoded, "not np.array_equal(reached, ends)", "False"),
        test_columns.test_a_record_that_goes_on_behind_its_last_field_is_left_to_others,
    ),
    "events of other segments are taken": Noticed(
        Mutant(ColumnRows._events, " & self._is_within(events)", ""),
        test_columns.test_only_events_of_the_segment_and_of_its_schema_are_taken,
    ),
    "the largest numbers lose a bit": Noticed(
        Mutant(AvroBytes._long_ends, "tenth << np.uint64(63)", "tenth << np.uint64(62)"),
        partial(test_columns.test_whole_numbers_of_any_size_are_read, -(2**63)),
    ),
    "an update is taken for an insert": Noticed(
        Mutant(ColumnRows.folded_by_key, "first_ops[first] == _CREATED", "first_ops[first] > 0"),
        patched_in_lake(partial(test_apply_by_columns.test_the_table_equals_the_source_after_each_plan, seed=0)),
    ),
    "keys of rows that are gone are taken from the row that is not there": Noticed(
        Mutant(ColumnRows._column, "if place in self._key_places and", "if False and"),
        patched_in_lake(partial(test_apply_by_columns.test_the_table_equals_the_source_after_each_plan, seed=0)),
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()
