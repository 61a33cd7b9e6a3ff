"""Row filters that make half a row of an UPDATE: called so exactly where Postgres does so (I6)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.in_soak import in_soak
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.decoder import decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Insert, Unsent
from walbridge.producer.postgres.catalog import published_tables
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.publications.row_filters import LossyFilter, lossy_filters

BIG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 128) i)"
"""4 kB that do not compress: stored out of line, where the table and the column allow it."""
PLAIN = "CREATE TABLE t (id int PRIMARY KEY, v text)"
KINDS = "CREATE TABLE t (id int PRIMARY KEY, v text, kind text NOT NULL, more text)"


@dataclass(frozen=True)
class Case:
    """Table ``t``, how it is published, a row of it outside of its filter, and what the row lacks when it enters."""

    sql: str
    published: str
    row: str
    missing: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ("public.t",)


CASES = {
    "key in the filter": Case(PLAIN, "t WHERE (id > 5)", f"1, {BIG}", ("v",)),
    "column list": Case(KINDS, "t (id, kind, more) WHERE (id > 5)", f"1, {BIG}, {BIG}, {BIG}", ("kind", "more")),
    "identity by an index": Case(
        f"{KINDS}; CREATE UNIQUE INDEX k ON t (kind, id); ALTER TABLE t REPLICA IDENTITY USING INDEX k",
        "t WHERE (id > 5 AND kind <> 'x')",
        f"1, {BIG}, 'kind', {BIG}",
        ("v", "more"),
    ),
    "value that the key's index includes": Case(
        "CREATE TABLE t (id int, v text, w text, PRIMARY KEY (id) INCLUDE (v))", "t WHERE (id > 5)",
        f"1, left({BIG}, 2200), {BIG}", ("v", "w"),
    ),
    "partitions, one of them with FULL": Case(
        f"{PLAIN} PARTITION BY RANGE (id);"
        'CREATE TABLE "Low" PARTITION OF t FOR VALUES FROM (0) TO (100);'
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200); ALTER TABLE high REPLICA IDENTITY FULL",
        "t WHERE (id > 5)",
        f"1, {BIG}",
        ("v",),
        ('public."Low"',),
    ),
    "FULL": Case(f"{PLAIN}; ALTER TABLE t REPLICA IDENTITY FULL", "t WHERE (id > 5)", f"1, {BIG}"),
    "NOTHING": Case(f"{PLAIN}; ALTER TABLE t REPLICA IDENTITY NOTHING", "t WHERE (id > 5)", f"1, {BIG}"),
    "no key": Case("CREATE TABLE t (id int, v text)", "t WHERE (id > 5)", f"1, {BIG}"),
    "filter on a column outside of the key": Case(KINDS, "t WHERE (id > 5 AND kind <> 'x')", f"1, {BIG}, 'y', 'z'"),
    "filter that reads no column": Case(PLAIN, "t WHERE (1 = 1)", f"1, {BIG}"),
    "no filter": Case(PLAIN, "t", f"1, {BIG}"),
    "nothing large": Case("CREATE TABLE t (id int PRIMARY KEY, v varchar(20), n numeric(9))", "t WHERE (id > 5)", "1"),
    "large value that is not published": Case(KINDS, "t (id) WHERE (id > 5)", f"1, {BIG}, 'y', 'z'"),
    "large value that stays in the row": Case(
        f"{PLAIN}; ALTER TABLE t ALTER v SET STORAGE PLAIN", "t WHERE (id > 5)", f"1, {BIG}"
    ),
    "large value in the key": Case(
        "CREATE TABLE t (id int, v text, PRIMARY KEY (id, v)); ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "t WHERE (id > 5)",
        f"1, left({BIG}, 2200)",
    ),
}  # fmt: skip


@pytest.fixture(params=[15, in_soak(16), in_soak(17), 18])
def filtering(postgres_version: Callable[[int], PostgresServer], request: pytest.FixtureRequest) -> PostgresServer:
    """A server of each version that has row filters."""
    return postgres_version(request.param)


@pytest.mark.feature("row filters")
def test_filter_is_called_lossy_exactly_where_postgres_sends_half_a_row(filtering: PostgresServer) -> None:
    with new_database(filtering) as database:
        for name, case in CASES.items():
            database.execute(f"{case.sql}; CREATE PUBLICATION pub FOR TABLE {case.published} WITH ({VIA_ROOT})")

            told = {name: [(each.columns, each.carriers, each.has_column_list) for each in _lossy(database)]}

            has_list = case.published.startswith("t (")
            assert told == {name: [(case.missing, case.carriers, has_list)] if case.missing else []}
            assert {name: _missing(database, case)} == {name: set(case.missing)}
            database.execute("DROP PUBLICATION pub; DROP TABLE t")


@pytest.mark.feature("row filters")
def test_filter_of_a_publication_without_updates_says_nothing_of_them(filtering: PostgresServer) -> None:
    """Postgres lets it read any column, and applies the other one's to an UPDATE."""
    case = CASES["key in the filter"]
    with new_database(filtering) as database:
        database.execute(
            f"{case.sql}; CREATE PUBLICATION pub FOR TABLE {case.published};"
            "CREATE PUBLICATION truncates FOR TABLE t WHERE (v <> 'x') WITH (publish = 'truncate')"
        )

        assert [each.columns for each in _lossy(database, "pub", "truncates")] == [case.missing]
        assert _missing(database, case, "pub", "truncates") == set(case.missing)


VIA_ROOT = "publish_via_partition_root"


def _lossy(database: Database, *names: str) -> list[LossyFilter]:
    names = names or ("pub",)
    with connect_sql(database.dsn) as connection:
        return lossy_filters(connection, names, published_tables(connection, names))


def _missing(database: Database, case: Case, *names: str) -> set[str]:
    """Columns whose values the Insert lacks that an UPDATE becomes; none where there is none."""
    slot = f"s_{database.name}"
    with database.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        connection.execute(f"INSERT INTO t VALUES ({case.row})".encode())
        with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidColumnReference):
            connection.execute("UPDATE t SET id = 10")
        query = "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
        asked = ",".join(names or ("pub",))
        found = connection.execute(f"{query} 'publication_names', %s)".encode(), (slot, asked)).fetchall()
        connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        with connect_sql(database.dsn) as catalog:
            (table,) = published_tables(catalog, names or ("pub",))
    inserts = [message for (data,) in found if isinstance(message := decode_message(data), Insert)]
    fields = [zip(table.column_names, decode_tuple(insert.new), strict=True) for insert in inserts]
    return {name for row in fields for name, field in row if field is Unsent.UNCHANGED_TOAST}
