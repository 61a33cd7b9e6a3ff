"""Rows behind a look that found new labels: which of them hold a text that is no label any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.producer.kept import CONNECTION
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.guards.doubts.altered_types import new_facts
from walbridge.producer.guards.doubts.new_labels import NewLabels, tuples_of
from walbridge.producer.pgoutput.messages import Binary, Delete, Insert, Unsent, Update
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.schemas.pg_types import TypeFacts, column_type
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import Column, TableSchema

TABLE, INT, ENUM, ENUMS, DOMAIN = 16_400, 23, 600_001, 600_002, 600_003
BEFORE = TableStorage((TableFile(TABLE, TABLE, 0, 2),), frozenset({"600001-a"}))
NOW = replace(BEFORE, labels=frozenset({"600001-a", "600001-b"}))
TYPES = {
    ENUM: TypeFacts(ENUM, "public", "mood", "e", ("sad", "later")),
    ENUMS: TypeFacts(ENUMS, "public", "_mood", "a", element_type=ENUM),
    DOMAIN: TypeFacts(DOMAIN, "public", "feeling", "d", base_type=ENUM),
}


class Labels(NewLabels):
    """Asked when the server's WAL stands at 500; ``asked``: how often the catalogue was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(CONNECTION, lambda: Lsn(500))
        self.types, self.asked, self.told = dict(TYPES), 0, list[int]()
        self.on_noted = self.told.append

        def type_facts(*_: Any) -> dict[int, TypeFacts]:
            self.asked += 1
            return self.types

        monkeypatch.setattr(catalog, "type_facts", type_facts)

    def see(self, now: TableStorage) -> set[int]:
        return self.compare({TABLE: BEFORE}, {TABLE: now})


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> Labels:
    return Labels(monkeypatch)


def table(*type_oids: int) -> TableSchema:
    columns = (Column(f"c{n}", of, "t", -1, column_type(of, -1, TYPES)) for n, of in enumerate(type_oids))
    return TableSchema(TABLE, "public", "t", "d", tuple(columns))


def test_rows_are_looked_at_until_the_stream_has_passed_the_look(labels: Labels) -> None:
    """I8: until then progress keeps what it has, so that a start finds the same; it asks no longer than that."""
    assert labels.see(NOW) == {TABLE}
    assert labels.told == [TABLE]
    assert [labels.awaits(TABLE, Lsn(at)) for at in (499, 500)] == [True, False]
    labels.pass_to(Lsn(499))
    assert labels.see(NOW) == {TABLE}
    labels.pass_to(Lsn(500))
    assert labels.see(NOW) == set()
    assert not labels.awaits(TABLE, Lsn(499))
    assert labels.told == [TABLE]


def test_each_new_label_is_noted(labels: Labels) -> None:
    labels.see(NOW)
    labels.pass_to(Lsn(500))
    assert labels.see(replace(NOW, labels=NOW.labels | {"600001-c"})) == {TABLE}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BEFORE, BEFORE),
        (BEFORE, replace(BEFORE, labels=BEFORE.labels | {"7-a"})),
        (replace(BEFORE, files=()), NOW),
        (replace(BEFORE, knows_labels=False), NOW),
    ],
    ids=["as it was", "of a type that is new to the table", "never looked at", "by earlier code"],
)
def test_nothing_is_noted_of_a_table_that_has_no_new_label(before: TableStorage, now: TableStorage) -> None:
    assert not new_facts(before, now)


@pytest.mark.parametrize(
    ("of", "value", "known"),
    [
        (ENUM, b"later", True),
        (ENUM, b"late", False),
        (ENUM, Binary(b"later"), True),
        (ENUM, Binary(b"late"), False),
        (ENUM, Unsent("n"), True),
        (DOMAIN, b"late", False),
        (DOMAIN, b"sad", True),
        (ENUMS, b"{sad,NULL,later}", True),
        (ENUMS, b'{sad,"late"}', False),
        (ENUMS, b"{{late}}", True),
        (INT, b"7", True),
    ],
)
def test_text_that_is_no_label_is_told(labels: Labels, of: int, value: Any, *, known: bool) -> None:
    """But for arrays of several dimensions: limits say so."""
    labels.see(NOW)
    assert labels.are_known(table(INT, of), [tuple_data(b"1", value)]) is known


def test_label_that_came_behind_the_look_is_asked_for(labels: Labels) -> None:
    """It is in the row as it is called."""
    labels.see(NOW)
    assert labels.are_known(table(ENUM), [tuple_data(b"sad")])
    labels.types[ENUM] = replace(TYPES[ENUM], enum_labels=("sad", "later", "newest"))
    assert labels.are_known(table(ENUM), [tuple_data(b"newest")])
    assert labels.are_known(table(ENUM), [tuple_data(b"sad")])
    assert labels.asked == 2


def test_type_that_is_gone_leaves_nothing_to_compare(labels: Labels) -> None:
    """Its column is gone as well."""
    labels.see(NOW)
    labels.types = {}
    assert labels.are_known(table(ENUM), [tuple_data(b"late")])


def test_all_tuples_of_a_change_are_looked_at() -> None:
    assert tuples_of(Insert(TABLE, b"n")) == [b"n"]
    assert tuples_of(Update(TABLE, b"k", None, b"n")) == [b"n", b"k"]
    assert tuples_of(Update(TABLE, None, b"o", b"n")) == [b"n", b"o"]
    assert tuples_of(Delete(TABLE, b"k", None)) == [b"k"]
