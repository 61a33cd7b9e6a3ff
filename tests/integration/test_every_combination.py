"""Every combination of two and three publications of a small grammar, beside a native subscriber (I4, I7, I8).

What the producer takes for fit ends equal to the source by what the server sends, and a subscriber of the server's own
has the same rows. What the server refuses to send, the producer refuses before.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from random import Random

import psycopg
import pytest

from tests.fix_postgres import OF_VERSION, Database, new_database
from tests.integration.publication_draws import GENERATED, REFILLED, SCHEMA, WRITES
from tests.integration.published_rows import replayed, selected, sends_rows, sent
from tests.postgres_versions import PostgresOfVersion
from tests.wait import wait_until
from walbridge.producer.guards.unfit.publication_faults import combination_faults, unsent_operations
from walbridge.producer.postgres.catalog import published_tables
from walbridge.producer.postgres.connection import SqlConnection as Connection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.publications.combined_publications import have_one_list

pytestmark = [pytest.mark.soak, pytest.mark.servers]

VIA_ROOT = "WITH (publish_via_partition_root = true)"
GRAMMAR = {
    "all": "FOR ALL TABLES",
    "all_as_roots": f"FOR ALL TABLES {VIA_ROOT}",
    "schema": "FOR TABLES IN SCHEMA s",
    "whole": "FOR TABLE t, s.u",
    "filtered": "FOR TABLE t WHERE (id > 5), s.u WHERE (id > 15)",
    "filtered_otherwise": "FOR TABLE t WHERE (a = 1)",
    "listed": "FOR TABLE t (id, a)",
    "listed_in_another_order": "FOR TABLE t (a, id) WHERE (id < 15)",
    "inserts": "FOR TABLE t WHERE (b < 2), s.u WITH (publish = 'insert')",
    "no_inserts": "FOR TABLE t WHERE (id > 5) WITH (publish = 'update, delete')",
    "truncates": "FOR TABLE t, p WITH (publish = 'truncate')",
    "root": f"FOR TABLE p {VIA_ROOT}",
    "root_filtered": f"FOR TABLE p WHERE (id > 5) {VIA_ROOT}",
    "root_listed": f"FOR TABLE p (id, a) {VIA_ROOT}",
    "leaves_of_root": "FOR TABLE p",
    "middle": f"FOR TABLE p2 WHERE (id < 25) {VIA_ROOT}",
    "leaf": "FOR TABLE p1 WHERE (a = 0)",
    "leaf_as_root": f"FOR TABLE p1, s.p21 {VIA_ROOT}",
}
SINCE_18 = {"generated": "FOR TABLE t WITH (publish_generated_columns = stored)"}
BESIDE = 8
"""Subscribers at once."""
TRIPLES = int(os.environ.get("TRIPLES", "32"))
"""Of three publications beside a subscriber; every one of two is, and every one of three by what the server sends."""
SYNC_S = 120.0
PLENTY = {
    "max_replication_slots": "40", "max_wal_senders": "40", "max_worker_processes": "60",
    "max_logical_replication_workers": "50", "max_sync_workers_per_subscription": "4",
    "wal_receiver_status_interval": "1s",
}  # fmt: skip

EMPTIED = "TRUNCATE t, s.u, p"
WRITES_AFTER_A_COPY = ["DELETE FROM t WHERE id = 8", "DELETE FROM p WHERE id = 8", EMPTIED, *WRITES]

Names = tuple[str, ...]
Tables = dict[Names, list[PublishedTable]]


@pytest.fixture(params=[15, 16, 17, 18])
def source(request: pytest.FixtureRequest) -> Iterator[Database]:
    """With tables and every publication of the grammar."""
    with PostgresOfVersion(request.param, OF_VERSION | PLENTY) as server, new_database(server) as made:
        made.execute(SCHEMA.format(generated=GENERATED))
        for name, definition in (GRAMMAR | (SINCE_18 if request.param >= 18 else {})).items():
            made.execute(f'CREATE PUBLICATION "{name}" {definition}')
        yield made


def combinations(connection: Connection) -> list[Names]:
    names = [name for (name,) in connection.execute(b"SELECT pubname FROM pg_publication ORDER BY oid").fetchall()]
    return [each for count in (2, 3) for each in itertools.combinations(names, count)]


def test_server_sends_of_every_combination_what_a_copy_takes_or_it_is_refused(source: Database) -> None:
    with source.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (source.name,))
        for each in (*WRITES, *REFILLED):
            connection.execute(each.encode())
        all_of_them = combinations(connection)
        fit = [names for names in all_of_them if _is_sent_as_it_is_copied(connection, source.name, names)]
        connection.execute("SELECT pg_drop_replication_slot(%s)", (source.name,))
    print(f"{len(all_of_them)} combinations, {len(fit)} fit")
    assert len(fit) > len(all_of_them) // 10, "the grammar is of little use"


def _is_sent_as_it_is_copied(connection: Connection, slot: str, names: Names) -> bool:
    """Whether the producer would follow all of its tables."""
    tables = published_tables(connection, names)
    if any(not have_one_list(each.memberships) and sends_rows(each) for each in tables):
        with pytest.raises(psycopg.Error, match="cannot use different"):
            sent(connection, slot, [*names])
        return False
    changes = sent(connection, slot, [*names])
    assert changes.keys() <= {table.qualified_name for table in tables}, names
    fit = [each for each in tables if is_fit(each)]
    for table in fit:
        there = replayed(changes.get(table.qualified_name, []))
        assert there == selected(connection, table), (names, table)
    return len(fit) == len(tables)


def is_fit(table: PublishedTable) -> bool:
    return not [*unsent_operations([table]), *combination_faults([table])]


@pytest.mark.parametrize("source", [18], indirect=True)
def test_native_subscriber_has_the_rows_of_every_combination_that_is_followed(source: Database) -> None:
    """First those that it copies, then what is written. What it refuses the producer refuses. A subscriber of 15 does
    not come to an end of its copies here; ``test_native_subscriber.py`` has draws for each version."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(source.connect())
        targets = [Subscriber(stack, source) for _ in range(BESIDE)]
        compared, refused = 0, 0
        followed, unfit = _beside_a_subscriber(connection)
        for names in unfit:
            refused += targets[0].is_refused(names)
        waiting = [*followed.items()]
        while batch := waiting[:BESIDE]:
            del waiting[:BESIDE]
            connection.execute(EMPTIED.encode())
            for each in REFILLED:
                connection.execute(each.encode())
            running = [*zip(targets, batch, strict=False)]
            for target, (names, _) in running:
                target.subscribe(names)
            for target, _ in running:
                target.wait_until_copied()
            for each in WRITES_AFTER_A_COPY:
                connection.execute(each.encode())
            for target, (names, tables) in running:
                target.check_rows(connection, names, tables)
                compared += len(tables)
                target.clear()
    print(f"{len(followed)} combinations, {compared} tables compared; {refused} of {len(unfit)} refused by the server")
    assert compared
    assert refused


