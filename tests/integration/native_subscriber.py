"""A subscription of Postgres' own to a database of the same server: the oracle of what publications publish.

In: a source, the SQL that makes its tables anew, names of publications. Out: a database that holds what the server's
own copies and stream bring. Columns that are not sent stay null there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psycopg

from tests.fix_postgres import Database, new_database
from tests.wait import wait_until

SYNC_S = 120.0
_TABLES = """
    SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"""


class Subscriber:
    """A database with one subscription at a time."""

    def __init__(self, stack: contextlib.ExitStack, source: Database, tables: str) -> None:
        self._source = source
        self.database = stack.enter_context(new_database(source.server))
        self.database.execute(tables)
        self._name = self.database.name
        stack.callback(self.clear)

    def subscribe(self, names: Sequence[str], copies: bool = True) -> None:
        """Its slot is made by hand: beside its source, the statement would wait for itself."""
        self._source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._name,))
        self._create(names, f"create_slot = false, copy_data = {str(copies).lower()}")

    def is_refused(self, names: Sequence[str]) -> bool:
        """By the statement; what only a copy refuses is in the log alone."""
        with contextlib.suppress(psycopg.errors.FeatureNotSupported):
            self._create(names, "create_slot = false, enabled = false")
            self.clear()
            return False
        return True

    def _create(self, names: Sequence[str], options: str) -> None:
        dsn, asked = self._source.dsn.replace("'", "''"), ", ".join(f'"{name}"' for name in names)
        self.database.execute(
            f"CREATE SUBSCRIPTION {self._name} CONNECTION '{dsn}' PUBLICATION {asked} WITH ({options})"
        )

    def wait_until_copied(self) -> None:
        query = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        wait_until(lambda: self.database.value(query) == 0, "the subscriber's copies", SYNC_S)

    def has_failed_to_copy(self) -> bool:
        query = "SELECT sync_error_count > 0 FROM pg_stat_subscription_stats WHERE subname = %s"
        return bool(self.database.value(query, (self._name,)))

    def catch_up(self) -> None:
        """All that was written by now is there."""
        lsn = self._source.value("SELECT pg_current_wal_insert_lsn()::text")
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: self._source.value(query, (lsn, self._name)), "the subscriber", SYNC_S)

    def clear(self) -> None:
        """The subscription goes, and its slot and rows."""
        if self.database.rows("SELECT FROM pg_subscription WHERE subname = %s", (self._name,)):
            self.database.execute(f"ALTER SUBSCRIPTION {self._name} DISABLE")
            self.database.execute(f"ALTER SUBSCRIPTION {self._name} SET (slot_name = NONE)")
            self.database.execute(f"DROP SUBSCRIPTION {self._name}")
        query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
        wait_until(lambda: self._source.value(query, (self._name,)) == 0, "the subscriber to leave", SYNC_S)
        self._source.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (self._name,)
        )
        self.database.execute(f"TRUNCATE {self.database.value(_TABLES)}")
