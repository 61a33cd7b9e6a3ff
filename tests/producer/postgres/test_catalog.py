"""The catalogue says now: it must not be asked before it knows what the stream already told."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.producer.postgres.catalog import table_facts, wait_for_alterations


@pytest.fixture
def invisible_commits(database: Database) -> Iterator[threading.Event]:
    """A commit is in the WAL, and stays invisible until the event is set: a standby that is not there must have it."""
    show = threading.Event()

    def let_go() -> None:
        show.wait(60)
        _wait_for_standby(database, "")

    _wait_for_standby(database, "nobody")
    thread = threading.Thread(target=let_go)
    thread.start()
    yield show
    show.set()
    thread.join()


def _wait_for_standby(database: Database, name: str) -> None:
    with database.connect() as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    database.execute("CHECKPOINT")  # commits wait from when the checkpointer has read it


def test_alteration_that_is_committed_and_not_yet_visible_is_waited_for(
    database: Database, invisible_commits: threading.Event
) -> None:
    """I8: what the stream tells of it is not described by the catalogue of before."""
    with database.connect() as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        relation_id = connection.execute("SELECT 't'::regclass::oid").fetchone()[0]  # type: ignore[index]
        altering = threading.Thread(target=database.execute, args=("ALTER TABLE t ADD v text",))
        altering.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
        wait_until(lambda: connection.execute(waits.encode()).fetchone() is not None, "the commit to wait")
        before = table_facts(connection, relation_id)
        threading.Timer(0.2, invisible_commits.set).start()
        wait_for_alterations(connection, relation_id, timeout_s=60)
        after = table_facts(connection, relation_id)
        altering.join()

    assert before is not None
    assert after is not None
    assert [column.name for column in before.columns] == ["id"]
    assert [column.name for column in after.columns] == ["id", "v"]


def test_alteration_that_takes_long_is_not(database: Database) -> None:
    with database.connect() as altering, database.connect() as connection:
        altering.execute("CREATE TABLE t (id int PRIMARY KEY)")
        relation_id = connection.execute("SELECT 't'::regclass::oid").fetchone()[0]  # type: ignore[index]
        with altering.transaction():
            altering.execute("ALTER TABLE t ADD v text")
            wait_for_alterations(connection, relation_id, timeout_s=0.1)


def test_a_partitioned_table_is_known_from_its_partitions_and_others(database: Database) -> None:
    database.execute("CREATE TABLE p (id int) PARTITION BY RANGE (id); CREATE TABLE t (id int)")
    database.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")

    found = {}
    with database.connect() as connection:
        for name in ("p", "p1", "t"):
            relation_id = database.rows("SELECT %s::regclass::oid", [name])[0][0]
            facts = table_facts(connection, relation_id)
            found[name] = facts is not None and facts.is_partitioned

    assert found == {"p": True, "p1": False, "t": False}
