"""What the catalogue, which says *now*, may add to a relation that was announced *then*: numbers, keys, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.producer.kept import INT4, ORDERS
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.column_matching import numbers_of
from walbridge.producer.relations.columns.catalogue_key import catalogue_key
from walbridge.producer.relations.columns.known_columns import KnownColumns, Numbers
from walbridge.producer.relations.columns.uncertain_columns import (
    retyped_columns,
    uncertain_columns,
    unidentified_columns,
)
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.control.metadata_record import RelationRecord


def told(*names: str, identity: str = "f", key: str | None = None) -> Relation:
    """Columns of int4."""
    columns = tuple(RelationColumn(identity == "f" or name == key, name, INT4, -1) for name in names)
    return Relation(ORDERS, "public", "orders", identity, columns)


def now(*columns: tuple[str, int], primary: Sequence[str] = (), last: int = 0) -> TableFacts:
    """Name and number of each column; the last number defaults to the highest that is left."""
    made = tuple(ColumnFacts(name, INT4, -1, number, True, name in primary, True, None) for name, number in columns)
    return TableFacts("f", made, last or max(number for _, number in columns), "public", "orders")


def versions(*known: tuple[Relation, TableFacts | None], partitions: int = 1) -> list[RelationRecord]:
    """Each announced while the catalogue knew this; the first by a copy."""
    cache = RelationCache("p")
    for relation, facts in known:
        table = describe(relation, facts, {}, cache.versions_of(ORDERS))
        cache.remember(cache.version_of(table, DataTopic("p.public.orders", partitions)))
    return cache.versions_of(ORDERS)


def column_numbers(relation: Relation, facts: TableFacts | None, known: Sequence[RelationRecord]) -> Numbers:
    return numbers_of(KnownColumns(relation, facts, known))


def key_of(relation: Relation, facts: TableFacts | None, known: Sequence[RelationRecord]) -> list[str]:
    return sorted(catalogue_key(relation, facts, column_numbers(relation, facts, known), known))


AB = now(("a", 1), ("b", 2))
A_IS_KEY = now(("a", 1), ("b", 2), primary=["a"])


def test_number_is_that_of_the_catalogue_where_it_knows_the_columns() -> None:
    assert column_numbers(told("a", "b"), AB, ()) == [1, 2]


def test_copy_takes_the_numbers_that_the_catalogue_has_while_nobody_can_alter_the_table() -> None:
    """A column list may leave out what earlier versions have, which the order of numbers cannot tell (I8)."""
    facts, known = now(("a", 1), ("b", 2), ("c", 3)), versions((told("a", "b"), AB))

    copied = describe(told("a", "c"), facts, {}, known, is_of_catalogue=True)

    assert [column.attnum for column in copied.columns] == [1, 3]


def test_number_by_a_list_that_was_changed_is_forgotten_with_the_copy() -> None:
    """I8: the Relation that showed the list gave ``c`` the number of ``b``; nothing after the copy goes by that."""
    first, copied = now(("a", 1), ("b", 2), ("c", 3)), now(("a", 1), ("b", 2), ("c", 3))
    cache = RelationCache("p")
    for relation, facts, is_copied in (
        (told("a", "b"), first, True),
        (told("a", "c"), first, False),
        (told("a", "c"), copied, True),
    ):
        table = describe(relation, facts, {}, cache.versions_of(ORDERS), is_of_catalogue=is_copied)
        cache.remember(cache.version_of(table, DataTopic("p.public.orders", 1)))
    known = cache.versions_of(ORDERS)
    assert [[column.attnum for column in each.table.columns] for each in known] == [[1, 2], [1, 2], [1, 3]]

    swapped = now(("a", 1), ("c", 2), ("b", 3))
    added = now(("a", 1), ("b", 2), ("c", 3), ("d", 4))
    assert column_numbers(told("a", "c"), copied, known) == [1, 3]
    assert column_numbers(told("a", "b"), swapped, known) == [1, 3]
    assert column_numbers(told("a", "x"), now(("a", 1), ("b", 2), ("x", 3)), known) == [1, 3]
    assert column_numbers(told("a", "c", "d"), added, known) == [1, 3, 4]
    for relation, facts in ((told("a", "c"), copied), (told("a", "b"), swapped), (told("a", "c", "d"), added)):
        assert uncertain_columns(relation, facts, known) == []


@pytest.mark.parametrize(("typmod", "number"), [(655366, 1), (655368, None), (-1, None)])
def test_column_is_known_by_its_modifier_too(typmod: int, number: int | None) -> None:
    """Without a version to compare with, a column of other digits may be another column."""
    facts = replace(AB, columns=(ColumnFacts("a", 1700, 655366, 1, True, False, True, None),))
    relation = replace(told("a"), columns=(RelationColumn(True, "a", 1700, typmod),))

    assert column_numbers(relation, facts, ()) == [number]


def test_numbers_of_a_table_that_is_gone_are_those_that_were_recorded() -> None:
    assert column_numbers(told("a", "b"), None, versions((told("a", "b"), AB))) == [1, 2]


def test_column_that_the_catalogue_knows_no_more_keeps_its_recorded_number() -> None:
    """Another was renamed since: one number of the catalogue, one that was written down."""
    known = versions((told("a", "b"), AB))

    assert column_numbers(told("a", "b"), now(("a", 1), ("c", 2)), known) == [1, 2]


def test_number_that_leaves_none_to_a_column_behind_is_not_its_own() -> None:
    """``b`` was dropped and added at the end since: as announced, it stands before a column that came earlier."""
    facts = now(("c", 3), ("b", 4))

    assert column_numbers(told("b", "c"), facts, ()) == [None, 3]
    assert column_numbers(told("x", "b", "c", "d"), replace(facts, attnum_max=5), ()) == [None, None, 3, None]


def test_numbers_that_contradict_the_order_are_not_taken_over_recorded_ones() -> None:
    """Two columns changed their names since: the names say who is who now, not who was."""
    known = versions((told("a", "b"), AB))

    assert column_numbers(told("a", "b"), now(("b", 1), ("a", 2)), known) == [1, 2]


def test_last_column_may_have_the_last_number() -> None:
    assert column_numbers(told("a", "b", "c"), now(("a", 1), ("b", 2), ("c", 3)), ()) == [1, 2, 3]


def test_same_number_twice_is_of_neither_but_the_first() -> None:
    facts = TableFacts("f", (*AB.columns, replace(AB.columns[1], type_oid=20)), 3)
    twice = replace(told("a", "b", "b"), columns=(*told("a", "b").columns, RelationColumn(True, "b", 20, -1)))

    assert column_numbers(twice, facts, ()) == [1, 2, None]


def test_columns_get_numbers_by_order_only_if_the_catalogue_does_not_say_otherwise() -> None:
    """``c`` has a number that no column of that place can have: the table was made anew, or altered twice."""
    known = versions((told("a", "b"), AB))
    facts = now(("a", 1), ("c", 5), last=5)

    assert column_numbers(told("a", "b", "c", "d", "e", "f"), facts, known)[1] is None


def test_column_that_is_none_of_before_by_name_and_several_by_number_is_uncertain_where_none_came() -> None:
    """I8: one was dropped and another one renamed, and both are gone by now. It is none that came, with nulls in older
    rows."""
    known = versions((told("a", "b", "c", "d"), now(("a", 1), ("b", 2), ("c", 3), ("d", 4), primary=["a"])))
    renamed = told("a", "x", "d")

    assert uncertain_columns(renamed, now(("a", 1), ("z", 4), primary=["a"], last=4), known) == ["x"]
    assert uncertain_columns(renamed, now(("a", 1), ("y", 3), ("z", 4), primary=["a"]), known) == []
    assert uncertain_columns(renamed, now(("a", 1), ("x", 3), ("d", 4), primary=["a"]), known) == []
    assert uncertain_columns(renamed, now(("a", 1), ("y", 3), ("d", 4), ("x", 5)), known) == []
    assert uncertain_columns(renamed, None, known) == []


@pytest.mark.parametrize(
    ("facts", "numbers"),
    [
        pytest.param(now(("a", 1), ("c", 3), ("x", 4)), [1, 2, 3], id="only one number is between"),
        pytest.param(now(("a", 1), ("c", 4), ("x", 5)), [1, 2, 4], id="two are, of which one bore its name"),
        pytest.param(now(("a", 3), ("c", 5), ("x", 6)), [None, 2, 5], id="the one before it may have come later"),
    ],
)
def test_column_between_two_that_are_known_has_the_only_number_between_theirs(
    facts: TableFacts, numbers: list[int | None]
) -> None:
    known = versions((told("a", "b"), AB))

    assert column_numbers(told("a", "b", "c"), facts, known) == numbers


@pytest.mark.parametrize(
    ("relation", "facts", "expected"),
    [
        pytest.param(told("a", "c", "b"), now(("a", 1), ("c", 4), ("b", 6)), ["b"], id="another one of its name"),
        pytest.param(told("a", "x", "c"), now(("a", 1), ("x", 2), ("c", 4)), ["x"], id="it may be called otherwise"),
        pytest.param(told("a", "b", "c"), now(("a", 1), ("b", 2), ("c", 4)), [], id="told again"),
        pytest.param(told("a", "c", "x"), now(("a", 1), ("c", 4), ("x", 5)), [], id="one that came behind it"),
    ],
)
def test_column_may_be_one_whose_number_was_not_known_when_it_was_told(
    relation: Relation, facts: TableFacts, expected: list[str]
) -> None:
    """I8: readers go by names where a number is missing, and the values of one would pass for the other's."""
    known = versions(
        (told("a", "z"), now(("a", 1), ("z", 2))), (told("a", "b", "c"), now(("a", 1), ("c", 4), ("b", 5)))
    )
    assert [column.attnum for column in known[-1].table.columns] == [1, None, 4]

    assert unidentified_columns(relation, facts, known) == expected


