"""Which new files of a table may hold other rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.doubts.columns.altered_types import new_types, prints_differently
from walbridge.producer.guards.doubts.rewrites import (
    as_text,
    by_relation,
    from_text,
    has_added_columns,
    is_in_first_file,
    is_rewritten,
    left_partitions,
    new_partitions,
)
from walbridge.producer.postgres.facts import TableFile, TableStorage

LONG = TableFile(1, 100, 50, 3)
SHORT = TableFile(1, 100, 0, 3, "a")
NAMED = replace(SHORT, is_published_itself=True)


def rewritten(before: TableFile, *, is_partition: bool = False, truncated_by: int = 0, **now: object) -> bool:
    after = replace(before, **now)  # type: ignore[arg-type]
    is_truncated = bool(truncated_by)
    return is_rewritten(before, after, is_partition=is_partition, is_truncated=is_truncated, truncated_by=truncated_by)


PARTITION = TableFile(3, 3, 0, 2, joined="750")


def test_storage_is_read_back_from_progress() -> None:
    storage = TableStorage((LONG, replace(SHORT, relation_id=2), PARTITION), frozenset({"ab", "cd"}))
    assert from_text(as_text(storage)) == storage
    assert from_text(as_text(TableStorage((LONG,)))) == TableStorage((LONG,))
    assert from_text("") == TableStorage(())
    generated = replace(storage, key=7, withheld=frozenset({10, 9}))
    assert from_text(as_text(generated)) == generated
    assert as_text(generated).endswith(" key=7 withheld=9,10")


def test_storage_of_earlier_code_is_read_without_what_it_did_not_write() -> None:
    """It knew neither when partitions joined, nor labels."""
    earlier = from_text("1:0:0:2: 3:3:0:2:")
    now = TableStorage((TableFile(1, 0, 0, 2), PARTITION), frozenset({"9-ab"}))
    assert earlier.files == (TableFile(1, 0, 0, 2), replace(PARTITION, joined=""))
    assert left_partitions(by_relation(earlier), by_relation(now)) == set()
    assert not prints_differently(earlier, now)
    assert not new_types(from_text(""), now)
    assert not new_types(earlier, now)
    assert new_types(from_text("1:0:0:2::"), now) == {9}


def test_partitions_that_came_and_went_are_told() -> None:
    other = replace(PARTITION, relation_id=4)
    before, now = {1: LONG, 3: PARTITION}, {1: LONG, 4: other}
    assert left_partitions(before, now) == {3}
    assert new_partitions(before, now) == [other]
    assert (left_partitions(now, now), new_partitions(now, now)) == (set(), [])


def test_partition_that_came_anew_had_left() -> None:
    """I8: its rows may have changed meanwhile, unsaid."""
    assert left_partitions({3: PARTITION}, {3: replace(PARTITION, joined="751")}) == {3}


def test_table_that_was_emptied_lies_in_another_file_than_its_first() -> None:
    assert is_in_first_file(PARTITION)
    assert is_in_first_file(replace(PARTITION, file=0))
    assert not is_in_first_file(replace(PARTITION, file=9))


@pytest.mark.parametrize("before", [LONG, SHORT, NAMED])
def test_table_in_its_old_file_is_not_rewritten(before: TableFile) -> None:
    """A column was renamed, or got another default; or one was added."""
    assert not rewritten(before, columns="b", column_count=4, is_partition=True)


@pytest.mark.parametrize(("toast", "expected"), [(50, False), (51, True), (0, True)])
def test_another_toast_table_tells_a_rewrite(toast: int, expected: bool) -> None:
    assert rewritten(LONG, file=101, toast=toast) is expected


def test_without_a_toast_table_the_columns_tell_a_rewrite() -> None:
    assert rewritten(NAMED, file=101, columns="b")
    assert not rewritten(NAMED, file=101)


def test_table_that_may_have_been_unlogged_is_in_doubt_unless_it_was_truncated() -> None:
    """I8: Postgres refuses SET UNLOGGED where a publication names the table, and not where it has all tables."""
    assert rewritten(SHORT, file=101)
    assert not rewritten(SHORT, file=101, written_by_xid=750, truncated_by=750)
    assert rewritten(SHORT, file=101, written_by_xid=750, truncated_by=750, columns="b")


def test_table_that_may_have_been_unlogged_behind_its_truncate_is_in_doubt() -> None:
    """I8: who loads a table anew may empty it, SET UNLOGGED, fill it and SET LOGGED: only the TRUNCATE is sent."""
    assert rewritten(SHORT, file=101, written_by_xid=753, truncated_by=750, index_offset=3)
    assert rewritten(SHORT, file=101, written_by_xid=753, truncated_by=750), "it has no index"
    assert not rewritten(NAMED, file=101, written_by_xid=753, truncated_by=750, index_offset=3)


def test_table_that_was_emptied_and_unlogged_in_one_transaction_is_in_doubt_unless_others_took_numbers() -> None:
    assert rewritten(SHORT, file=101, written_by_xid=750, truncated_by=750, index_offset=3)
    assert not rewritten(SHORT, file=101, written_by_xid=750, truncated_by=750, index_offset=4)


def test_truncate_behind_a_savepoint_is_told_by_the_number_of_the_index() -> None:
    """Its xid in the catalogue is another one than in the stream."""
    assert not rewritten(SHORT, file=101, written_by_xid=751, truncated_by=750, index_offset=1)
    assert rewritten(SHORT, file=101, written_by_xid=751, index_offset=1), "the stream has not brought it"


@pytest.mark.parametrize("before", [LONG, SHORT, NAMED])
def test_column_that_was_added_by_a_rewrite_is_a_doubt(before: TableFile) -> None:
    """Also where VACUUM FULL, after it, made the file: then nobody knows any more what was missing."""
    assert rewritten(before, file=101, column_count=4)


@pytest.mark.parametrize("before", [LONG, NAMED])
def test_new_file_of_a_partition_that_its_roots_truncate_made_is_no_doubt(before: TableFile) -> None:
    after = replace(before, file=101, written_by_xid=750)
    assert not is_rewritten(before, after, is_partition=True, is_truncated=True, truncated_by=750)
    assert is_rewritten(before, after, is_partition=True, is_truncated=True, truncated_by=751)
    for other in (replace(after, toast=51), replace(after, columns="b"), replace(after, column_count=4)):
        assert is_rewritten(before, other, is_partition=True, is_truncated=True, truncated_by=750)


@pytest.mark.parametrize("before", [LONG, NAMED])
def test_new_file_of_a_partition_is_a_doubt(before: TableFile) -> None:
    """I8: it may have been truncated, which does not come where its root is published."""
    assert rewritten(before, file=101, is_partition=True, written_by_xid=751, truncated_by=750)


def test_columns_are_added_without_a_rewrite_where_the_file_stays() -> None:
    assert has_added_columns(SHORT, replace(SHORT, column_count=4))
    assert not has_added_columns(SHORT, replace(SHORT, column_count=4, file=101))
    assert not has_added_columns(SHORT, SHORT)
