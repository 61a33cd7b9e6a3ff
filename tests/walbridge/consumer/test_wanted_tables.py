"""Which tables a reader's names mean: pure, over relations that a reader has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from walbridge.consumer.relations import Relations
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.errors import OperatorError

A, B = 0, 1
"""Numbers of two tables."""


def relations(names: dict[str, set[int]], topics: dict[int, list[str]]) -> Relations:
    """``topics``: of each table in their order; the last one is the current one."""
    newest = {
        table: SimpleNamespace(topic=of[-1], table=SimpleNamespace(relation_id=16_384 + table))
        for table, of in topics.items()
    }
    ever = {table: dict.fromkeys(of) for table, of in topics.items()}
    return cast(Relations, SimpleNamespace(names=names, newest=newest, topics=ever))


def test_table_in_public_is_named_without_its_schema() -> None:
    wanted = WantedTables(relations({"public.a": {A}, "b.a": {B}}, {A: ["p.public.a"], B: ["p.b.a"]}), ["a"])
    assert wanted.topics == {"p.public.a"}


def test_name_that_no_table_ever_had_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(OperatorError, match=r"no table public\.none") as refused:
        WantedTables(relations({"public.a": {A}}, {A: ["p.public.a"]}), ["none"])
    assert "public.a" in refused.value.remedy


def test_events_of_another_relation_in_the_topic_are_not_wanted() -> None:
    wanted = WantedTables(relations({"public.a": {A}, "public.b": {B}}, {A: ["p.a"], B: ["p.a"]}), ["a"])
    assert wanted.has(16_384 + A, "p.a")
    assert not wanted.has(16_384 + B, "p.a")
    assert not wanted.has(16_384 + A, "p.other")


def test_table_that_takes_a_name_later_is_wanted_once_it_is_read() -> None:
    read = relations({"public.a": {A}}, {A: ["p.a"], B: ["p.b"]})
    wanted = WantedTables(read, ["a"])
    read.names["public.a"].add(B)
    wanted.refresh()
    assert wanted.topics == {"p.a", "p.b"}


def test_earlier_topics_come_before_a_tables_current_one() -> None:
    wanted = WantedTables(relations({"public.a": {A}}, {A: ["p.a", "p.a.2", "p.a.3"]}), ["a"])
    assert wanted.topic_histories == [["p.a", "p.a.2", "p.a.3"]]
    assert wanted.topics_before("p.a.3") == {"p.a", "p.a.2"}
    assert wanted.topics_ever == {"p.a", "p.a.2", "p.a.3"}


def test_topic_that_is_current_for_another_table_is_no_earlier_one() -> None:
    wanted = WantedTables(relations({"public.a": {A, B}}, {A: ["p.b", "p.a"], B: ["p.b"]}), ["a"])
    assert wanted.topics_before("p.a") == set()
