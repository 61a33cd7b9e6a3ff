"""A primary key that was dropped and made again puts its table in doubt, where the stream does not tell the key."""

from __future__ import annotations

from dataclasses import replace

from tests.producer.guards.test_source_watch import END, Watched
from tests.producer.kept import INT4, ITEMS, ORDERS, TEXT, XID, catalogue, relation
from walbridge.producer.guards.doubts.rewrites import as_text, from_text
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts, TableFile, TableStorage
from walbridge.schemas.position import Lsn

FIRST, SECOND = 30_001, 30_002


class Keyed(Watched):
    """A session that knows a table with a key; what it published ends below where the WAL stands."""

    def __init__(self, identity: str = "f", *, is_keyed: bool = True) -> None:
        super().__init__(announced=(ITEMS,))
        self.identity, self.is_keyed = identity, is_keyed
        self.announced()
        self.key(FIRST)
        self.open()

    def announced(self) -> None:
        """The stream announces the table; the catalogue has this key."""
        note = ColumnFacts("note", TEXT, -1, 2, True, False, self.identity == "f", None)
        key = ColumnFacts("id", INT4, -1, 1, False, self.is_keyed, self.identity != "n", None)
        with catalogue({ORDERS: TableFacts(self.identity, (key, note), 2)}):
            self.tables.receive(relation(identity=self.identity), (ORDERS,), XID)

    def key(self, constraint: int) -> None:
        self.storages[ORDERS] = TableStorage((TableFile(ORDERS, ORDERS, 0, 2),), key=constraint)

    def is_doubted_when_announced(self) -> bool:
        self.announced()
        with self.seen():
            self.watched.look_at(ORDERS, XID)
        return ORDERS in self.watched.doubts.take(END)

    def forget_key(self) -> None:
        """Progress is as earlier code wrote it."""
        table = self.tracker.progress.tables[ORDERS]
        storage = replace(from_text(str(table.storage)), key=None)
        self.tracker.remember_tables({ORDERS: replace(table, storage=as_text(storage))})

    @property
    def remembered(self) -> int | None:
        return from_text(str(self.tracker.progress.tables[ORDERS].storage)).key

    def publish_up_to(self, end_lsn: Lsn) -> None:
        self.tracker.committed(replace(self.tracker.progress, end_lsn=end_lsn))


def test_changes_that_come_before_the_look_that_shows_another_key_are_a_doubt() -> None:
    """I8: while there was none rows may have been equal in it."""
    watched = Keyed()
    assert not watched.is_doubted_when_announced()
    watched.key(SECOND)
    watched.look()
    assert not watched.watched.doubts.take(END)
    assert watched.remembered == FIRST
    assert watched.is_doubted_when_announced()


def test_key_that_was_away_at_a_look_and_is_back_when_the_table_is_announced_is_a_doubt() -> None:
    watched = Keyed()
    watched.key(0)
    watched.look()
    assert watched.remembered == FIRST
    watched.key(SECOND)
    assert watched.is_doubted_when_announced()


def test_key_that_comes_back_behind_a_look_that_showed_none_is_a_doubt() -> None:
    """I8: the stream had passed that look, so that no key is remembered; no version without one was announced."""
    watched = Keyed()
    watched.key(0)
    watched.look()
    watched.publish_up_to(watched.insert_lsn)
    watched.look()
    assert watched.remembered == 0
    watched.insert_lsn = Lsn(watched.insert_lsn + 100)
    watched.key(SECOND)
    assert watched.is_doubted_when_announced()


def test_key_of_which_earlier_code_wrote_nothing_is_no_doubt() -> None:
    watched = Keyed()
    watched.forget_key()
    watched.key(SECOND)
    assert not watched.is_doubted_when_announced()


def test_changes_behind_that_look_are_of_a_time_with_the_key() -> None:
    watched = Keyed()
    watched.key(SECOND)
    watched.look()
    watched.publish_up_to(watched.insert_lsn)
    assert not watched.is_doubted_when_announced()
    assert watched.remembered == SECOND


def test_key_that_the_stream_tells_or_that_the_table_has_not_is_no_doubt() -> None:
    for watched in (Keyed("d"), Keyed(is_keyed=False)):
        watched.key(SECOND)
        assert not watched.is_doubted_when_announced()
