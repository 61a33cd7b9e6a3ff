"""What makes the catalogue another one, on a real server."""

from __future__ import annotations

import pytest

from tests.fix_postgres import Database
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.storage.catalog_digest import catalog_digest

SOURCE = """
    CREATE TYPE mood AS ENUM ('sad'); CREATE TYPE pair AS (x int);
    CREATE TABLE held (x int); CREATE TABLE listed (x int); CREATE TYPE deep AS (h listed[]); CREATE DOMAIN d AS deep;
    CREATE TABLE t (id int PRIMARY KEY, v text, m mood, p pair, h held, d d);
    CREATE TABLE r (id int PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (9);
    CREATE TABLE r2 (id int PRIMARY KEY); CREATE TABLE other (id int);
    CREATE PUBLICATION p FOR TABLE t, r"""
ALTERED = {
    "a rewrite": "ALTER TABLE t ALTER v TYPE varchar(5) USING 'x'",
    "a TRUNCATE": "TRUNCATE t",
    "a rewrite of a partition": "TRUNCATE r1",
    "a column that came": "ALTER TABLE t ADD w int DEFAULT 5",
    "a column that went": "ALTER TABLE t DROP v",
    "a column that is called otherwise": "ALTER TABLE t RENAME v TO w",
    "a table that is called otherwise": "ALTER TABLE t RENAME TO u",
    "a schema that is called otherwise": "ALTER SCHEMA public RENAME TO old",
    "a key that was made again": "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)",
    "another replica identity": "ALTER TABLE t REPLICA IDENTITY FULL",
    "a partition that came": "ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (19)",
    "a partition that went": "ALTER TABLE r DETACH PARTITION r1",
    "a partition that was dropped": "DROP TABLE r1",
    "a label that came": "ALTER TYPE mood ADD VALUE 'ok'",
    "a label that is called otherwise": "ALTER TYPE mood RENAME VALUE 'sad' TO 'ok'",
    "an attribute that came": "ALTER TYPE pair ADD ATTRIBUTE y int",
    "an attribute that is called otherwise": "ALTER TYPE pair RENAME ATTRIBUTE x TO y",
    "a column of a table whose rows are values": "ALTER TABLE held ADD y int",
    "one that is called otherwise": "ALTER TABLE held RENAME x TO y",
    "a column of a table whose rows are within values": "ALTER TABLE listed DROP x",
    "a table that left the publication": "ALTER PUBLICATION p DROP TABLE t",
    "a publication that sends less": "ALTER PUBLICATION p SET (publish = 'insert')",
    "a table that was dropped": "DROP TABLE t",
}
NOTHING = {
    "rows": "INSERT INTO t VALUES (1); UPDATE t SET v = 'x'; DELETE FROM t",
    "VACUUM": "VACUUM t",
    "ANALYZE": "ANALYZE t, r",
    "a temporary table": "CREATE TEMP TABLE of_one (id int); INSERT INTO of_one VALUES (1); DROP TABLE of_one",
    "a table that is not followed": "ALTER TABLE other ADD v text; DROP TABLE other",
}


@pytest.fixture
def followed(database: Database) -> list[int]:
    database.execute(SOURCE)
    return [database.value(f"SELECT '{name}'::regclass::oid::int") for name in ("t", "r")]


def test_digest_is_another_one_after_whatever_alters_what_is_followed(database: Database, followed: list[int]) -> None:
    """I8: a cut without a look says of all tables that nothing was altered."""
    unnoticed = []
    with connect_sql(database.dsn) as connection:
        before = catalog_digest(connection, followed)
        for what, statement in ALTERED.items():
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL search_path TO public; {statement}")
                if catalog_digest(connection, followed) == before:
                    unnoticed.append(what)
        assert catalog_digest(connection, followed) == before

    assert not unnoticed


def test_digest_is_the_same_after_what_alters_nothing_that_is_followed(database: Database, followed: list[int]) -> None:
    """A busy database is not looked at for what is nobody's business."""
    noticed = []
    with connect_sql(database.dsn) as connection:
        before = catalog_digest(connection, followed)
        for what, statement in NOTHING.items():
            database.execute(statement)
            if catalog_digest(connection, followed) != before:
                noticed.append(what)

    assert not noticed
