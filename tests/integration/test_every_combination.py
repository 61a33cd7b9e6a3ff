"""Every combination of two and three publications of a small grammar, beside a native subscriber (I4, I7, I8).

What the producer takes for fit ends equal to the source by what the server sends, and a subscriber of the server's own
has the same rows. What the server refuses to send, the producer refuses before.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from tests.fix_postgres import OF_VERSION, Database, new_database
from tests.integration.native_subscriber import SYNC_S, Subscriber
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
PLENTY = {
    "max_replication_slots": "40", "max_wal_senders": "40", "max_worker_processes": "60",
    "max_logical_replication_workers": "50", "max_sync_workers_per_subscription": "4",
    "wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "100ms",
}  # fmt: skip

EMPTIED = "TRUNCATE t, s.u, p"
WRITES_AFTER_A_COPY = ["DELETE FROM t WHERE id = 8", "DELETE FROM p WHERE id = 8", EMPTIED, *WRITES]

COPIED_TWICE = b"""
    WITH listed AS (SELECT format('%%I.%%I', schemaname, tablename)::regclass AS id FROM pg_publication_tables
                    WHERE pubname = ANY (%s))
    SELECT FROM listed leaf JOIN listed root ON root.id <> leaf.id
    WHERE root.id IN (SELECT relid FROM pg_partition_ancestors(leaf.id))
"""
"""A partition and one of its ancestors, each listed by a publication: before 16 a subscriber asks this view and copies
both, until a key is there twice ("Avoid syncing data twice for the 'publish_via_partition_root' option" mended it). The
producer takes the ancestor alone, as the stream of each version does."""

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


def test_native_subscriber_has_the_rows_of_every_combination_that_is_followed(source: Database) -> None:
    """First those that it copies, then what is written. What it refuses the producer refuses. Where one of 15 would
    copy rows twice (``COPIED_TWICE``), all of its rows come by the stream."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(source.connect())
        targets = [Subscriber(stack, source, SCHEMA.format(generated="")) for _ in range(BESIDE)]
        compared, refused, by_stream = 0, 0, 0
        followed, unfit = _beside_a_subscriber(connection)
        for names in unfit:
            refused += targets[0].is_refused(names)
        waiting = [*followed.items()]
        while batch := waiting[:BESIDE]:
            del waiting[:BESIDE]
            connection.execute(EMPTIED.encode())
            running = [*zip(targets, batch, strict=False)]
            uncopied = [each for each in running if _copies_rows_twice(connection, each[1][0])]
            for target, (names, _) in uncopied:
                target.subscribe(names, copies=False)
            for each in REFILLED:
                connection.execute(each.encode())
            for target, (names, _) in running:
                if target not in dict(uncopied):
                    target.subscribe(names)
            for target, _ in running:
                target.wait_until_copied()
            for each in WRITES_AFTER_A_COPY:
                connection.execute(each.encode())
            for target, (names, tables) in running:
                _check_rows(target, connection, names, tables)
                compared += len(tables)
                target.clear()
            by_stream += len(uncopied)
    print(f"{len(followed)} combinations, {compared} tables compared, {by_stream} without a copy of the subscriber's")
    print(f"{refused} of {len(unfit)} refused by the server")
    assert compared
    assert refused
    assert by_stream < len(followed) // 2


def _copies_rows_twice(connection: Connection, names: Names) -> bool:
    return connection.info.server_version < 160000 and bool(connection.execute(COPIED_TWICE, (list(names),)).fetchall())


@pytest.mark.parametrize("source", [15], indirect=True)
def test_subscriber_of_15_copies_the_rows_of_a_partition_twice_and_never_ends(source: Database) -> None:
    """Of a root and, by another publication, its partitions: why such copies are no oracle above."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(source.connect())
        assert _copies_rows_twice(connection, ("root", "leaves_of_root"))
        for each in REFILLED:
            connection.execute(each.encode())
        target = Subscriber(stack, source, SCHEMA.format(generated=""))
        target.subscribe(("root", "leaves_of_root"))
        wait_until(target.has_failed_to_copy, "a key that is there twice", SYNC_S)


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


def _check_rows(target: Subscriber, connection: Connection, names: Names, tables: list[PublishedTable]) -> None:
    """Of each table, once all that was written is there."""
    target.catch_up()
    with target.database.connect() as there:
        for table in tables:
            assert selected(there, table, "true") == selected(connection, table), (names, table)
