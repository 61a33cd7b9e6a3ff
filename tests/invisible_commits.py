"""Commits that wait for a synchronous standby which nobody is: they are flushed and decoded, and not visible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fix_postgres import Database
from tests.wait import wait_until

_WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"


def wait_for_standby(database: Database, name: str) -> None:
    """Let commits wait for this standby; for none where the name is empty. It holds for the whole server."""
    with database.connect() as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        connection.execute("SELECT pg_reload_conf()")
        wait_until(
            lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == (name,), "the setting", 30.0
        )
    database.execute("CHECKPOINT")  # commits wait from when the checkpointer has read it


@contextmanager
def invisible(database: Database, statements: str) -> Iterator[None]:
    """The commit of these statements waits inside, for the standby that was named before, and is visible behind."""
    committing = threading.Thread(target=database.execute, args=(statements,))
    committing.start()
    try:
        wait_until(lambda: bool(database.rows(_WAITS)), "the commit to wait", 30.0)
        yield
    finally:
        wait_for_standby(database, "")
        committing.join()