def _beside_a_subscriber(connection: Connection) -> tuple[Tables, list[Names]]:
    """All of two publications and some of three that the producer follows, with their tables; of those that it refuses
    for their columns, all of two."""
    all_of_them = combinations(connection)
    drawn = Random(1).sample([each for each in all_of_them if len(each) == 3], len(all_of_them) // 2)
    found = {names: published_tables(connection, names) for names in all_of_them if len(names) == 2 or names in drawn}
    fit = {names: tables for names, tables in found.items() if all(map(is_fit, tables))}
    threes = [names for names in fit if len(names) == 3][TRIPLES:]
    unfit: list[Names] = [
        names
        for names, tables in found.items()
        if len(names) == 2 and any(not have_one_list(each.memberships) for each in tables)
    ]
    return {names: tables for names, tables in fit.items() if names not in threes}, unfit


class Subscriber:
    """A database of the same server with a subscription at a time. Columns that are not sent stay null there."""

    def __init__(self, stack: contextlib.ExitStack, source: Database) -> None:
        self._source = source
        self._database = stack.enter_context(new_database(source.server))
        self._database.execute(SCHEMA.format(generated=""))
        self._name = self._database.name
        stack.callback(self.clear)

    def subscribe(self, names: Sequence[str]) -> None:
        """Its slot is made by hand: beside its source, the statement would wait for itself."""
        self._source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._name,))
        self._create(names, "create_slot = false")

    def is_refused(self, names: Sequence[str]) -> bool:
        """By the statement, or by its copy, which says so in the log alone."""
        with contextlib.suppress(psycopg.errors.FeatureNotSupported):
            self._create(names, "create_slot = false, enabled = false")
            self.clear()
            return False
        return True

    def _create(self, names: Sequence[str], options: str) -> None:
        dsn, asked = self._source.dsn.replace("'", "''"), ", ".join(f'"{name}"' for name in names)
        self._database.execute(
            f"CREATE SUBSCRIPTION {self._name} CONNECTION '{dsn}' PUBLICATION {asked} WITH ({options})"
        )

    def wait_until_copied(self) -> None:
        query = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        wait_until(lambda: self._database.value(query) == 0, "the subscriber's copies", SYNC_S)

    def check_rows(self, connection: Connection, names: Sequence[str], tables: list[PublishedTable]) -> None:
        """Of each table, once all that was written is there."""
        (lsn,) = connection.execute(b"SELECT pg_current_wal_insert_lsn()::text").fetchall()[0]
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: self._source.value(query, (lsn, self._name)), "the subscriber", SYNC_S)
        with self._database.connect() as there:
            for table in tables:
                assert selected(there, table, "true") == selected(connection, table), (names, table)

    def clear(self) -> None:
        """The subscription goes, and its slot and rows."""
        if self._database.rows("SELECT FROM pg_subscription WHERE subname = %s", (self._name,)):
            self._database.execute(f"ALTER SUBSCRIPTION {self._name} DISABLE")
            self._database.execute(f"ALTER SUBSCRIPTION {self._name} SET (slot_name = NONE)")
            self._database.execute(f"DROP SUBSCRIPTION {self._name}")
        query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
        wait_until(lambda: self._source.value(query, (self._name,)) == 0, "the subscriber to leave", SYNC_S)
        self._source.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (self._name,)
        )
        self._database.execute(EMPTIED)