def test_column_that_was_left_out_for_a_while_has_its_own_number() -> None:
    """A column list left it out of the newest version, and another column came: there are as many as numbers."""
    known = versions((told("a", "b"), AB), (told("a"), AB))

    assert column_numbers(told("a", "b"), now(("a", 1), ("b", 2), ("c", 3)), known) == [1, 2]


def test_column_that_is_published_later_than_others_has_its_own_number() -> None:
    """A column list left it out of all versions, and leaves out another one still."""
    facts = now(("a", 1), ("b", 2), ("c", 3), ("d", 4))

    assert column_numbers(told("a", "b", "c"), facts, versions((told("a", "c"), facts))) == [1, 2, 3]


def test_number_that_was_dropped_before_the_newest_version_is_no_candidate() -> None:
    """Numbers are never given twice."""
    known = versions((told("a", "b"), AB), (told("a"), now(("a", 1), last=2)))

    assert column_numbers(told("x", "y"), now(("a", 1), ("z", 3), last=3), known) == [1, 3]


def test_columns_that_came_back_under_names_of_old_ones_are_other_columns() -> None:
    """``b`` was dropped and added again, twice: equal names, another number each time."""
    first, second = told("a", "b"), told("a")
    known = versions((first, AB), (second, now(("a", 1), last=2)))

    assert column_numbers(first, now(("a", 1), ("b", 3), last=3), known) == [1, 3]
    assert column_numbers(first, now(("a", 1), ("x", 3), last=3), known) == [1, None]


