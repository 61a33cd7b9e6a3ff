"""Estimates of tables' sizes, on a real server: what a copy's share is told by."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.table_reads.table_size import table_sizes


def size(database: Database, name: str) -> TableSize:
    relation_id = database.value("SELECT %s::regclass::oid::int", (name,))
    with connect_sql(database.dsn, "test") as connection:
        return table_sizes(connection, [relation_id])[relation_id]


def test_rows_of_an_analysed_table_are_told_and_grow_with_its_file(database: Database) -> None:
    database.execute("CREATE TABLE t (id int, v text) WITH (autovacuum_enabled = false)")
    database.execute("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 1000) i; ANALYZE t")
    analysed = size(database, "t")
    database.execute("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 3000) i")
    grown = size(database, "t")

    assert analysed.rows == 1000
    assert grown.rows is not None
    assert 3500 < grown.rows < 4500
    assert grown.size_bytes > analysed.size_bytes > 10_000


def test_rows_of_a_table_that_was_never_analysed_are_not_told(database: Database) -> None:
    database.execute("CREATE TABLE t (id int) WITH (autovacuum_enabled = false); CREATE TABLE empty (id int)")
    database.execute("INSERT INTO t SELECT generate_series(1, 1000)")

    assert size(database, "t").rows is None
    assert size(database, "t").share(500, 4000) is not None
    assert size(database, "empty") == TableSize(0, 0)


def test_partitioned_table_is_all_of_its_partitions(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (1000) PARTITION BY RANGE (id);"
        "CREATE TABLE leaf PARTITION OF high FOR VALUES FROM (100) TO (1000);"
        "INSERT INTO t SELECT generate_series(1, 499); ANALYZE low, leaf"
    )
    assert size(database, "t").rows == 499
