"""Every type, from values that Postgres renders to values in Delta: verify and SELECT are the oracles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from psycopg import sql

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_postgres import having_vector
from tests.in_soak import in_soak
from tests.integration.every_type import COLUMNS, TYPES_SQL, create_statements, edge_rows, insert, random_rows
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.slices import Volume

ROWS, SOAK_ROWS = 40, 800
"""Random ones, of the copy and of the stream; those with edge values come beside."""


@pytest.fixture(scope="module")
def postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One that has pgvector."""
    with having_vector(postgres) as server:
        yield server


@pytest.mark.parametrize(
    ("count", "topics"),
    [(ROWS, {}), in_soak(ROWS, {"format": "json"}), pytest.param(SOAK_ROWS, {}, marks=pytest.mark.soak)],
    ids=["avro", "json", "many"],
)
def test_every_type_in_delta_is_what_select_says(
    pipeline: PipelineUnderTest, monkeypatch: pytest.MonkeyPatch, count: int, topics: dict[str, str]
) -> None:
    """I8: edge values by name and random rows, copied, inserted, then half of them updated, which Spark decodes."""
    database = pipeline.database
    edges = edge_rows()
    with database.connect() as connection:
        connection.execute(create_statements())
        next_id = insert(connection, [*edges, *random_rows(1, count)])
    pipeline.producer.publish("every_type")
    pipeline.producer.settings["topics"] = topics
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    with database.connect() as connection:
        insert(connection, [*edges, *random_rows(2, count)], next_id)
    database.execute("UPDATE every_type SET id = id WHERE id % 2 = 0")
    database.execute("UPDATE every_type SET id = -id WHERE id % 5 = 0")
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    pipeline.check_equal()
    assert len(pipeline.contents("every_type")) == 2 * (len(edges) + count)


@pytest.mark.soak
def test_rows_from_before_a_column_of_any_type_have_its_value(pipeline: PipelineUnderTest) -> None:
    """I8, without a copy. There is no key, so an old row of a change must equal what the lake holds."""
    database = pipeline.database
    made = (
        "CREATE TABLE older (id int); ALTER TABLE older REPLICA IDENTITY FULL; INSERT INTO older VALUES (1), (2), (2)"
    )
    database.execute(TYPES_SQL + made)
    pipeline.producer.publish("older")
    running = pipeline.producer.start_streaming()
    pipeline.check_equal()

    def is_told(times: int) -> bool:
        return running.log.count("table is altered") == times

    for number in (0, 1):
        # Postgres rewrites a table for a domain with a check.
        of_type = {each: each.edges[number % len(each.edges)] for each in COLUMNS if each.name != "d_small"}
        added = [
            sql.SQL("ADD {} {} DEFAULT {}").format(
                sql.Identifier(f"{column.name}_{number}"), sql.SQL(column.sql_type), sql.Literal(edge)
            )
            for column, edge in of_type.items()
        ]
        with database.connect() as connection:
            connection.execute(sql.SQL("ALTER TABLE older ") + sql.SQL(", ").join(added))
        # Told before the next ones come: one look may show both.
        wait_until(partial(is_told, number + 1), "the columns to be told")
    pipeline.check_equal()
    database.execute("DELETE FROM older WHERE ctid = (SELECT max(ctid) FROM older); INSERT INTO older VALUES (3)")
    database.execute("UPDATE older SET id = 4 WHERE id = 1; ALTER TABLE older ADD quiet int[] DEFAULT '{1,NULL}'")
    wait_until(partial(is_told, 3), "the last column to be told")
    pipeline.check_equal()
    assert "table is stale" not in running.log


UNREWRITTEN = (
    ("varchar(5)", "text", "'a'"),
    ("varchar", "bpchar", "'a '"),
    ("varchar(5)", "varchar(9)", "'a'"),
    ("char(5)", "bpchar", "'a'"),
    ("bit(4)", "varbit", "B'0101'"),
    ("varbit(4)", "varbit(9)", "B'01'"),
    ("numeric(12,4)", "numeric(20,4)", "1.5"),
    ("numeric(12,4)", "numeric", "0.5"),
    ("numeric(20,10)", "numeric", "0"),
    ("numeric(5,2)", "numeric", "'NaN'"),
    ("numeric(40,4)", "numeric(50,4)", "-1.5"),
    ("numeric(12,4)", "numeric(40,4)", "-1.5"),
    ("timestamp(3)", "timestamp(5)", "'2024-02-29 01:02:03.125'"),
    ("timestamp", "timestamp(6)", "'infinity'"),
    ("timestamp", "timestamptz", "'0001-01-01 00:00:00'"),
    ("timestamptz(3)", "timestamp", "'-infinity'"),
    ("timetz(3)", "timetz", "'01:02:03.125+02'"),
    ("interval(3)", "interval(4)", "'1 day 00:00:00.125'"),
    ("interval", "interval(6)", "'1 mon'"),
    ("price_of_all", "numeric", "1.5"),
    ("numeric(12,4)", "price_of_all", "1.5"),
)
"""Types before and after, and a value."""


