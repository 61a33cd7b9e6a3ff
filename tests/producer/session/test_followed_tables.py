"""Which Relations are those of partitions that are published through their root."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.messages import Begin, Relation, RelationColumn
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.announced_tables import AnnouncedTables
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.errors import OperatorError
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
        found = [self.followed.root_of(Relation(each, "public", "t", "d", ())) for each in announced]
        return [None if root is None else root.relation_id for root in found]


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
    """The root and another table, announced one behind the other."""

    def __init__(self, other: int = PLAIN, identities: str = "dd", key: tuple[str, str] = ("id", "id")) -> None:
        self.told: list[tuple[int, int]] = []
        self.doubts: dict[int, OperatorError] = {}
        facts = SimpleNamespace(
            note_relation=lambda _: None, note_partition_change=lambda *each: self.told.append(each)
        )
        doubts = SimpleNamespace(add=self.doubts.update)
        self.tables = AnnouncedTables(
            Session().followed, cast(SourceWatch, SimpleNamespace(stream_facts=facts, doubts=doubts))
        )
        for relation_id, identity, of_key in zip((ROOT, other), identities, key, strict=True):
            columns = tuple(RelationColumn(each == of_key or identity == "f", each, 23, -1) for each in ("id", "n"))
            self.tables.notice(Relation(relation_id, "public", "t", identity, columns))


def test_followed_table_is_a_partition_by_now_where_a_row_of_the_root_comes_behind_it() -> None:
    """I8: attached and detached again before a look, it takes away what came under the root's name."""
    announced = Announced()
    assert announced.told == []
    assert announced.tables.take_announced(ROOT)
    assert announced.told == [(PLAIN, ROOT)]


IDENTITIES = {
    ("dd", "id", "id"): False,
    ("di", "id", "n"): True,
    ("df", "id", ""): False,
    ("dn", "id", ""): False,
    ("ff", "", ""): False,
    ("fd", "", "id"): True,
    ("dd", "", "id"): True,
}


@pytest.mark.parametrize(("how", "is_doubt"), IDENTITIES.items(), ids=str)
@pytest.mark.parametrize("partition", [FOREIGN, PLAIN])
def test_partition_whose_old_rows_are_not_what_its_roots_say_is_a_doubt(
    how: tuple[str, str, str], partition: int, *, is_doubt: bool
) -> None:
    """I5: its identity may be as it should be again before a look."""
    announced = Announced(partition, how[0], how[1:])
    assert announced.tables.take_announced(ROOT)
    assert announced.doubts.keys() == ({ROOT} if is_doubt else set())


def test_tables_of_one_truncate_are_no_partitions_of_each_other() -> None:
    announced = Announced()
    announced.tables.note_truncate()
    assert announced.tables.take_announced(ROOT)
    assert announced.told == []


def test_partitions_of_transactions_that_are_published_already_are_known() -> None:
    """They were looked at before the first time."""
    assert Session(done=200).roots(ROOT, FOREIGN) == [None, None]