@pytest.mark.parametrize(
    ("relation", "facts", "expected"),
    [
        pytest.param(told("a", "b", "c"), now(("a", 1), ("b", 2), ("c", 4)), ["c"], id="of two one is gone"),
        pytest.param(told("a", "b", "c"), now(("a", 1), ("b", 2), ("c", 3)), [], id="the only one"),
        pytest.param(told("a", "b", "c"), now(("a", 1), ("b", 2), ("x", 4)), [], id="none is there"),
        pytest.param(told("a", "b", "c"), now(("a", 1), ("b", 2), ("c", 3), ("d", 4)), [], id="none is gone"),
        pytest.param(told("a", "b", "c", "d"), now(("a", 1), ("b", 2), ("d", 3), ("c", 4)), [], id="as many as came"),
        pytest.param(told("a", "b"), now(("a", 1), ("b", 4)), [], id="told before"),
        pytest.param(told("a", "c"), now(("a", 1), ("c", 3)), [], id="the other was told"),
        pytest.param(told("a", "b", "c"), None, [], id="table is gone"),
    ],
)
def test_new_column_may_be_one_that_went_before_anybody_looked(
    relation: Relation, facts: TableFacts | None, expected: list[str]
) -> None:
    """I8: what comes under its name would pass for the values of the one that is there now."""
    assert uncertain_columns(relation, facts, versions((told("a", "b"), AB))) == expected


