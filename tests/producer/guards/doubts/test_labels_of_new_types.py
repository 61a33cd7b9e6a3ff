"""Names of labels in columns of a type that the table did not have at the look before."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import pytest

from tests.producer.guards.doubts.labelled_rows import BEFORE, ENUM, NOW, TABLE, Session
from walbridge.producer.encoding.label_texts import Use
from walbridge.schemas.position import Lsn


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(monkeypatch)


def with_new_type(monkeypatch: pytest.MonkeyPatch, doubted: Set[int] = frozenset()) -> Session:
    """A look found the enum in a table that had a column of another type before; a transaction wrote two labels."""
    session = Session(monkeypatch, replace(BEFORE, labels=frozenset({"7-a"})))
    session.names = {"late": 100, "later": 100}
    session.wrote_before |= {"late", "later"}
    labels = {"7-a", f"{ENUM}-late", f"{ENUM}-later", f"{ENUM}-by100"}
    session.see(replace(BEFORE, labels=frozenset(labels)), doubted)
    if doubted:
        session.become(replace(BEFORE, labels=frozenset(labels)))
    return session


def test_name_is_certain_of_a_type_that_came_with_a_column_and_was_not_altered_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever wrote the row: all rows with that column are behind the label."""
    session = with_new_type(monkeypatch)
    assert session.bring("late", Use(90, Lsn(1)))
    assert session.bring("later", Use(100, Lsn(1)))


def test_name_is_not_certain_of_a_type_that_may_have_been_altered_behind_its_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I8"""
    assert not with_new_type(monkeypatch, doubted={TABLE}).bring("late", Use(100, Lsn(1)))


def test_name_that_another_label_got_since_the_look_at_a_new_type_is_not_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I8"""
    session = with_new_type(monkeypatch)
    session.names = {"late": 102, "latest": 101, "later": 100}
    assert not session.bring("late", Use(101, Lsn(1)))


def test_type_that_is_new_is_remembered_at_once_where_a_new_label_of_another_type_is_not(session: Session) -> None:
    """I8: a later look could not tell any more what was altered since this one."""
    new = frozenset({"9-x", "9-by100"})
    assert session.see(replace(NOW, labels=NOW.labels | new)) == {TABLE}
    assert session.known.labels == BEFORE.labels | new


def test_type_that_is_new_is_not_remembered_of_a_table_in_doubt(session: Session) -> None:
    """I7: a start finds the same doubt."""
    session.see(replace(NOW, labels=NOW.labels | {"9-x"}), doubted={TABLE})
    assert session.known.labels == BEFORE.labels
