"""A generated column that became a plain one puts its table in doubt: what rows hold in it was never sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.producer.guards.test_source_watch import END, Watched
from tests.producer.kept import ITEMS, ORDERS
from walbridge.producer.guards.doubts.columns import dropped_expressions
from walbridge.producer.guards.doubts.rewrites import as_text, from_text
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.schemas.pg_types import TypeFacts

STORAGE = TableStorage((TableFile(ORDERS, ORDERS, 0, 4),))


class Generated(Watched):
    """A session that knows a table with unpublished generated columns; ``plain``: numbers of those that are none."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.plain: set[int] = set()
        self.asked: list[Mapping[int, Iterable[int]]] = []
        self.withhold(*numbers)
        self.open()

    @contextmanager
    def seen(self, types: dict[int, TypeFacts] | None = None) -> Iterator[None]:
        with super().seen(types), pytest.MonkeyPatch.context() as patch:
            patch.setattr(dropped_expressions, "plain_columns", self._plain_columns)
            yield

    def withhold(self, *numbers: int) -> None:
        self.storages[ORDERS] = replace(STORAGE, withheld=frozenset(numbers))

    def is_doubted(self) -> bool:
        self.look()
        doubted = self.watched.doubts.take(END)
        assert all("a generated column of table public.orders" in str(each) for each in doubted.values())
        assert ITEMS not in doubted
        return ORDERS in doubted

    @property
    def remembered(self) -> frozenset[int]:
        return from_text(str(self.tracker.progress.tables[ORDERS].storage)).withheld

    def _plain_columns(self, _: object, numbers: Mapping[int, Iterable[int]], __: object) -> set[int]:
        self.asked.append(numbers)
        return {each for each, of in numbers.items() if self.plain & set(of)}


def test_column_that_is_generated_no_more_is_a_doubt_until_its_table_is_copied() -> None:
    """I8: the lake has null in rows that were there; no file, key or count of the table is another one."""
    watched = Generated(3, 4)
    assert not watched.is_doubted()
    watched.plain = {3}
    watched.withhold(4)
    assert watched.is_doubted()
    assert watched.remembered == {3, 4}
    assert watched.is_doubted()
    assert watched.asked == [{ORDERS: {3}}] * 2


def test_column_that_is_gone_or_published_as_generated_is_no_doubt() -> None:
    watched = Generated(3, 4)
    watched.withhold(4)
    assert not watched.is_doubted()
    assert watched.remembered == {4}


def test_column_of_which_earlier_code_wrote_nothing_is_no_doubt_and_remembered_from_then_on() -> None:
    watched = Generated(3, 4)
    table = watched.tracker.progress.tables[ORDERS]
    watched.tracker.remember_tables({ORDERS: replace(table, storage=as_text(STORAGE))})
    watched.plain = {3}
    watched.withhold(4)
    assert not watched.is_doubted()
    assert watched.remembered == {4}
    assert watched.asked == []
