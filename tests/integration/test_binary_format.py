"""The binary format of every type read as the text that the server itself prints of the same value.

The server is the oracle: one query for each type, asked in text and in binary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tests.fix_postgres import Database, having_vector, new_database
from tests.integration import binary_values
from tests.integration.binary_values import CONTAINERS, PGVECTOR, Case, cases
from tests.integration.every_type import COLUMNS
from tests.integration.typed_columns import array_literal
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.encoding.binary.types import TypeReaders
from walbridge.producer.postgres.binary_types import binary_facts
from walbridge.producer.postgres.connection import SqlConnection, connect_sql

SEED = 20_251_121
RANDOM_VALUES = 2_000
OLDEST = 14
"""Older servers send no binary."""
ODD_DEFAULTS = "ALTER DATABASE {name} SET datestyle = 'SQL, DMY'; ALTER DATABASE {name} SET bytea_output = 'escape'"
CASES = [*cases(COLUMNS), *PGVECTOR]


@pytest.fixture(scope="module")
def postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One that has pgvector."""
    with having_vector(postgres) as server:
        yield server


@pytest.fixture(scope="module")
def asked(postgres: PostgresServer) -> Iterator[SqlConnection]:
    with new_database(postgres) as database:
        yield from _connected(database, binary_values.EXTENSIONS_SQL + "CREATE EXTENSION vector")


@pytest.fixture(scope="module")
def asked_of_oldest(postgres_version: Callable[[int], PostgresServer]) -> Iterator[SqlConnection]:
    with new_database(postgres_version(OLDEST)) as database:
        yield from _connected(database, "")


def _connected(database: Database, extensions: str) -> Iterator[SqlConnection]:
    database.execute(binary_values.TYPES_SQL + extensions)
    database.execute(ODD_DEFAULTS.format(name=database.name))
    with connect_sql(database.dsn) as connection:
        connection.execute("SET search_path = public")
        yield connection


def both_formats(connection: SqlConnection, case: Case, count: int) -> tuple[int, list[bytes], list[bytes]]:
    """The type's oid; what the server prints and what it sends of the same values."""
    literal = array_literal(case.values(SEED, count)).encode()
    query = f"SELECT v::{case.sql_type} FROM unnest($1::text[]) WITH ORDINALITY u(v, n) ORDER BY n".encode()
    results = [connection.pgconn.exec_params(query, [literal], result_format=each) for each in (0, 1)]
    for result in results:
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.DataError(result.error_message.decode())
    text, binary = ([result.get_value(row, 0) or b"" for row in range(result.ntuples)] for result in results)
    return results[0].ftype(0), text, binary


def check(connection: SqlConnection, case: Case, count: int) -> None:
    type_oid, texts, values = both_formats(connection, case, count)
    readers = TypeReaders(lambda oids: binary_facts(connection, oids), connection.info.server_version)
    read = readers[type_oid]

    assert len(values) >= len(case.edges) + (count if case.draw else 0) > 0
    assert [read(value) for value in values] == texts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_binary_value_is_read_as_the_text_that_postgres_prints(asked: SqlConnection, case: Case) -> None:
    if case.sql_type == "xml" and not _has_xml(asked):
        pytest.skip("this server was built without XML")
    check(asked, case, RANDOM_VALUES // (10 if case in CONTAINERS else 1))


@pytest.mark.variant(of="test_binary_value_is_read_as_the_text_that_postgres_prints")
@pytest.mark.parametrize("case", [case for case in cases(COLUMNS) if case.since <= OLDEST], ids=lambda case: case.name)
def test_oldest_server_with_binary_sends_values_that_are_read_alike(asked_of_oldest: SqlConnection, case: Case) -> None:
    if case.sql_type == "xml" and not _has_xml(asked_of_oldest):
        pytest.skip("this server was built without XML")
    with contextlib.suppress(psycopg.errors.UndefinedFile):
        asked_of_oldest.execute(binary_values.EXTENSIONS_SQL.encode())
    check(asked_of_oldest, case, 50)


def _has_xml(connection: SqlConnection) -> bool:
    with contextlib.suppress(psycopg.errors.FeatureNotSupported):
        connection.execute("SELECT '<a/>'::xml")
        return True
    return False
