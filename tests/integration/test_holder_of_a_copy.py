"""Whoever holds the transaction that a copy waits for is found by the words of the log."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.copying.window import Void
from walbridge.producer.session.copies.state.waits import remedy_of


def test_statement_that_the_log_names_finds_an_idle_and_a_prepared_transaction(database: Database) -> None:
    database.execute("CREATE TABLE held (id int)")
    with database.connect() as idle:
        idle.autocommit = False
        row = idle.execute("SELECT pg_backend_pid(), txid_current() % (2 ^ 32)::bigint").fetchone()
        assert row is not None
        pid, xid = row
        assert _holders(database, xid) == [f"pid {pid}"]
        idle.rollback()
        row = idle.execute("SELECT txid_current() % (2 ^ 32)::bigint").fetchone()
        assert row is not None
        idle.execute("INSERT INTO held VALUES (1)")
        idle.execute("PREPARE TRANSACTION 'forgotten'")
    try:
        assert _holders(database, row[0]) == ["prepared forgotten"]
    finally:
        database.execute("ROLLBACK PREPARED 'forgotten'")


def _holders(database: Database, xid: int) -> list[str]:
    statement = remedy_of(Void.IN_PROGRESS, xid).partition(" by ")[2].partition("; then ")[0]
    return [holder for holder, *_ in database.rows(statement)]
