"""A database with an encoding of its own, whose settings are those that programs least expect."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from tests.fix_postgres import Database
from walbridge.embedded.postgres import PostgresServer

_HOSTILE = {
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "timezone": "'Asia/Kathmandu'",
    "search_path": "nowhere",
    "row_security": "off",
    "statement_timeout": "'1ms'",
    "lock_timeout": "'1ms'",
    "idle_in_transaction_session_timeout": "'50ms'",
    "idle_session_timeout": "'50ms'",
    "transaction_timeout": "'50ms'",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "client_min_messages": "debug5",
    "xmlbinary": "hex",
    "xmloption": "document",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "transform_null_equals": "on",
    "debug_parallel_query": "on",
    "plan_cache_mode": "force_generic_plan",
    "gin_fuzzy_search_limit": "1",
    "session_replication_role": "replica",
    "event_triggers": "off",
}
_OF_CLIENTS = {"LATIN1": "LATIN1", "EUC_JP": "SJIS"}
_OWN = (
    "statement_timeout=0",
    "lock_timeout=0",
    "idle_in_transaction_session_timeout=0",
    "idle_session_timeout=0",
    "transaction_timeout=0",
    "client_encoding=UTF8",
    "standard_conforming_strings=on",
    "session_replication_role=origin",
    "array_nulls=on",
    "quote_all_identifiers=off",
    "client_min_messages=warning",
    "debug_parallel_query=off",
    "default_transaction_isolation=read\\ committed",
    "default_transaction_deferrable=off",
)
OWN = " ".join(f"-c {each}" for each in _OWN)
"""What the test's own connections set."""


class HostileDatabase(Database):
    """One that the test reads and writes with settings of its own."""

    __slots__ = ()

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return super().connect(options=OWN, **options)

    def turn_hostile(self) -> None:
        with self.connect() as connection:
            encoding = connection.execute("SHOW server_encoding").fetchone()
            assert encoding is not None
            for name, value in {**_HOSTILE, "client_encoding": _OF_CLIENTS[encoding[0]]}.items():
                connection.execute(f"ALTER DATABASE {self.name} SET {name} = {value}".encode())


@contextlib.contextmanager
def hostile_database(server: PostgresServer, encoding: str) -> Iterator[HostileDatabase]:
    """On a server that goes with the test."""
    name = f"test_{uuid.uuid4().hex[:10]}"
    made = "CREATE DATABASE {} ENCODING {} TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(sql.SQL(made).format(sql.Identifier(name), sql.Literal(encoding)))
    yield HostileDatabase(server, name)
