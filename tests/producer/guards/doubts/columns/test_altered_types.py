"""Which types of a table's columns may print values otherwise than rows were sent with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.guards.doubts.columns.altered_types import (
    altered_tables,
    is_altered_since,
    new_types,
    prints_differently,
)
from walbridge.producer.postgres.facts import RowVersion, TableFile, TableStorage, UsedType

LONG = TableFile(1, 100, 50, 3)
BEFORE = TableStorage((LONG,), frozenset({"9-a", "9-b", "8-c"}))
COLUMN = RowVersion(750, 4, is_first=True)
USED = UsedType(1, 9, COLUMN, (RowVersion(0, 0), RowVersion(750, 2)))


def test_label_that_is_called_otherwise_is_told_and_a_new_one_or_a_column_that_went_is_not() -> None:
    assert not prints_differently(BEFORE, replace(BEFORE, labels=BEFORE.labels | {"9-d"}))
    assert not prints_differently(BEFORE, replace(BEFORE, labels=frozenset({"8-c"})))
    assert prints_differently(BEFORE, replace(BEFORE, labels=frozenset({"9-a", "9-x", "8-c"})))


def test_type_is_new_where_no_column_was_of_it_and_the_table_was_looked_at() -> None:
    now = replace(BEFORE, labels=frozenset({"9-a", "9-x", "7-d"}))
    assert new_types(BEFORE, now) == {7}
    assert new_types(TableStorage(()), now) == set()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (RowVersion(0, 7), False),
        (RowVersion(749, 9), False),
        (RowVersion(751, 0), True),
        (RowVersion(750, 3), False),
        (RowVersion(750, 5), True),
        (RowVersion(750, 3, is_stamped=True), True),
        (RowVersion(749, 3, is_stamped=True), False),
    ],
)
def test_type_is_altered_where_a_row_of_it_may_be_younger_than_the_columns(fact: RowVersion, expected: bool) -> None:
    """I8: rows may have come between. The command of a row that was stamped since is not known."""
    assert is_altered_since(replace(USED, facts=(*USED.facts, fact))) is expected


@pytest.mark.parametrize(("xid", "expected"), [(0, False), (739, False), (750, True)])
def test_type_is_altered_by_who_gave_it_to_the_column_again(xid: int, expected: bool) -> None:
    """I8: the column may have been of that type before. What had ended before all that comes is older all the same."""
    again = replace(COLUMN, is_first=False)
    assert is_altered_since(replace(USED, column=again, facts=(RowVersion(xid, 2),), ended_below=740)) is expected


@pytest.mark.parametrize(
    ("xid", "ended_below", "seen", "expected"),
    [
        (745, 740, None, True),
        (739, 740, None, False),
        (745, 740, Snapshot(746, 749, frozenset()), False),
        (745, 740, Snapshot(745, 749, frozenset({745})), True),
        (745, 740, Snapshot(746, 752, frozenset()), True),
    ],
)
def test_type_is_altered_by_a_transaction_with_a_lower_number_that_may_have_ended_behind_the_column(
    xid: int, ended_below: int, seen: Snapshot | None, expected: bool
) -> None:
    """I8: a look tells of columns that came behind it only."""
    used = replace(USED, facts=(RowVersion(xid, 0),), ended_below=ended_below)
    assert is_altered_since(used, seen) is expected


def test_type_that_is_as_it_was_made_was_not_altered() -> None:
    for made in (RowVersion(745, 3, is_first=True), RowVersion(751, 3, is_first=True)):
        assert not is_altered_since(replace(USED, facts=(made,), ended_below=740))


def test_type_and_column_of_long_ago_are_as_they_were_copied() -> None:
    """A cluster that was upgraded has rows of no transaction."""
    long_ago = RowVersion(0, 1, is_stamped=True)
    assert not is_altered_since(UsedType(1, 9, long_ago, (replace(long_ago, command=5),)))
    assert is_altered_since(UsedType(1, 9, long_ago, (replace(COLUMN, is_first=False),)))


def test_tables_are_altered_by_their_new_types_alone() -> None:
    """One that the table had before is compared with what was remembered of it."""
    altered = replace(USED, facts=(RowVersion(751, 0),))
    used = [altered, replace(altered, relation_id=2), replace(altered, type_oid=8), replace(USED, relation_id=3)]
    assert altered_tables({1: {9}, 2: {8}, 3: {9}}, used) == {1}
