"""Which Relations are those of partitions that are published through their root."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from walbridge.producer.pgoutput.messages import Begin
from walbridge.producer.relations.tables import Tables
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


def test_relations_of_tables_that_are_followed_or_no_roots_are_no_partitions() -> None:
    session = Session()
    assert session.roots(ROOT, PLAIN, FOREIGN) == [None, None, None]


def test_partitions_of_transactions_that_are_published_already_are_known() -> None:
    """They were looked at before the first time."""
    assert Session(done=200).roots(ROOT, FOREIGN) == [None, None]
