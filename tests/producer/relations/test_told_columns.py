"""Columns are what event triggers told only where all that was added since is told, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.relations.announcements import INT4, TEXT, announcement, catalogue, recorded
from walbridge.producer.relations.columns.told_columns import (
    NumberedColumns,
    ToldPlace,
    ToldRow,
    are_all_told,
    columns_of,
    numbered,
    numbers_now,
    with_earlier_values,
)
from walbridge.schemas.ddl_row import ToldColumn, ToldColumns

PLACE = ToldPlace(7, 2, "by")
A, B = ToldColumn(1, "a", INT4, -1), ToldColumn(2, "b", INT4, -1)
A_AGAIN = ToldColumn(3, "a", INT4, -1, "7")
MADE_AGAIN = ToldRow(8, ToldColumns(3, "by", (B, A_AGAIN), frozenset({1, 3}), may_have_grown=True))


def test_place_is_read_back_from_its_text() -> None:
    for each in (PLACE, replace(PLACE, schema_id="ab12")):
        assert ToldPlace.from_text(each.as_text()) == each


def test_rows_that_account_for_each_column_tell_all() -> None:
    assert are_all_told(PLACE, [], 2, "by")
    assert are_all_told(PLACE, [MADE_AGAIN], 3, "by")


@pytest.mark.parametrize(
    ("later", "count", "by"),
    [
        ([], 3, "by"),
        ([MADE_AGAIN], 4, "by"),
        ([MADE_AGAIN], 2, "by"),
        ([], 2, "other"),
        ([MADE_AGAIN], 3, "other"),
        ([replace(MADE_AGAIN, told=replace(MADE_AGAIN.told, by="other"))], 3, "other"),
        ([replace(MADE_AGAIN, told=replace(MADE_AGAIN.told, fresh=frozenset({1})))], 3, "by"),
        ([replace(MADE_AGAIN, told=replace(MADE_AGAIN.told, is_untold=True))], 3, "by"),
        ([replace(MADE_AGAIN, told=replace(MADE_AGAIN.told, may_have_grown=False))], 3, "by"),
        ([replace(MADE_AGAIN, told=ToldColumns(3, "by"))], 3, "by"),
    ],
)
def test_column_that_nobody_told_or_a_trigger_that_was_another_one_ends_all_certainty(
    later: list[ToldRow], count: int, by: str
) -> None:
    """I8."""
    assert not are_all_told(PLACE, later, count, by)


def test_relation_has_the_numbers_of_the_told_columns_and_their_values() -> None:
    known = recorded((announcement("d", "a", "b"), catalogue(("a", 1), ("b", 2), last=2)))
    told = [B, A_AGAIN]
    found = numbered(announcement("d", "b", "a"), told, None, known)
    assert found == NumberedColumns((2, 3), {2: None, 3: "7"})


@pytest.mark.parametrize("columns", [("a", "b"), ("b", "c"), ("b", "a_text")])
def test_relation_with_other_columns_or_in_another_order_has_no_numbers(columns: tuple[str, ...]) -> None:
    assert numbered(announcement("d", *columns), [B, A_AGAIN], None, []) is None


def test_value_that_was_too_large_to_tell_is_the_catalogues_or_nobodys() -> None:
    large = replace(A_AGAIN, missing_value=None, is_value_told=False)
    known = recorded((announcement("d", "b"), catalogue(("b", 2), last=2)))
    now = catalogue(("b", 2), ("a", 3), last=3)
    holding = replace(now, columns=(now.columns[0], replace(now.columns[1], missing_value="large")))
    relation = announcement("d", "b", "a")
    assert numbered(relation, [B, large], None, known) is None
    assert numbered(relation, [B, large], now, known) is None
    assert numbered(relation, [B, large], holding, known) == NumberedColumns((2, 3), {2: None, 3: "large"})


def test_value_that_a_rewrite_took_out_of_the_catalogue_is_the_one_that_was_told_before() -> None:
    after = ToldColumns(4, "by", (B, replace(A_AGAIN, name="c", missing_value=None)))
    assert with_earlier_values(after, MADE_AGAIN.told).columns == (B, replace(A_AGAIN, name="c"))
    assert with_earlier_values(after, None) == after
    retyped = ToldColumns(4, "by", (B, replace(A_AGAIN, type_oid=TEXT, missing_value=None)))
    assert with_earlier_values(retyped, MADE_AGAIN.told) == retyped


def test_catalogue_is_enough_where_it_has_just_the_relations_columns_and_none_came_since() -> None:
    relation = announcement("d", "a", "b")
    assert numbers_now(relation, catalogue(("a", 1), ("b", 2), last=2), PLACE, None) == NumberedColumns((1, 2))
    assert numbers_now(relation, catalogue(("a", 1), ("b", 3), last=3), PLACE, None) is None
    assert numbers_now(announcement("d", "b"), catalogue(("a", 1), ("b", 2), last=2), PLACE, None) is None


def test_version_is_enough_where_all_its_columns_are_still_there() -> None:
    """Whatever was added behind them, and however often."""
    known = recorded((announcement("d", "a", "b"), catalogue(("a", 1), ("b", 2), last=2)))
    relation, place = announcement("d", "a", "b"), replace(PLACE, schema_id=known[0].schema_id)
    now = catalogue(("a", 1), ("b", 2), ("c", 5), last=5)
    assert numbers_now(relation, now, place, known[0]) == NumberedColumns((1, 2))
    assert numbers_now(relation, catalogue(("b", 2), ("a", 3), last=3), place, known[0]) is None
    assert numbers_now(announcement("d", "b", "c"), now, place, known[0]) is None
    assert numbers_now(announcement("d", "a"), catalogue(("a", 1), last=2), place, None) is None


def test_version_without_a_number_has_no_columns_to_tell() -> None:
    known = recorded((announcement("d", "a", "b"), catalogue(("a", 1), ("b", 2), last=2)))
    assert columns_of(known[0]) == (A, B)
    unnumbered = replace(known[0].table, columns=tuple(replace(each, attnum=None) for each in known[0].table.columns))
    assert columns_of(replace(known[0], table=unnumbered)) is None
