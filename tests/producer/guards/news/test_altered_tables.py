"""Tables whose columns are others than were announced last are told once all of before has come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.producer.relations.announcements import announcement, catalogue, recorded
from walbridge.producer.guards import look_pace
from walbridge.producer.guards.news import altered_tables
from walbridge.producer.guards.news.altered_tables import AlteredTables
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.position import Lsn

ID = 16_384
AB = catalogue(("a", 1), ("b", 2), last=2)
(KNOWN,) = recorded((announcement("f", "a", "b"), AB))


class Looking:
    """One table, announced as ``KNOWN``, and what the catalogue says of it."""

    def __init__(self, now: TableFacts, published: tuple[str, ...] | None = None) -> None:
        self.now, self.insert_lsn, self.descriptions = now, 600, 0
        self.altered_meanwhile: TableFacts | None = None
        """By the time that what is published is asked for."""
        self.names = published if published is not None else tuple(each.name for each in now.columns)
        tables = SimpleNamespace(writers=SimpleNamespace(current_version=lambda _: KNOWN))
        self.altered = AlteredTables(("walbridge",), cast(SqlConnection, None), cast(Tables, tables))

    @contextmanager
    def _seen(self) -> Iterator[None]:
        def published(*_: object) -> Any:
            self.descriptions += 1
            self.now, self.altered_meanwhile = self.altered_meanwhile or self.now, None
            return [PublishedTable(ID, "public", "orders", "f", self.names, None, False)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(altered_tables, "tables_facts", lambda *_: ({ID: self.now}, None))
            patch.setattr(altered_tables, "published_tables_unless_locked", published)
            patch.setattr(altered_tables, "type_facts", lambda *_: {})
            patch.setattr(altered_tables, "insert_lsn", lambda *_: Lsn(self.insert_lsn))
            patch.setattr(look_pace, "time", SimpleNamespace(monotonic=lambda: 1000.0))
            yield

    def look(self) -> AlteredTables:
        with self._seen():
            self.altered.look_if_due([ID], is_altered=True)
        return self.altered


OTHERS = {
    "added": catalogue(("a", 1), ("b", 2), ("c", 3), last=3),
    "dropped": catalogue(("a", 1), last=2),
    "renamed": catalogue(("a", 1), ("c", 2), last=2),
    "swapped": catalogue(("b", 1), ("a", 2), last=2),
    "made again": catalogue(("a", 1), ("b", 3), last=3),
    "of another type": replace(AB, columns=(AB.columns[0], replace(AB.columns[1], typmod=24))),
}


@pytest.mark.parametrize("how", OTHERS)
def test_other_columns_are_told_behind_the_position_that_was_asked_for_after_the_look(how: str) -> None:
    """I8: what was written before may come under the columns of before."""
    altered = Looking(OTHERS[how]).look()

    assert [altered.is_due_at(Lsn(lsn)) for lsn in (599, 600)] == [False, True]
    assert altered.take(Lsn(599)) == {}
    found = altered.take(Lsn(600))
    assert (found[ID].known, found[ID].facts) == (KNOWN, OTHERS[how])
    assert not altered.is_due_at(Lsn(600))


def test_columns_that_are_as_announced_are_not_told() -> None:
    assert not Looking(replace(AB, replica_identity="d")).look().is_due_at(Lsn(10**9))


def test_position_is_that_of_the_look_that_showed_it_first() -> None:
    looking = Looking(OTHERS["renamed"])
    looking.look()
    looking.insert_lsn = 700
    assert looking.look().is_due_at(Lsn(600))


def test_columns_that_were_altered_again_are_told_behind_the_later_look() -> None:
    looking = Looking(OTHERS["renamed"])
    looking.look()
    looking.now, looking.insert_lsn, looking.names = OTHERS["added"], 700, ("a", "b", "c")
    assert not looking.look().is_due_at(Lsn(699))
    assert looking.altered.take(Lsn(700))[ID].facts == OTHERS["added"]


def test_column_that_is_not_published_is_asked_for_once() -> None:
    looking = Looking(OTHERS["added"], published=("a", "b"))
    assert not looking.look().is_due_at(Lsn(10**9))
    looking.look()
    assert looking.descriptions == 1


def test_table_that_is_altered_between_two_questions_waits_for_the_next_look() -> None:
    looking = Looking(OTHERS["added"], published=("a", "b", "d"))
    assert not looking.look().is_due_at(Lsn(10**9))
    looking.names = ("a", "b", "c")
    assert looking.look().is_due_at(Lsn(600))


def test_name_that_goes_to_another_column_between_two_questions_waits_for_the_next_look() -> None:
    """I8: ``c`` is what was ``b``. By both answers together ``b`` would be gone, and ``c`` be what it was."""
    before, after = catalogue(("a", 1), ("b", 2), ("c", 3), last=3), catalogue(("a", 1), ("c", 2), last=3)
    looking = Looking(before, published=("a", "c"))
    looking.altered_meanwhile = after

    assert not looking.look().is_due_at(Lsn(10**9))
    assert looking.look().take(Lsn(600))[ID].facts == after
