"""Which columns make the key of a relation's version, by what the stream and the catalogue say."""

from dataclasses import replace

import pytest

from tests.producer.relations.announcements import AB, announcement, catalogue, facts, recorded, relation
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.relations.table_description import describe


def key_of(announcement: Relation, known: TableFacts | None) -> list[str]:
    return [each.name for each in describe(announcement, known, {}).key_columns]


@pytest.mark.parametrize("identity", ["d", "i"])
def test_key_is_what_the_stream_flags_where_old_rows_hold_no_more(identity: str) -> None:
    """The catalogue may have another primary key by now, or beside USING INDEX."""
    assert key_of(relation(identity, False, True, True), facts(identity, True, False, False)) == ["b", "c"]


@pytest.mark.parametrize("identity", ["f", "n"])
def test_key_is_the_primary_key_under_full_and_nothing(identity: str) -> None:
    flags = [identity == "f"] * 3

    assert key_of(relation(identity, *flags), facts(identity, True, False, False)) == ["a"]


@pytest.mark.parametrize("known", [None, facts("f", False, False)], ids=["unknown to the catalogue", "no primary key"])
def test_table_without_primary_key_has_no_key_under_full(known: TableFacts | None) -> None:
    assert key_of(relation("f", True, True), known) == []


def test_identity_without_flagged_columns_leaves_no_key() -> None:
    assert key_of(relation("d", False, False), facts("d", False, False)) == []


def test_primary_key_that_is_not_published_whole_is_no_key() -> None:
    """Half a key would make one row of several."""
    known = facts("f", True, True, False)
    announcement = replace(relation("f", True, True, True), columns=relation("f", True, True, True).columns[1:])

    assert key_of(announcement, known) == []


@pytest.mark.parametrize("identity", ["f", "n"])
def test_key_that_only_the_catalogue_tells_is_never_gained(identity: str) -> None:
    """I8: rows before it may be equal in it, and the stream does not say which are."""
    told = announcement(identity, "a", "b")
    versions = recorded((told, catalogue(("a", 1), ("b", 2), last=2)))

    assert describe(told, AB, {}, versions).key_columns == ()


@pytest.mark.parametrize(("partitions", "key"), [(1, []), (2, ["b"]), (4, ["b"])])
def test_key_that_was_replaced_is_taken_only_where_rows_need_one_for_their_order(
    partitions: int, key: list[str]
) -> None:
    """I3 before I8: over several partitions rows without a key have no order."""
    told = announcement("f", "a", "b")
    versions = recorded((told, AB), partitions=partitions)
    now = catalogue(("a", 1), ("b", 2), primary=["b"], last=2)

    assert [column.name for column in describe(told, now, {}, versions).key_columns] == key


@pytest.mark.parametrize(
    "now",
    [AB, catalogue(("id", 1), ("b", 2), primary=["id"], last=2), None],
    ids=["as it was", "its column renamed since", "table dropped since"],
)
def test_key_of_the_catalogue_stays_the_key(now: TableFacts | None) -> None:
    told = announcement("f", "a", "b")

    found = describe(told, now, {}, recorded((told, AB), partitions=4))

    assert [column.name for column in found.key_columns] == ["a"]
