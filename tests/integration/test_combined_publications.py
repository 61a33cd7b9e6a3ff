"""What several publications publish together is what the server makes of them, or both refuse it (I4, I8)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, KeysView
from dataclasses import replace
from random import Random
from typing import Any

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.in_soak import in_variants
from tests.integration.publication_draws import GENERATED, SCHEMA, draw
from tests.integration.published_rows import replayed, selected, sends_rows, sent
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.guards.unfit.publication_faults import combination_faults, unsent_operations
from walbridge.producer.postgres.catalog import published_tables
from walbridge.producer.postgres.connection import SqlConnection as Connection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.publications.combined_publications import have_one_list
from walbridge.verify.source import snapshot
from walbridge.verify.source_connection import connected

DRAWS = int(os.environ.get("DRAWS", "15"))


@pytest.mark.parametrize("version", [in_variants(15), 18])
def test_stream_of_several_publications_makes_the_rows_that_are_copied_or_is_refused_by_both(
    postgres_version: Callable[[int], PostgresServer], version: int
) -> None:
    """The first that has row filters, and the newest."""
    assert sum(_compared(postgres_version(version), version, 1, DRAWS)) > DRAWS // 2, "draws are of little use"


@pytest.mark.soak
@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_stream_of_many_drawn_publications_makes_the_rows_that_are_copied_or_is_refused_by_both(
    postgres_version: Callable[[int], PostgresServer], version: int
) -> None:
    seed = int(os.environ.get("SEED", "2"))
    assert sum(_compared(postgres_version(version), version, seed, 40 * DRAWS)) > 40 * DRAWS


def _compared(server: PostgresServer, version: int, seed: int, draws: int) -> Iterator[int]:
    """How many tables were compared, by draw."""
    with new_database(server) as database, database.connect() as connection:
        connection.execute(SCHEMA.format(generated=GENERATED).encode())
        for number in range(draws):
            drawn = draw(Random(f"{seed} {number}"), version)
            names = made(connection, drawn.create)
            yield _compare(database, connection, names, taken(connection, drawn.writes))
            for name in names:
                connection.execute(f"DROP PUBLICATION {name}".encode())
            connection.execute("TRUNCATE t, s.u, p")


def _compare(database: Database, connection: Connection, names: list[str], writes: list[str]) -> int:
    tables = published_tables(connection, tuple(names))
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (database.name,))
    try:
        for each in writes:
            connection.execute(each.encode())
        failing = [each for each in tables if not have_one_list(each.memberships) and sends_rows(each)]
        words = f"{connection.execute('SELECT * FROM pg_publication').fetchall()} {tables}"
        if failing:
            with pytest.raises(psycopg.Error, match="cannot use different"):
                sent(connection, database.name, names)
            return 0
        try:
            changes = sent(connection, database.name, names)
        except psycopg.Error as error:
            raise AssertionError(f"{error} {words}") from None
    finally:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (database.name,))
    fit = [each for each in tables if not [*unsent_operations([each]), *combination_faults([each])]]
    for table in fit:
        assert replayed(changes.get(table.qualified_name, [])) == selected(connection, table), words
    assert changes.keys() <= {table.qualified_name for table in tables}, words
    assert _verified(database, names, fit) == {each.relation_id: selected(connection, each).keys() for each in fit}
    return len(fit)


def made(connection: Connection, create: dict[str, str]) -> list[str]:
    """The publications that a server makes."""
    names = []
    for name, statement in create.items():
        with contextlib.suppress(psycopg.errors.InvalidParameterValue, psycopg.errors.FeatureNotSupported):
            connection.execute(statement.encode())
            names.append(name)
    return names


def taken(connection: Connection, writes: Iterable[str]) -> list[str]:
    """Writes that a server takes: not those of a table whose filters or lists do not go with its identity."""
    taken = []
    with connection.transaction(force_rollback=True):
        for each in writes:
            with contextlib.suppress(psycopg.errors.InvalidColumnReference), connection.transaction():
                connection.execute(each.encode())
                taken.append(each)
    return taken


def _verified(database: Database, names: list[str], tables: list[PublishedTable]) -> dict[int, KeysView[Any]]:
    """Keys of the rows that ``walbridge verify`` compares, of these tables."""
    wanted = {table.relation_id for table in tables}
    with connected(database.dsn, 30) as asked, snapshot(asked) as now:
        found = {each.oid: each for each in now.tables(names, now.names(names)) if each.oid in wanted}
        assert [each.column_names for each in found.values()] == [[*each.column_names] for each in tables]
    with database.connect() as connection:
        return {
            oid: selected(connection, replace(each, row_filter=found[oid].row_filter)).keys()
            for oid, each in ((table.relation_id, table) for table in tables)
        }
