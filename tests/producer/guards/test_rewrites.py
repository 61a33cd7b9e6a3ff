"""Which new files of a table may hold other rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.rewrites import added_columns, as_text, from_text, is_rewritten
from walbridge.producer.postgres.facts import TableFile

LONG = TableFile(1, 100, 50, 3)
SHORT = TableFile(1, 100, 0, 3, "a")
NAMED = replace(SHORT, is_named=True)


def rewritten(before: TableFile, *, is_partition: bool = False, is_truncated: bool = False, **now: object) -> bool:
    after = replace(before, **now)  # type: ignore[arg-type]
    return is_rewritten(before, after, is_partition=is_partition, is_truncated=is_truncated)


def test_files_are_read_back_from_progress() -> None:
    files = (LONG, replace(SHORT, relation_id=2), TableFile(3, 0, 0, 2))
    assert from_text(as_text(files)) == {each.relation_id: each for each in files}
    assert from_text("") == {}


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
    assert not rewritten(SHORT, file=101, is_truncated=True)
    assert rewritten(SHORT, file=101, is_truncated=True, columns="b")


@pytest.mark.parametrize("before", [LONG, SHORT, NAMED])
def test_column_that_was_added_by_a_rewrite_is_a_doubt(before: TableFile) -> None:
    """Also where VACUUM FULL, after it, made the file: then nobody knows any more what was missing."""
    assert rewritten(before, file=101, column_count=4)


@pytest.mark.parametrize("before", [LONG, NAMED])
def test_new_file_of_a_partition_is_a_doubt(before: TableFile) -> None:
    """I8: it may have been truncated, which does not come where its root is published."""
    assert rewritten(before, file=101, is_partition=True, is_truncated=True)


def test_columns_are_added_without_a_rewrite_where_the_file_stays() -> None:
    assert added_columns(SHORT, replace(SHORT, column_count=4))
    assert not added_columns(SHORT, replace(SHORT, column_count=4, file=101))
    assert not added_columns(SHORT, SHORT)