@pytest.mark.soak
def test_type_that_is_altered_without_a_rewrite_keeps_its_values_without_a_copy(pipeline: PipelineUnderTest) -> None:
    """I8: of rows that nobody writes. There is no key, so an old row of a change must equal what the lake holds."""
    execute = pipeline.database.execute
    columns = ", ".join(f"c{at} {old}" for at, (old, _, _) in enumerate(UNREWRITTEN))
    execute(f"CREATE DOMAIN price_of_all AS numeric; CREATE TABLE t (id int, {columns}); CREATE TABLE other (id int)")
    execute("ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE other REPLICA IDENTITY FULL")
    values = ", ".join(value for _, _, value in UNREWRITTEN)
    execute(f"INSERT INTO t VALUES (1, {values}), (2, {values}), (2, {values}); INSERT INTO t VALUES (3)")
    pipeline.producer.publish("t", "other")
    running = pipeline.producer.start_streaming()
    pipeline.check_equal()
    file = "SELECT relfilenode FROM pg_class WHERE relname = 't'"
    before = pipeline.database.value(file)

    altered = ", ".join(f"ALTER c{at} TYPE {new}" for at, (_, new, _) in enumerate(UNREWRITTEN))
    execute(f"SET TimeZone = 'UTC'; ALTER TABLE t {altered}; INSERT INTO other VALUES (1)")
    assert pipeline.database.value(file) == before
    wait_until(lambda: "table is altered" in running.log, "the types to be told")
    pipeline.check_equal()
    execute("DELETE FROM t WHERE ctid = (SELECT max(ctid) FROM t WHERE id = 2); UPDATE t SET id = 5 WHERE id = 1")
    pipeline.check_equal()
    assert "table is stale" not in running.log


@pytest.mark.soak
def test_what_a_type_cannot_hold_is_kept_as_postgres_text_beside_a_null(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2), d date, at timestamptz, a int[])")
    database.execute("INSERT INTO t VALUES (1, 'NaN', 'infinity', '20000-01-01 00:00+00', '{{1,2},{3,4}}')")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    assert exceptional(pipeline) == {
        "n": "NaN",
        "d": "infinity",
        "at": "20000-01-01 00:00:00+00",
        "a": "{{1,2},{3,4}}",
    }

    database.execute("UPDATE t SET n = 1, d = '2024-02-29', at = '2024-02-29 12:00+00', a = '{1,NULL}'")
    pipeline.check_equal()
    assert not exceptional(pipeline)
    assert pipeline.contents("t")[0]["a"] == [1, None]


MAPS_SQL = """
CREATE EXTENSION hstore;
CREATE EXTENSION vector;
CREATE DOMAIN price AS numeric(10,2);
CREATE TABLE keyed (h hstore PRIMARY KEY, v vector, p price);
CREATE TABLE bag (h hstore, v vector, p price, n int);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE long (id int PRIMARY KEY, h hstore, v vector, p price, n int);
ALTER TABLE long ALTER h SET STORAGE EXTERNAL, ALTER v SET STORAGE EXTERNAL;
"""
LONG = "hstore(array_agg(x), array_agg(nullif(x, '7'))), (SELECT array_agg(y) FROM generate_series(1, 2000) y)::vector"


@pytest.mark.soak
def test_maps_vectors_and_domains_are_followed_as_keys_as_rows_without_one_and_when_unchanged(
    pipeline: PipelineUnderTest,
) -> None:
    """I5, I6: a map as the key, equal rows with maps, and large ones that Postgres leaves out of updates."""
    database = pipeline.database
    database.execute(MAPS_SQL)
    database.execute("INSERT INTO keyed VALUES ('a=>1,b=>NULL', '[1,2]', 1.5), ('', NULL, 'NaN')")
    database.execute("INSERT INTO bag SELECT 'a=>1,b=>2'::hstore, '[0.5]', 1, 1 FROM generate_series(1, 3)")
    database.execute(
        f"INSERT INTO long SELECT 1, {LONG}, 1, 1 FROM (SELECT n::text FROM generate_series(1, 2000) n) g(x)"
    )
    pipeline.producer.publish("keyed", "bag", "long")
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    database.execute("UPDATE keyed SET p = 2.25 WHERE h ? 'a'; UPDATE keyed SET h = 'b=>\"\",a=>x' WHERE h = ''")
    database.execute(
        "INSERT INTO keyed VALUES ('b=>1', '[-0]', 0), ('b=>2', NULL, 0); DELETE FROM keyed WHERE h = 'b=>1'"
    )
    database.execute(
        "INSERT INTO bag VALUES ('', NULL, 'NaN', NULL), ('b=>2,a=>1', '[0.5]', 1, 1), (NULL, '[1]', 2, 2)"
    )
    database.execute("DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE h ? 'a' LIMIT 2)")
    database.execute("UPDATE bag SET p = 3 WHERE h IS NULL OR h = ''")
    database.execute("UPDATE long SET n = 2; INSERT INTO long VALUES (3, 'x=>y', '[1]', 2, 3)")
    pipeline.check_equal()

    database.execute("UPDATE long SET id = id + 10, n = 4")
    database.execute("UPDATE bag SET h = h || 'c=>3' WHERE ctid = (SELECT min(ctid) FROM bag WHERE h ? 'a')")
    pipeline.check_equal()
    rows = {row["id"]: row for row in pipeline.contents("long")}
    assert len(rows[11]["h"]) == len(rows[11]["v"]) == 2000
    assert dict(rows[11]["h"])["7"] is None


def exceptional(pipeline: PipelineUnderTest) -> dict[str, Any]:
    table = DeltaTable(str(pipeline.lake / "public" / "t"))
    rows = QueryBuilder().register("t", table).execute('SELECT "_walbridge" FROM t').read_all()
    (row,) = [each["_walbridge"] for each in pa.table(rows).to_pylist()]
    return dict(row["exceptional"] or {})
