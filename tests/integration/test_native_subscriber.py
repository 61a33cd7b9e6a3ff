"""A subscription to several publications beside what they publish together: equal, or refused by both (I4, I8)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from random import Random

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.integration.publication_draws import COLUMNS, GENERATED, SCHEMA, TABLES, draw
from tests.integration.published_rows import selected
from tests.integration.test_combined_publications import made, taken
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.guards.unfit.publication_faults import combination_faults, unsent_operations
from walbridge.producer.postgres.catalog import published_tables
from walbridge.producer.postgres.connection import SqlConnection as Connection
from walbridge.producer.postgres.publications.combined_publications import have_one_list

pytestmark = pytest.mark.soak

DRAWS = int(os.environ.get("DRAWS", "50"))


@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_subscriber_holds_the_rows_that_are_copied_or_both_refuse(
    postgres_version: Callable[[int], PostgresServer], version: int
) -> None:
    server = postgres_version(version)
    compared = 0
    with new_database(server) as source, new_database(server) as target, source.connect() as connection:
        connection.execute(SCHEMA.format(generated=GENERATED).encode())
        columns = COLUMNS.format(generated="")
        target.execute("CREATE SCHEMA s;" + ";".join(f"CREATE TABLE {table} ({columns})" for table in TABLES))
        for number in range(DRAWS):
            drawn = draw(Random(f"subscriber {number}"), version)
            names = made(connection, drawn.create)
            compared += _compare(source, target, connection, names, taken(connection, drawn.writes))
            for name in names:
                connection.execute(f"DROP PUBLICATION {name}".encode())
            connection.execute("TRUNCATE t, s.u, p")
            target.execute(f"TRUNCATE {', '.join(TABLES)}")
    assert compared > DRAWS // 2


def _compare(source: Database, target: Database, connection: Connection, names: list[str], writes: list[str]) -> int:
    tables = published_tables(connection, tuple(names))
    failing = [each for each in tables if not have_one_list(each.memberships)]
    unfit = [each for each in tables if [*unsent_operations([each]), *combination_faults([each])]]
    if unfit and not failing:
        return 0  # nothing is followed, while a subscriber comes to hold other rows, or stops at a conflict
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (source.name,))
    with contextlib.ExitStack() as stack:
        stack.callback(connection.execute, "SELECT pg_drop_replication_slot(%s)", (source.name,))
        if failing:
            with (
                pytest.raises(psycopg.Error, match="cannot use different column lists"),
                _subscribed(source, target, names),
            ):
                pass
            return 0
        stack.enter_context(_subscribed(source, target, names))
        for each in writes:
            connection.execute(each.encode())
        (end,) = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
        reached = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: source.value(reached, (end, source.name)), f"the subscriber to reach {end}", 60)
        with target.connect() as other:
            for table in tables:
                held = selected(other, table, where="true")
                assert held == selected(connection, table), f"{tables}"
    return len(tables)


@contextlib.contextmanager
def _subscribed(source: Database, target: Database, names: list[str]) -> Iterator[None]:
    dsn = source.dsn.replace("'", "''")
    target.execute(
        f"CREATE SUBSCRIPTION {target.name} CONNECTION '{dsn}' PUBLICATION {', '.join(names)} "
        f"WITH (create_slot = false, slot_name = '{source.name}', copy_data = false)"
    )
    try:
        yield
    finally:
        with target.connect() as connection:
            connection.execute(f"ALTER SUBSCRIPTION {target.name} DISABLE".encode())
            connection.execute(f"ALTER SUBSCRIPTION {target.name} SET (slot_name = NONE)".encode())
            connection.execute(f"DROP SUBSCRIPTION {target.name}".encode())
        held = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND active"
        wait_until(lambda: not source.rows(held, (source.name,)), "the slot to be let go")
