"""What tables are called, and which topics they have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.kept import ITEMS, ORDERS, relation
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.table_names import TableNames, first_topics, refuse_names_alike
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.topics import TOPIC_NAME_LENGTH_MAX, free_path, free_topic, is_same_topic

PUBLISHED = PublishedTable(ORDERS, "public", "orders", "d", ("id",), None, is_partitioned=False)
OLD, NEW = relation(ORDERS), relation(ORDERS, name="archive")


def test_relation_counts_under_the_name_that_it_was_announced_with() -> None:
    names = TableNames()

    assert [names.receive(each) for each in (OLD, NEW, OLD)] == [OLD, NEW, OLD]


def test_relation_that_is_read_again_counts_under_the_name_that_was_told_since() -> None:
    """Until Postgres 16 a renamed schema brings no Relation."""
    names = TableNames()
    names.receive(OLD)
    names.rename(ORDERS, ("other", "orders"))

    assert [names.receive(OLD) for _ in range(2)] == [replace(OLD, namespace="other")] * 2


@pytest.mark.parametrize("then", ["announced", "told"])
def test_name_that_was_told_counts_no_more_once_there_is_a_newer_one(then: str) -> None:
    names = TableNames()
    names.receive(OLD)
    names.rename(ORDERS, ("public", "third"))
    if then == "told":
        names.rename(ORDERS, ("public", "orders"))
    else:
        names.receive(NEW)

    assert names.receive(OLD) == OLD


def test_name_that_is_told_of_a_table_without_a_relation_holds_until_one_comes() -> None:
    names = TableNames()
    names.rename(ORDERS, ("public", "archive"))

    assert names.receive(OLD) == OLD


@pytest.mark.parametrize("names", [("orders", "items"), ("a.b", "b.a"), ("a", "public.a")])
def test_tables_of_other_names_are_told_apart(names: tuple[str, str]) -> None:
    one, other = (replace(PUBLISHED, name=each) for each in names)
    refuse_names_alike([one, other, one])


def test_tables_that_every_message_would_call_the_same_are_refused() -> None:
    """I7: the lake's readers find one of them under that name."""
    one, other = (replace(PUBLISHED, namespace=each, name=name) for each, name in (("a.b", "c"), ("a", "b.c")))
    with pytest.raises(OperatorError, match=r'tables "a.b"."c" and "a"."b.c" would both be called a.b.c') as refused:
        refuse_names_alike([one, other])
    assert refused.value.remedy == "rename one of them, or take it out of the publication"

    refuse_names_alike([one, replace(other, name="b.d")])
    refuse_names_alike([one])


def test_tables_of_a_copy_keep_their_topics_and_the_others_get_free_ones() -> None:
    """``orders`` was renamed to ``archive``, and another table has its name."""
    named = {ORDERS: "p.public.archive", ITEMS: "p.public.orders", 3: "p.public.orders_2"}

    assert first_topics(named, {ORDERS: "p.public.orders"}, ["p.messages"]) == {
        ORDERS: "p.public.orders",
        ITEMS: "p.public.orders_3",
        3: "p.public.orders_2",
    }


@pytest.mark.parametrize("names", [("p.a.b_c", "p.a_b.c"), ("p.messages", "p.a.b")])
def test_names_that_want_one_topic_are_refused_before_a_copy(names: tuple[str, str]) -> None:
    """I7: here an operator can choose."""
    with pytest.raises(OperatorError, match=r"\[topics\.names\]"):
        first_topics(dict(enumerate(names)), {}, ["p.messages"])


_TOPICS = st.lists(st.sampled_from(["a", "b", "a.b", "a_b", "a_2", "a.b_2"]), max_size=8)


@given(_TOPICS)
def test_topics_and_paths_that_come_one_after_another_never_meet(wanted: list[str]) -> None:
    topics: list[str] = []
    paths: list[str] = []
    for each in wanted:
        topics.append(free_topic(each, topics))
        paths.append(free_path(each, paths))

    assert not [(one, other) for i, one in enumerate(topics) for other in topics[:i] if is_same_topic(one, other)]
    assert len({*paths}) == len(paths)
    assert all(topic.startswith(each) for topic, each in zip(topics, wanted, strict=True))


@given(st.dictionaries(st.integers(0, 9), st.sampled_from(["a.b", "c", "a_2", "c_2"]), max_size=4), _TOPICS)
def test_topics_of_a_copy_never_meet(own: dict[int, str], wanted: list[str]) -> None:
    kept: dict[int, str] = {}
    for relation_id, topic in own.items():
        kept[relation_id] = free_topic(topic, kept.values())
    named = {**{each: f"x{each}" for each in kept}, **dict(enumerate(wanted, start=10))}
    try:
        topics = [*first_topics(named, kept, []).values()]
    except OperatorError:
        return

    assert not [(one, other) for i, one in enumerate(topics) for other in topics[:i] if is_same_topic(one, other)]


def test_name_that_is_too_long_with_its_suffix_is_cut() -> None:
    """One table's name stops nobody."""
    topics, paths = ["t" * TOPIC_NAME_LENGTH_MAX], ["s/" + "t" * 255]
    for _ in range(12):
        topics.append(free_topic(topics[0], topics))
        paths.append(free_path(paths[0], paths))

    assert len({*topics}) == len({*paths}) == 13
    assert all(len(topic) <= TOPIC_NAME_LENGTH_MAX and topic.startswith("t" * 99) for topic in topics)
    assert all(len(path) <= len(paths[0]) and path.startswith("s/" + "t" * 99) for path in paths)