DOMAIN, ENUM = 16_400, 16_401


@pytest.mark.parametrize(
    ("name", "type_oid", "number", "expected"),
    [
        ("c", ENUM, 3, ["c"]),
        ("d", ENUM, 3, ["c"]),
        ("c", DOMAIN, 3, []),
        ("d", DOMAIN, 3, []),
        ("b", ENUM, 2, []),
    ],
)
def test_column_of_a_user_type_whose_type_was_altered_before_it_was_told(
    name: str, type_oid: int, number: int, expected: list[str]
) -> None:
    """I8: the catalogue does not tell any more since when it was of the one before."""
    first = told("a", "b")
    relation = replace(first, columns=(*first.columns, RelationColumn(True, "c", DOMAIN, -1)))
    kept = [each for each in AB.columns if each.attnum != number]
    facts = replace(
        AB, columns=(*kept, replace(AB.columns[1], name=name, type_oid=type_oid, attnum=number)), attnum_max=3
    )
    known = versions((first, AB))
    assert retyped_columns(relation, facts, known) == expected
    again = versions((first, AB), (relation, facts))
    assert retyped_columns(relation, facts, again) == []


def test_newest_of_equal_versions_is_the_one_that_counts() -> None:
    """``b`` was made anew: what is told later is told of the new one, also when the table is gone."""
    first, between = told("a", "b"), told("a")
    anew = now(("a", 1), ("b", 3), last=3)
    known = versions((first, AB), (first, anew))

    assert [column.attnum for column in known[-1].table.columns] == [1, 3]
    assert column_numbers(first, None, known) == [1, 3]
    assert column_numbers(between, None, known) == [None]


def test_key_is_never_gained_after_any_version_without_one() -> None:
    """I8: rows of that version may be equal in it, and a delete of one would take all."""
    without = told("a", "b")
    by_identity = told("a", "b", identity="d", key="a")
    known = versions((without, AB), (by_identity, A_IS_KEY))
    assert [bool(each.table.key_columns) for each in known] == [False, True]

    assert key_of(told("a", "b"), A_IS_KEY, known) == []


@pytest.mark.parametrize("partitions", [1, 4])
def test_key_of_all_versions_stays_the_key(partitions: int) -> None:
    known = versions((told("a", "b"), A_IS_KEY), partitions=partitions)

    assert key_of(told("a", "b"), A_IS_KEY, known) == ["a"]


def test_key_whose_column_has_another_name_by_now_stays_the_key() -> None:
    """Numbers tell it: the column was renamed, and another got its name."""
    known = versions((told("a", "b"), A_IS_KEY))
    renamed = now(("b", 1), ("c", 2), primary=["b"])

    assert key_of(told("a", "b"), renamed, known) == ["a"]


def test_column_of_the_keys_name_that_is_another_column_is_no_key() -> None:
    """I8: the key column was dropped, and another one got its name."""
    known = versions((told("a", "b"), A_IS_KEY))
    swapped = now(("b", 1), ("a", 2), primary=["b"])

    assert key_of(told("a", "b"), swapped, known) == ["a"]


def test_half_of_a_primary_key_is_no_key() -> None:
    """Rows that differ in the other half would be one."""
    both = now(("a", 1), ("b", 2), primary=["a", "b"])

    assert key_of(told("a"), both, ()) == []
    assert key_of(told("a", "b"), both, ()) == ["a", "b"]


def test_key_of_a_table_that_is_gone_is_that_of_a_version_with_the_same_identity() -> None:
    """I3: under DEFAULT the key was what the stream flagged, and USING INDEX flags another."""
    known = versions((told("a", "b"), A_IS_KEY), (told("a", "b", identity="i", key="b"), A_IS_KEY))

    assert key_of(told("a", "b"), None, known) == ["a"]
