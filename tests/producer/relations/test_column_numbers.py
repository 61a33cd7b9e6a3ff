"""Which facts of the catalogue, and which number, a column of the stream is given."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.relations.announcements import (
    AB,
    INT4,
    TEXT,
    TOPIC,
    announcement,
    catalogue,
    facts,
    recorded,
    relation,
)
from tests.schemas.strategies import ENUM_OID, USER_TYPES, numeric_typmod
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.columns.uncertain_columns import AT_RELATION, uncertain_columns, unfilled_columns
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.control.metadata_record import RelationRecord

ABC = catalogue(("a", 1), ("b", 2), ("c", 3), last=3)


def test_catalogue_facts_are_taken_where_it_still_describes_the_column() -> None:
    """The catalogue says now, the stream says then: a column of another type is another column."""
    known = TableFacts(
        "d",
        (
            ColumnFacts("a", INT4, -1, 1, False, True, True, None),
            ColumnFacts("b", TEXT, -1, 2, False, False, False, "x"),
            ColumnFacts("d", INT4, -1, 4, False, False, False, None),
        ),
    )
    a, b, c = describe(relation("d", True, False, False), known, {}).columns

    assert (a.attnum, a.nullable, a.missing_value) == (1, False, None)
    assert (b.attnum, b.nullable, b.missing_value) == (None, None, None)
    assert (c.attnum, c.nullable, c.missing_value) == (None, None, None)


def with_value(value: str | None, *names: str) -> TableFacts:
    """Columns of the catalogue, of which the last got a value for older rows."""
    *others, last = catalogue(*((name, n) for n, name in enumerate(names, 1)), last=len(names)).columns
    return TableFacts("f", (*others, replace(last, missing_value=value)), len(names))


def older(told: Relation, known: TableFacts | None, versions: list[RelationRecord]) -> list[str | None]:
    return [column.missing_value for column in describe(told, known, {}, versions).columns]


def test_value_of_older_rows_is_recorded_with_a_column_that_came_and_holds_on() -> None:
    """I8: a rewrite clears it in the catalogue, and the same Relation is the same version."""
    told, added = announcement("f", "a", "b"), announcement("f", "a", "b", "c")
    versions = recorded((told, AB), (added, with_value("7", "a", "b", "c")))
    assert older(added, with_value("7", "a", "b", "c"), versions[:1]) == [None, None, "7"]
    assert older(added, with_value(None, "a", "b", "c"), versions) == [None, None, "7"]
    assert older(added, None, versions) == [None, None, "7"]


def test_value_of_older_rows_is_that_of_its_type_or_none() -> None:
    """Its text is read as the type that the column has."""
    added, widened = announcement("f", "a", "b", "c"), announcement("f", "a", "b", "c_text")
    versions = recorded((announcement("f", "a", "b"), AB), (added, with_value("7", "a", "b", "c")))
    assert older(widened, with_value("7", "a", "b", "c_text"), versions) == [None, None, "7"]
    assert older(widened, with_value(None, "a", "b", "c_text"), versions) == [None, None, None]


def test_value_of_older_rows_is_none_where_there_are_none() -> None:
    """A copy brings all rows, and with them what they have in a column that came before it."""
    assert older(announcement("f", "a", "b"), with_value("7", "a", "b"), []) == [None, None]
    versions = recorded((announcement("f", "a", "b"), AB))
    assert older(announcement("f", "a", "b"), with_value("7", "a", "b"), versions) == [None, None]


def test_value_of_older_rows_is_found_by_the_number_of_a_column_that_is_called_otherwise_by_now() -> None:
    versions = recorded((announcement("f", "a", "b"), AB))
    assert older(announcement("f", "a", "b", "c"), with_value("7", "a", "b", "d"), versions) == [None, None, "7"]


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        (("a", "b", "c"), with_value("7", "a", "b", "c"), []),
        (("a", "b", "c"), with_value("7", "a", "b", "d"), []),
        (("a", "b", "c"), with_value("x", "a", "b", "c_text"), ["c"]),
        (("a", "b", "c"), with_value(None, "a", "b", "c_text"), []),
        (("a", "b", "c"), catalogue(("a", 1), ("b", 2), last=3), ["c"]),
        (("a", "b", "c"), catalogue(("a", 1), ("b", 2), last=4), ["c"]),
        (("a", "b", "c"), catalogue(("a", 1), ("b", 2), ("d", 3), ("e", 4), last=4), []),
        (("a", "b", "c"), catalogue(("a", 1), ("b", 2), ("c", 3), last=4), []),
        (("a", "b", "c"), catalogue(("a", 1), ("c", 3), last=3), []),
        (("a", "x"), catalogue(("a", 1), ("y", 2), last=3), []),
        (("a", "x", "c"), catalogue(("a", 1), ("y", 2), ("c", 3), last=4), []),
        (("a", "b"), catalogue(("a", 1), ("b", 2), last=3), []),
        (("a", "b"), with_value("7", "a", "b", "c"), []),
        (("a", "b", "c"), None, []),
    ],
)
def test_column_of_which_nobody_can_tell_what_older_rows_have_is_uncertain(
    told: tuple[str, ...], now: TableFacts | None, expected: list[str]
) -> None:
    """I8: it has another type by now, which the value was made to fit, or is gone. What is called otherwise is not, and
    a column that came and went untold costs nothing."""
    assert unfilled_columns(announcement("f", *told), now, recorded((announcement("f", "a", "b"), AB))) == expected


@pytest.mark.parametrize(
    ("shown", "now", "expected"),
    [
        ((), catalogue(("a", 1), ("b", 3), last=3), ["b"]),
        ((), catalogue(("a", 1), ("b", 2), last=3), []),
        ((), catalogue(("a", 1), ("b", 3), ("c", 2), last=3), []),
        (("a",), catalogue(("a", 1), ("b", 3), last=3), []),
        (("a",), catalogue(("a", 1), ("b", 4), last=4), ["b"]),
    ],
)
def test_column_that_was_made_again_is_uncertain_unless_the_stream_showed_that_it_had_gone(
    shown: tuple[str, ...], now: TableFacts, expected: list[str]
) -> None:
    """I8: a Relation from before it was dropped is the same as one from after that, and rows of both may follow."""
    drops = [(announcement("f", *shown), catalogue(("a", 1), last=2))] if shown else []
    versions = recorded((announcement("f", "a", "b"), AB), *drops)
    found = [column for kind in AT_RELATION for column in kind(announcement("f", "a", "b"), now, versions)]
    assert found == expected


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        (("a", "b"), catalogue(("a", 1), ("b", 4), last=4), ["b"]),
        (("a", "c"), catalogue(("a", 1), ("b", 4), ("c", 5), last=5), ["c"]),
        (("a", "b"), catalogue(("a", 1), ("b", 2), last=4), []),
        (("a", "b"), catalogue(("a", 1), ("b", 3), last=3), []),
    ],
)
def test_column_that_may_be_the_one_before_it_was_made_again_is_uncertain(
    told: tuple[str, ...], now: TableFacts, expected: list[str]
) -> None:
    """I8: another column went before it, so the Relation is a new one, and may still be from before."""
    versions = recorded((announcement("f", "a", "b"), AB), (announcement("f", "a", "b", "c"), ABC))
    found = [column for kind in AT_RELATION for column in kind(announcement("f", *told), now, versions)]
    assert found == expected


@pytest.mark.parametrize(("renamed", "expected"), [(3, ["c"]), (4, [])])
def test_column_under_the_name_of_one_that_is_called_otherwise_by_now_is_uncertain(
    renamed: int, expected: list[str]
) -> None:
    """I8: c came, was renamed, and another c came: had this been told, the first one would have been, too."""
    now = catalogue(("a", 1), ("b", 2), ("d", renamed), ("c", 7 - renamed), last=4)
    versions = recorded((announcement("f", "a", "b"), AB))
    assert uncertain_columns(announcement("f", "a", "b", "c"), now, versions) == expected


def test_column_that_comes_behind_a_generated_one_is_certain() -> None:
    """No copy is due: what is not published is never told."""
    columns = catalogue(("a", 1), ("b", 2), ("generated", 3), ("c", 4), last=4).columns
    now = TableFacts("f", (*columns[:2], replace(columns[2], is_generated=True), columns[3]), 4)
    versions = recorded((announcement("f", "a", "b"), AB))
    assert uncertain_columns(announcement("f", "a", "b", "c"), now, versions) == []


def test_column_that_came_and_went_behind_a_generated_one_is_uncertain() -> None:
    """I8: a generated one is not told, but has a number."""
    generated = replace(catalogue(("generated", 3), last=3).columns[0], is_generated=True)
    now, versions = TableFacts("f", (*AB.columns, generated), 4), recorded((announcement("f", "a", "b"), AB))
    assert unfilled_columns(announcement("f", "a", "b", "c"), now, versions) == ["c"]
    assert unfilled_columns(announcement("f", "a", "x"), replace(now, attnum_max=3), versions) == []


def test_column_that_may_be_the_one_with_a_value_is_uncertain() -> None:
    """I8: two came and one of them went, or was renamed: which one the stream tells nobody knows."""
    columns = (*AB.columns, replace(catalogue(("d", 4), last=4).columns[0], missing_value="7"))
    versions = recorded((announcement("f", "a", "b"), AB))
    assert unfilled_columns(announcement("f", "a", "b", "c"), TableFacts("f", columns, 4), versions) == ["c"]


def test_column_that_may_be_the_recorded_one_with_a_value_is_uncertain() -> None:
    """I8: it was renamed behind what is told, so its own name tells nobody its number, and with it the value."""
    added = announcement("d", "id", "x", "n")
    now = with_value("7", "id", "x", "later")
    versions = recorded(COPIED, (added, with_value("7", "id", "x", "n")))
    gone = replace(now, columns=now.columns[:1])
    assert unfilled_columns(announcement("d", "id", "w"), gone, versions) == ["w"]
    assert unfilled_columns(added, now, versions) == []


def test_facts_of_a_column_of_the_same_name_with_another_number_are_not_taken() -> None:
    """I8: it was dropped and added again, with a default that rows from before do not have."""
    told = relation("d", True, False, False)
    first = TableFacts("d", tuple(replace(each, attnum=n) for n, each in enumerate(facts("d", *[True] * 3).columns)))
    again = ColumnFacts("b", INT4, -1, 9, False, False, False, "7")
    now = TableFacts("d", (first.columns[0], first.columns[2], again), 9)
    versions = recorded_of(told, first)

    _, b, _ = describe(told, now, {}, versions).columns
    assert (b.nullable, b.missing_value) == (None, None)


def recorded_of(told: Relation, known: TableFacts) -> list[RelationRecord]:
    """The version that a copy recorded."""
    cache = RelationCache("p")
    cache.remember(cache.version_of(describe(told, known, {}), TOPIC))
    return cache.versions_of(told.relation_id)


def test_typmod_that_changed_meanwhile_makes_another_column() -> None:
    announcement = Relation(1, "s", "t", "d", (RelationColumn(False, "a", 1700, numeric_typmod(10, 2)),))
    known = TableFacts("d", (ColumnFacts("a", 1700, numeric_typmod(12, 2), 1, True, False, False, None),))

    (found,) = describe(announcement, known, {}).columns
    assert (found.attnum, found.column_type.avro["precision"]) == (None, 10)


def test_column_is_named_by_its_type_or_the_types_oid() -> None:
    columns = tuple(RelationColumn(False, name, oid, -1) for name, oid in (("a", INT4), ("b", ENUM_OID), ("c", 99_999)))

    described = describe(Relation(1, "s", "t", "d", columns), None, USER_TYPES)

    assert [each.type_name for each in described.columns] == ["int4", "mood", "oid 99999"]
    assert [each.column_type.is_text for each in described.columns] == [False, False, True]


def numbers_of(
    announced_now: Relation, known: TableFacts | None, versions: Sequence[RelationRecord]
) -> list[int | None]:
    return [column.attnum for column in describe(announced_now, known, {}, versions).columns]


COPIED = (announcement("d", "id", "x"), catalogue(("id", 1), ("x", 2), last=2))
FILLED = announcement("d", "id", "x", "new_x")
FILLED_TEXT = announcement("d", "id", "x", "new_text")


@pytest.mark.parametrize(
    ("told", "now"),
    [
        (FILLED, catalogue(("id", 1), ("x", 3), last=3)),
        (FILLED_TEXT, catalogue(("id", 1), ("xtext", 3), last=3)),
    ],
    ids=["of the same type", "of another type"],
)
def test_columns_of_a_migration_have_their_own_numbers_though_the_catalogue_knows_its_end(
    told: Relation, now: TableFacts
) -> None:
    """I8: ADD, UPDATE, DROP and RENAME in one transaction; also when it is read again after a crash."""
    versions = recorded(COPIED)
    assert numbers_of(told, now, versions) == [1, 2, 3]
    end = announcement("d", "id", now.columns[-1].name)
    assert numbers_of(end, now, recorded(COPIED, (told, now))) == [1, 3]
    assert numbers_of(told, now, recorded(COPIED, (told, now), (end, now))) == [1, 2, 3]


def test_number_that_several_columns_may_have_is_none() -> None:
    """One of two was dropped, the other renamed: nobody can tell which was left, unless it is there still."""
    versions = recorded((announcement("d", "id", "x", "y"), catalogue(("id", 1), ("x", 2), ("y", 3), last=3)))
    assert numbers_of(announcement("d", "id", "w"), catalogue(("id", 1), last=3), versions) == [1, None]
    assert numbers_of(announcement("d", "id", "w"), catalogue(("id", 1), ("z", 3), last=3), versions) == [1, 3]


def test_column_dropped_and_added_has_the_new_number() -> None:
    now = catalogue(("id", 1), ("x", 3), last=3)

    assert numbers_of(announcement("d", "id", "x"), now, recorded(COPIED)) == [1, 3]


@pytest.mark.parametrize(
    ("told", "now", "numbers"),
    [
        pytest.param(("a", "b", "x"), catalogue(("id", 1), ("b", 2), ("a", 3), ("x", 5), last=5), [2, 3, 5], id="swap"),
        pytest.param(("a", "b"), catalogue(("id", 1), ("b", 2), ("a", 3), ("x", 5), last=5), [2, 3], id="told before"),
        pytest.param(("a", "b", "c", "x"), catalogue(("id", 1), ("x", 2), ("y", 5), last=5), [2, 3, 4, 5], id="came"),
        pytest.param(("b", "c", "a"), catalogue(("id", 1), ("a", 2), ("x", 3), ("b", 4), last=5), [2, 3, 4], id="all"),
    ],
)
def test_number_is_the_columns_own_though_its_name_is_another_ones_by_now(
    told: tuple[str, ...], now: TableFacts, numbers: list[int]
) -> None:
    """I8: what the newest version had and is there still was there in between. Another column came or went beside."""
    before = announcement("d", "id", "a", "b", "c"), catalogue(("id", 1), ("a", 2), ("b", 3), ("c", 4), last=4)
    assert numbers_of(announcement("d", "id", *told), now, recorded(before)) == [1, *numbers]
    assert uncertain_columns(announcement("d", "id", *told), now, recorded(before)) == []


@pytest.mark.parametrize(("type_oid", "uncertain"), [(TEXT, []), (INT4, ["a"])])
def test_column_made_again_with_another_type_is_none_that_was_renamed(type_oid: int, uncertain: list[str]) -> None:
    """With the type of ``b`` it could be that, renamed for a while: ``b`` would have been ``a`` then."""
    before = announcement("d", "id", "a", "b"), catalogue(("id", 1), ("a", 2), ("b", 3), last=3)
    made, relation = catalogue(("id", 1), ("b", 3), ("a", 4), last=4), announcement("d", "id", "b", "a")
    now = replace(made, columns=(*made.columns[:2], replace(made.columns[2], type_oid=type_oid)))
    told = replace(relation, columns=(*relation.columns[:2], replace(relation.columns[2], type_oid=type_oid)))

    assert numbers_of(told, now, recorded(before)) == [1, 3, 4]
    assert uncertain_columns(told, now, recorded(before)) == uncertain


def test_numbers_are_those_of_the_catalogue_where_all_columns_are_as_they_are_now() -> None:
    """A look at a table that nobody writes tells them so: ``c`` has the name of ``b``, which is gone, and another one
    came."""
    now = catalogue(("id", 1), ("a", 2), ("b", 4), ("x", 5), last=5)
    before = announcement("d", "id", "a", "b", "c"), catalogue(("id", 1), ("a", 2), ("b", 3), ("c", 4), last=4)
    told = announcement("d", "id", "a", "b", "x")
    assert numbers_of(told, now, recorded(before)) == [1, 2, 4, 5]
    assert uncertain_columns(told, now, recorded(before)) == []


def test_generated_column_under_the_name_that_one_had_is_not_that() -> None:
    """I8: it is not published, so nobody was told of its number; also of a relation that is told again."""
    columns = catalogue(("id", 1), ("x", 2), ("a", 3), ("c", 4), last=4).columns
    now = TableFacts("d", (*columns[:2], replace(columns[2], is_generated=True), columns[3]), 4)
    told = announcement("d", "id", "a", "c")
    known = recorded((announcement("d", "id", "a", "b"), catalogue(("id", 1), ("a", 2), ("b", 4), last=4)))
    assert numbers_of(told, now, known) == [1, 2, 4]
    again = recorded((told, catalogue(("id", 1), ("a", 2), ("c", 4), last=4)))
    assert numbers_of(told, now, again) == [1, 2, 4]


def test_column_with_the_name_of_another_that_cannot_be_it_is_uncertain() -> None:
    """I8: a reader goes by names where a number is missing."""
    now = catalogue(("id", 1), ("b", 3), ("x", 4), ("c", 5), ("g", 6), last=6)
    versions = recorded((announcement("d", "id", "a", "b"), catalogue(("id", 1), ("a", 2), ("b", 3), last=3)))
    assert numbers_of(announcement("d", "id", "b", "x", "a"), now, versions) == [1, 3, 4, None]
    assert uncertain_columns(announcement("d", "id", "b", "x", "a"), now, versions) == ["a"]


RENAMED = st.lists(
    st.tuples(st.sampled_from(["add", "generated", "rename", "swap"]), st.integers(0, 5), st.integers(0, 5)), max_size=7
)


@given(RENAMED, st.integers(0, 7))
@settings(max_examples=examples(200), deadline=None)
def test_columns_that_stay_keep_their_numbers_whatever_they_are_called(
    steps: list[tuple[str, int, int]], told_at: int
) -> None:
    """I8. Names come again here, and columns come that are not published."""
    columns = [("id", 1, False), ("a", 2, False), ("b", 3, False), ("c", 4, False)]
    told = columns
    for n, (step, which, other) in enumerate(steps):
        if n == told_at:
            told = columns
        names = [name for name, _, _ in columns]
        spare = next(each for each in ("d", "e", "f", "g", "h", "i", "j", "k") if each not in names)
        one, two = 1 + which % (len(columns) - 1), 1 + other % (len(columns) - 1)
        if step in ("add", "generated"):
            columns = [*columns, (spare, len(columns) + 1, step == "generated")]
            continue
        names[one], names[two] = (spare, names[two]) if step == "rename" or one == two else (names[two], names[one])
        columns = [(name, *each[1:]) for name, each in zip(names, columns, strict=True)]
    facts_of = catalogue(*((name, number) for name, number, _ in columns), last=len(columns))
    kinds = zip(facts_of.columns, columns, strict=True)
    now = replace(facts_of, columns=tuple(replace(each, is_generated=of) for each, (_, _, of) in kinds))
    first = catalogue(("id", 1), ("a", 2), ("b", 3), ("c", 4), last=4)
    versions = recorded((announcement("d", "id", "a", "b", "c"), first))

    relation_told = announcement("d", *(name for name, _, is_generated in told if not is_generated))
    assert numbers_of(relation_told, now, versions)[:4] == [1, 2, 3, 4]


Places = list[tuple[str, int]]
"""Name and attribute number of the columns behind ``id``."""


@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "rename"]), st.integers(0, 5), st.booleans()), max_size=8))
@settings(max_examples=examples(150), deadline=None)
def test_number_is_the_columns_own_or_none_however_late_the_catalogue_is_asked(
    steps: list[tuple[str, int, bool]],
) -> None:
    """I8. Names come once here; what is told is told again after a crash."""
    columns: Places = [("x", 2)]
    last, told = 2, []
    for n, (step, which, is_told) in enumerate(steps):
        at = which % len(columns) if columns else 0
        if step == "add":
            last += 1
            columns = [*columns, (f"n{n}", last)]
        elif columns:
            columns = [*columns[:at], *([(f"n{n}", columns[at][1])] if step == "rename" else []), *columns[at + 1 :]]
        told += [columns] * is_told
    now = catalogue(("id", 1), *columns, last=last)
    cache = RelationCache("p")
    cache.remember(cache.version_of(describe(*COPIED, {}), TOPIC))

    for names in (*told, *told):
        found = describe(announcement("d", "id", *(name for name, _ in names)), now, {}, cache.versions_of(16_384))
        cache.remember(cache.version_of(found, TOPIC))
        true = [1, *(number for _, number in names)]
        assert all(column.attnum in (number, None) for column, number in zip(found.columns, true, strict=True))


Steps = list[tuple[str, int, bool]]
Valued = list[tuple[str, int, str | None]]
"""Name, attribute number, and what older rows have of the columns behind ``id``."""
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "default", "drop", "rename"]), st.integers(0, 5), st.booleans()), max_size=8
)


def history(steps: Steps) -> list[tuple[Valued, int, bool]]:
    """After each step: the columns, the last number that was given, and whether a Relation tells them."""
    columns: Valued = [("x", 2, None)]
    last, found = 2, []
    for n, (step, which, is_told) in enumerate(steps):
        at = which % len(columns) if columns else 0
        if step in ("add", "default"):
            last += 1
            columns = [*columns, (f"n{n}", last, "7" if step == "default" else None)]
        elif columns:
            renamed = [(f"n{n}", *columns[at][1:])] if step == "rename" else []
            columns = [*columns[:at], *renamed, *columns[at + 1 :]]
        found.append((columns, last, is_told))
    return found


def now_of(columns: Valued, last: int) -> TableFacts:
    facts_of = catalogue(("id", 1), *((name, number) for name, number, _ in columns), last=last)
    values = [None, *(value for _, _, value in columns)]
    valued = (replace(each, missing_value=value) for each, value in zip(facts_of.columns, values, strict=True))
    return replace(facts_of, columns=tuple(valued))


@given(STEPS, st.booleans())
@example([("default", 0, True), ("drop", 0, True), ("rename", 0, False)], False)
@settings(max_examples=examples(300), deadline=None)
def test_value_of_older_rows_is_right_or_in_doubt_and_never_in_doubt_for_who_keeps_up(
    steps: Steps, keeps_up: bool
) -> None:
    """I8. Names come once here; who keeps up looks after each step."""
    made, cache = history(steps), RelationCache("p")
    cache.remember(cache.version_of(describe(*COPIED, {}), TOPIC))
    for columns, last, is_told in made:
        if not is_told and not keeps_up:
            continue
        now = now_of(columns, last) if keeps_up else now_of(*made[-1][:2])
        told, versions = announcement("d", "id", *(name for name, _, _ in columns)), cache.versions_of(16_384)
        if uncertain_columns(told, now, versions) or unfilled_columns(told, now, versions):
            assert not keeps_up
            return  # it is copied again
        described = describe(told, now, {}, versions)
        assert [each.missing_value for each in described.columns] == [None, *(value for _, _, value in columns)]
        cache.remember(cache.version_of(described, TOPIC))
