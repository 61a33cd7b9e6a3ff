"""Which Relations are those of partitions that are published through their root."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.messages import Begin, Relation
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.announced_tables import AnnouncedTables
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.position import Lsn

ROOT, PLAIN, FOREIGN = 1, 2, 9


class Session:
    """Relations and changes of one transaction; a root and a plain table are followed."""

    def __init__(self, done: int = 0) -> None:
        self.transactions = TransactionTracker(Lsn(done), None)
        self.transactions.begin(Begin(Lsn(100), 0, 700))
        self.forgotten: list[int] = []
        versions = SimpleNamespace(newest=lambda ids: [_record(each) for each in ids])
        tables = SimpleNamespace(versions=versions)
        path = SimpleNamespace(forget=self.forgotten.append)
        self.followed = FollowedTables(
            cast(Tables, tables), cast(FastPath, path), self.transactions, frozenset({ROOT, PLAIN})
        )

    def roots(self, *announced: int) -> list[int | None]:
        """What is told of Relations that come one behind the other."""
        return [self.followed.root_of(each) for each in announced]


def _record(relation_id: int) -> Any:
    return SimpleNamespace(table=SimpleNamespace(is_root=relation_id == ROOT))


def test_relation_behind_its_roots_is_that_of_a_partition() -> None:
    """The root's next change is looked at first."""
    session = Session()
    assert session.roots(ROOT, FOREIGN) == [None, ROOT]
    assert session.forgotten == [ROOT]


def test_relation_that_a_change_parts_from_a_roots_is_another_tables() -> None:
    session = Session()
    session.roots(ROOT)
    session.transactions.receive_change(b"c")
    assert session.roots(FOREIGN) == [None]


def test_relation_behind_that_of_no_root_is_no_partition() -> None:
    session = Session()
    assert session.roots(ROOT, PLAIN, FOREIGN) == [None, ROOT, None]


class Announced:
    """The root and the plain table, announced one behind the other."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        facts = SimpleNamespace(announce=lambda _: None, announce_partition=lambda *each: self.told.append(each))
        watch = cast(SourceWatch, SimpleNamespace(stream_facts=facts))
        self.tables = AnnouncedTables(Session().followed, watch)
        for each in (ROOT, PLAIN):
            self.tables.notice(Relation(each, "public", "t", "d", ()))


def test_followed_table_is_a_partition_by_now_where_a_row_of_the_root_comes_behind_it() -> None:
    """I8: attached and detached again before a look, it takes away what came under the root's name."""
    announced = Announced()
    assert announced.told == []
    assert announced.tables.take(ROOT)
    assert announced.told == [(PLAIN, ROOT)]


def test_tables_of_one_truncate_are_no_partitions_of_each_other() -> None:
    announced = Announced()
    announced.tables.truncate()
    assert announced.tables.take(ROOT)
    assert announced.told == []


def test_partitions_of_transactions_that_are_published_already_are_known() -> None:
    """They were looked at before the first time."""
    assert Session(done=200).roots(ROOT, FOREIGN) == [None, None]
