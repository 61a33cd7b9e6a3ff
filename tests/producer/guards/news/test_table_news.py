"""What looks found out about tables, and when the stream has brought all that was before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.producer.kept import ITEMS, ORDERS
from walbridge.producer.guards.news.altered_tables import AlteredTable, AlteredTables
from walbridge.producer.guards.news.table_news import TableNews
from walbridge.schemas.position import Lsn

END = Lsn(10**6)


class Altered:
    """Stands for the look at columns: one table is altered from an LSN on."""

    def __init__(self, since: int | None = None) -> None:
        self.since = since

    def is_due_at(self, lsn: Lsn) -> bool:
        return self.since is not None and self.since <= lsn

    def take(self, lsn: Lsn) -> dict[int, AlteredTable]:
        return {ORDERS: cast(AlteredTable, SimpleNamespace())} if self.is_due_at(lsn) else {}


def news(altered: Any = None) -> TableNews:
    return TableNews(cast(AlteredTables, altered or Altered()))


def test_table_that_the_catalogue_lacks_leaves_at_once_and_is_known_as_missing() -> None:
    """I8: it may have been altered before it was dropped."""
    told = news()
    told.note_missing({ORDERS})

    assert told.missing_in_catalogue == {ORDERS}
    assert [told.take_dropped(Lsn(0)) for _ in range(2)] == [{ORDERS}, set()]


def test_tables_that_came_are_told_once() -> None:
    told = news()
    told.appeared |= {ORDERS, ITEMS}

    assert [told.take_appeared() for _ in range(2)] == [{ORDERS, ITEMS}, set()]


def test_cut_waits_for_altered_tables_as_for_renamed_ones() -> None:
    altered, renamed = news(Altered(600)), news()
    renamed.names.note_look({ORDERS: ("public", "archive")}, Lsn(600), lambda relation_id: ("public", "orders"))

    assert [altered.is_renamed_at(Lsn(lsn)) for lsn in (599, 600)] == [False, True]
    assert [renamed.is_renamed_at(Lsn(lsn)) for lsn in (599, 600)] == [False, True]
    assert (altered.take_renamed(END), [*altered.take_altered(END)]) == ({}, [ORDERS])
    assert (renamed.take_renamed(END), [*renamed.take_altered(END)]) == ({ORDERS: ("public", "archive")}, [])
