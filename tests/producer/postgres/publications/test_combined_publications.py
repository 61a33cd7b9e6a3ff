"""How several publications combine, without a server; with one: tests/integration/test_combined_publications.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.producer.postgres.facts import Membership
from walbridge.producer.postgres.publications.combined_publications import (
    OPERATIONS,
    UNDER_OTHER_NAME,
    FoundMember,
    archived_operations,
    changed_members,
    filters_of,
    generated_columns_text,
    has_version,
    have_one_filter,
    have_one_list,
    is_archivable,
    membership_text,
    missing_operations,
    named_in_stream,
    operations_in,
    row_filter_of,
    without_version,
)

ALL = OPERATIONS
ROWS = ("insert", "update", "delete")


def member(row_filter: str | None = None, operations: tuple[str, ...] = ALL, columns: str = "ab") -> Membership:
    return Membership("p", operations, tuple(columns), row_filter, frozenset(columns))


memberships = st.lists(
    st.builds(
        member,
        st.sampled_from([None, "(id > 5)", "(a = 1)"]),
        st.sets(st.sampled_from(ALL)).map(lambda found: tuple(each for each in ALL if each in found)),
        st.sampled_from(["ab", "ba", "abc"]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ([member("(id > 5)")], "(id > 5)"),
        ([member("(id > 5)"), member("(a = 1)")], "((a = 1)) OR ((id > 5))"),
        ([member("(id > 5)"), member("(id > 5)")], "(id > 5)"),
        ([member("(id > 5)"), member()], None),
        ([member("(id > 5)"), member(None, ("truncate",))], "(id > 5)"),
        ([member(None, ("update", "delete"))], None),
    ],
)
def test_rows_are_those_that_one_filter_lets_through_and_all_where_one_has_none(
    members: list[Membership], wanted: str | None
) -> None:
    assert row_filter_of(members) == wanted


@given(memberships)
def test_order_of_publications_does_not_matter(members: list[Membership]) -> None:
    turned = members[::-1]

    assert row_filter_of(members) == row_filter_of(turned)
    assert filters_of(members) == filters_of(turned)
    assert (have_one_list(members), missing_operations(members)) == (have_one_list(turned), missing_operations(turned))


@given(memberships)
def test_operation_is_filtered_by_the_publications_that_publish_it(members: list[Membership]) -> None:
    for operation in ROWS:
        of = [each.row_filter for each in members if operation in each.operations]
        wanted = None if None in of else frozenset(each for each in of if each is not None)
        assert filters_of(members).get(operation, "no such") == (wanted if of else "no such")


def test_filters_that_differ_by_operation_are_told() -> None:
    """I8: rows of a copy would come and never go."""
    assert have_one_filter([member("(id > 5)"), member("(a = 1)")])
    assert have_one_filter([member("(id > 5)"), member(None, ("truncate",))])
    assert not have_one_filter([member("(id > 5)"), member(None, ("update",))])
    assert not have_one_filter([member("(id > 5)", ("insert", "update")), member("(a = 1)")])


def test_columns_are_the_same_whatever_their_order() -> None:
    assert have_one_list([member(columns="ab"), member(columns="ba")])
    assert not have_one_list([member(columns="ab"), member(columns="abc")])


def test_operation_that_none_publishes_is_missing() -> None:
    assert missing_operations([member(None, ("insert",)), member(None, ("delete",))]) == ("update", "truncate")


def test_partition_is_sent_as_the_topmost_of_its_parents_that_is_published() -> None:
    """I4: else it would come twice."""
    assert named_in_stream({1: [], 2: [1], 3: [2, 1], 4: [9]}) == {1, 4}


OWN = FoundMember(16400, ALL, "1+2", is_below_root=False, is_unnamed=False)
OTHER = FoundMember(16300, ("insert",), "*", is_below_root=False, is_unnamed=False)
NO_MEMBER = FoundMember(16200, ALL, None, is_below_root=False, is_unnamed=False)
BELOW_ROOT = FoundMember(16500, ALL, "3", is_below_root=True, is_unnamed=False)
UNNAMED = FoundMember(16600, ALL, "4", is_below_root=False, is_unnamed=True)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([NO_MEMBER], None),
        ([OWN, NO_MEMBER], "16400=insert,update,delete,truncate=1+2"),
        ([OWN, OTHER], "16300=insert=* 16400=insert,update,delete,truncate=1+2"),
        ([OWN, BELOW_ROOT], UNDER_OTHER_NAME),
        ([OWN, UNNAMED], "16400=insert,update,delete,truncate=1+2"),
        ([UNNAMED, NO_MEMBER], UNDER_OTHER_NAME),
    ],
)
def test_membership_is_told_of_all_publications_that_name_the_table(
    found: list[FoundMember], wanted: str | None
) -> None:
    """I7: what one of them publishes is part of it, since others may publish the rest."""
    assert membership_text(found, is_single=False) == wanted


def test_membership_of_a_single_publication_is_told_as_ever() -> None:
    """I7: progress of earlier code is compared with it."""
    assert membership_text([OWN], is_single=True) == "1+2"


def test_publications_that_changed_are_told() -> None:
    before = str(membership_text([OWN, OTHER], is_single=False))
    without = str(membership_text([OWN], is_single=False))

    assert changed_members(before, before) == set()
    assert changed_members(before, without) == {16300}
    assert changed_members(before, UNDER_OTHER_NAME) == {16300, 16400}
    assert changed_members("1+2", "3") == set()


def test_publication_that_was_written_anew_is_told_unless_earlier_code_knew_no_version() -> None:
    """I7."""
    now = str(membership_text([replace(OWN, version="790"), replace(OTHER, version="700")], is_single=False))
    before = str(membership_text([replace(OWN, version="754"), replace(OTHER, version="700")], is_single=False))
    earlier = str(membership_text([OWN, OTHER], is_single=False))

    assert without_version(now) == without_version(before) == earlier
    assert (has_version(now), has_version(earlier), has_version(UNDER_OTHER_NAME)) == (True, False, True)
    assert without_version(UNDER_OTHER_NAME) == UNDER_OTHER_NAME
    assert changed_members(before, now) == {16400}
    assert changed_members(earlier, now) == set()


def test_generated_columns_are_told_of_each_of_several_publications() -> None:
    assert generated_columns_text({16400: "s"}) == "s"
    assert generated_columns_text({16400: "s", 16300: "n"}) == "16300=n 16400=s"


@pytest.mark.parametrize(
    ("publish", "archived", "is_archive"),
    [
        ([ALL], None, True),
        ([("insert",)], ("insert",), True),
        ([("insert", "truncate")], ("insert", "truncate"), True),
        ([("insert", "update")], ("insert", "update"), True),
        ([("insert", "update", "delete")], ("insert", "update", "delete"), True),
        ([("insert",), ("update", "delete", "truncate")], None, True),
        ([("insert", "delete")], ("insert", "delete"), False),
        ([("update", "delete")], ("update", "delete"), False),
        ([()], None, False),
    ],
)
def test_archive_takes_inserts_at_least_and_deletes_beside_updates_alone(
    publish: list[tuple[str, ...]], archived: tuple[str, ...] | None, is_archive: bool
) -> None:
    """A row must be there before it is changed, and must be deleted as it is there."""
    members = [member(operations=operations) for operations in publish]

    assert archived_operations(members) == archived
    assert is_archivable(members) == is_archive


@pytest.mark.parametrize("operations", [ALL, ROWS, ("insert",), ("insert", "update")])
@pytest.mark.parametrize("is_single", [True, False])
def test_membership_tells_which_operations_come(operations: tuple[str, ...], is_single: bool) -> None:
    found = [FoundMember(7, operations, "5+6", is_below_root=False, is_unnamed=False, version="42")]
    text = membership_text(found, is_single=is_single)

    assert text is not None
    assert operations_in(text) == (None if operations == ALL else operations)
    assert operations_in(without_version(text)) == operations_in(text)
    assert operations_in("*@42") is operations_in(UNDER_OTHER_NAME) is operations_in(None) is None
    both = membership_text([*found, FoundMember(8, ("delete", "truncate"), "9", False, False)], is_single=False)
    assert operations_in(both) == (
        None if "update" in operations else tuple(each for each in ALL if each in {*operations, "delete", "truncate"})
    )
