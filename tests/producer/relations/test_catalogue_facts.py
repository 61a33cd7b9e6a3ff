"""Facts that were asked of many tables at once, and the transactions for which they do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.fix_postgres import Database
from tests.producer.kept import CONNECTION, ORDERS, TEXT, Kept, catalogue, relation
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.relations.catalogue_facts import CatalogueFacts
from walbridge.producer.relations.table_description import announced

EPOCH = 1 << 32


@pytest.mark.parametrize(
    ("snapshot", "xid", "is_shown"),
    [
        ("90:100:", 99, True),
        ("90:100:", 100, False),
        ("90:100:", 101, False),
        ("90:100:90,95", 95, False),
        ("90:100:90,95", 96, True),
        (f"{EPOCH + 5}:{EPOCH + 10}:", 9, True),
        (f"{EPOCH + 5}:{EPOCH + 10}:", 10, False),
        (f"{EPOCH + 5}:{EPOCH + 10}:{EPOCH + 7}", 7, False),
        (f"{EPOCH + 5}:{EPOCH + 10}:", EPOCH - 3, True),
        (f"{2 * EPOCH - 8}:{2 * EPOCH - 5}:", 3, False),
        (f"{2 * EPOCH - 8}:{2 * EPOCH - 5}:", EPOCH - 6, True),
    ],
)
def test_snapshot_shows_what_ended_before_it_also_around_the_turn_of_the_counter(
    snapshot: str, xid: int, is_shown: bool
) -> None:
    assert Snapshot.parse(snapshot).contains_received(xid) is is_shown


class Catalogue:
    """Stands for the server: which snapshot it is at, and what it was asked."""

    def __init__(self, snapshot: str = "90:100:") -> None:
        self.snapshot = snapshot
        self.asked: list[str] = []
        self.facts = CatalogueFacts(CONNECTION)

    @contextmanager
    def standing(self) -> Iterator[None]:
        def all_of(connection: object, relation_ids: object) -> tuple[dict[int, TableFacts], Snapshot]:
            self.asked.append("all")
            return {}, Snapshot.parse(self.snapshot)

        with catalogue(tables_facts=all_of, table_facts=lambda *_: self.asked.append("one")):
            yield

    def announce(self, count: int, xid: int) -> list[str]:
        """So many Relations of one transaction; what was asked for them."""
        self.asked.clear()
        with self.standing():
            for _ in range(count):
                self.facts.of(relation(ORDERS), xid, range(100))
        return [*self.asked]


def test_first_few_announcements_are_asked_singly_and_then_all_tables_at_once() -> None:
    assert Catalogue().announce(50, xid=99) == ["one"] * 3 + ["all"]


def test_answer_holds_for_every_transaction_that_its_snapshot_shows() -> None:
    at = Catalogue()
    at.announce(50, xid=90)

    assert [at.announce(1, xid) for xid in (91, 98, 99)] == [[], [], []]


@pytest.mark.parametrize("xid", [95, 100, 101])
def test_transaction_that_the_snapshot_lacks_is_asked_anew(xid: int) -> None:
    """I6: what it altered is not in the answer."""
    at = Catalogue("90:100:95")
    at.announce(50, xid=99)

    assert at.announce(1, xid) == ["one"]


def test_transaction_whose_commit_stays_invisible_is_asked_singly() -> None:
    """It waits for a standby, and those who wait for its locks wait with it."""
    at = Catalogue("90:100:99")

    assert at.announce(8, xid=99) == ["one", "one", "one", "all", "one", "one", "one", "all", "one", "one"]


# -- on a real server --------------------------------------------------------------------------------


class Counting:
    """A connection that counts its questions."""

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *arguments: Any) -> Any:
        self.count += 1
        return self._connection.execute(*arguments)


class Altered:
    """Tables ``t0`` and so on, whose facts were asked of all at once."""

    def __init__(self, database: Database, connection: SqlConnection, count: int = 5) -> None:
        self.database = database
        database.execute("".join(f"CREATE TABLE t{n} (id int PRIMARY KEY, v text);" for n in range(count)))
        self.ids = [database.value("SELECT %s::regclass::oid", (f"t{n}",)) for n in range(count)]
        self.facts = CatalogueFacts(connection)
        xid = self.run("SELECT")
        for relation_id in self.ids:
            self.facts.of(self.relation(relation_id), xid, self.ids)
        self.asked_at_once = self.facts.known(self.ids[0]) is not None

    def run(self, statements: str) -> int:
        """One transaction; its xid, as the stream would name it."""
        with self.database.connect() as connection, connection.transaction():
            connection.execute(statements.encode())
            row = connection.execute("SELECT txid_current() & x'ffffffff'::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def relation(self, relation_id: int) -> Relation:
        return Relation(relation_id, "public", "t", "d", (RelationColumn(False, "v", TEXT, -1),))

    def numbers(self, xid: int) -> dict[str, int]:
        """Of the columns of ``t0``, for a transaction that announced it."""
        facts, _ = self.facts.of(self.relation(self.ids[0]), xid, self.ids)
        assert facts is not None
        return {column.name: column.attnum for column in facts.columns}


@pytest.fixture
def connection(database: Database) -> Iterator[SqlConnection]:
    with connect_sql(database.dsn) as made:
        yield made


def test_column_that_was_dropped_and_added_again_between_two_transactions_is_another(
    database: Database, connection: SqlConnection
) -> None:
    """I6: the announcement is the same, the values of older rows are not."""
    tables = Altered(database, connection)
    before = tables.run("INSERT INTO t0 VALUES (1)")

    altered = tables.run("ALTER TABLE t0 DROP v; ALTER TABLE t0 ADD v text")
    after = tables.run("INSERT INTO t0 VALUES (2)")

    assert tables.asked_at_once
    assert [tables.numbers(xid) for xid in (altered, after)] == [{"id": 1, "v": 3}] * 2
    assert before < altered


def test_column_that_is_altered_while_the_catalogue_is_asked_is_seen_after_its_commit(
    database: Database, connection: SqlConnection
) -> None:
    """I6"""
    with database.connect() as altering:
        database.execute("CREATE TABLE t0 (id int PRIMARY KEY, v text); INSERT INTO t0 VALUES (0)")
        database.execute("".join(f"CREATE TABLE t{n} (id int);" for n in range(1, 5)))
        ids = [database.value("SELECT %s::regclass::oid", (f"t{n}",)) for n in range(5)]
        facts = CatalogueFacts(connection)
        with altering.transaction():
            altering.execute("ALTER TABLE t0 DROP v; ALTER TABLE t0 ADD v text")
            row = altering.execute("SELECT txid_current() & x'ffffffff'::bigint").fetchone()
            facts.ask(ids)
            meanwhile = facts.known(ids[0])
        assert row is not None
        seen, _ = facts.of(Relation(ids[0], "public", "t0", "d", ()), int(row[0]), ids)

    assert [facts and [column.attnum for column in facts.columns] for facts in (meanwhile, seen)] == [[1, 2], [1, 3]]


def test_facts_of_many_tables_are_those_that_are_asked_one_by_one(
    database: Database, connection: SqlConnection
) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE none (); CREATE TABLE wide (a int, b mood[], gone int, c text);"
        "ALTER TABLE wide DROP gone; ALTER TABLE wide REPLICA IDENTITY FULL; ALTER TABLE wide ADD d int DEFAULT 7;"
        "CREATE TABLE keyed (v text, id int PRIMARY KEY)"
    )
    ids = [database.value("SELECT %s::regclass::oid", (name,)) for name in ("none", "wide", "keyed")]

    found, seen = catalog.tables_facts(connection, [*ids, 1])

    assert found == {each: catalog.table_facts(connection, each) for each in ids}
    assert seen is not None
    assert [len(found[each].columns) for each in ids] == [0, 4, 2]


def test_types_within_others_are_found_among_all(database: Database, connection: SqlConnection) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN moods AS mood[]; CREATE TYPE pair AS (a moods, b int);"
        "CREATE TYPE other AS ENUM ('x'); CREATE TABLE t (a pair, b other, c int)"
    )
    oids = [database.value("SELECT %s::regtype::oid", (name,)) for name in ("pair", "other", "int")]
    of_all = catalog.type_facts(connection, oids)

    for oid in oids:
        assert catalog.types_within(of_all, [oid]) == catalog.type_facts(connection, [oid])


def test_first_events_of_many_tables_ask_each_server_a_few_times(database: Database, connection: SqlConnection) -> None:
    """I2: what is written for all of them at once is there before any event."""
    database.execute("".join(f"CREATE TABLE t{n} (id int PRIMARY KEY, c{n} text);" for n in range(300)))
    database.execute("CREATE PUBLICATION pub FOR ALL TABLES")
    tables = catalog.published_tables(connection, ("pub",))
    ids = [table.relation_id for table in tables]
    facts, _ = catalog.tables_facts(connection, ids)
    relations = [announced(table, facts[table.relation_id]) for table in tables]
    counting = Counting(connection)
    asking = cast(SqlConnection, counting)
    kept = Kept()

    kept.tables.prepare_copy(tables, asking)
    copied = counting.count, kept.admin.asked_count, kept.happened.count("metadata")
    kept.tables.forget_session(asking)
    kept.tables.topics.check(kept.tables.versions.newest(ids), {})
    with database.connect() as other:
        (xid,) = other.execute("SELECT txid_current() & x'ffffffff'::bigint").fetchall()[0]
    counting.count = kept.admin.asked_count = 0
    for each in relations:
        kept.tables.receive(each, ids, xid)

    assert copied == (2, 1, 1)
    assert counting.count <= 3 * 3 + 2  # three tables alone: locks, facts, types; then all: facts, types
    assert (kept.admin.asked_count, len(kept.metadata.records)) == (0, 300)
    assert kept.happened.index("metadata") < kept.happened.index("expect public.t0")
