"""Every version of Postgres with the newest set of options that it has: through Kafka and Spark into the lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ProducerUnderTest
from tests.postgres_versions import MAJORS

TABLES = """
CREATE SCHEMA s;
CREATE TYPE s.mood AS ENUM ('sad', 'ok');
CREATE TABLE keyed (id int PRIMARY KEY, v text, feeling s.mood, big text, tags text[]);
ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int, v text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE keyless (line text);
CREATE TABLE parted (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED)
    PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parted FOR VALUES FROM (100) TO (200);
INSERT INTO keyed SELECT n, 'copied' || n, 'ok', repeat('x', 3000), ARRAY['a', NULL] FROM generate_series(1, 20) n;
INSERT INTO whole VALUES (1, 'copied'), (2, NULL);
INSERT INTO keyless VALUES ('copied');
INSERT INTO parted SELECT n, 'copied' FROM generate_series(90, 110) n;
"""
CHANGES = (
    "INSERT INTO keyed VALUES (100, 'é', 'sad', repeat('y', 3000), '{}')",
    "UPDATE keyed SET v = 'new' WHERE id < 5 OR id = 100",  # big is not sent
    "UPDATE keyed SET id = id + 1000 WHERE id > 15",
    "DELETE FROM keyed WHERE id IN (6, 7)",
    "UPDATE whole SET v = 'w'; DELETE FROM whole WHERE id = 1; INSERT INTO whole VALUES (3, 'x')",
    "INSERT INTO keyless VALUES ('streamed')",
    "UPDATE parted SET v = 'new' WHERE id < 95; DELETE FROM parted WHERE id = 99",
    "UPDATE parted SET id = id + 50 WHERE id < 93",  # to the other partition
    "ALTER TABLE keyed ADD COLUMN more int; INSERT INTO keyed VALUES (200, 'more', NULL, NULL, NULL, 1)",
    # Rows that are there have the values, of which nothing is sent; one of them without a key is told whole.
    "ALTER TABLE keyed ADD filled date DEFAULT 'infinity'; ALTER TABLE whole ADD b box[] DEFAULT '{(1,1),(0,0)}'",
    "DELETE FROM whole WHERE id = 2; UPDATE keyed SET filled = '2024-02-29' WHERE id = 10",
    "TRUNCATE keyless; INSERT INTO keyless VALUES ('after')",
)


MANY = "INSERT INTO whole SELECT n, repeat('v', 600) FROM generate_series({}, {}) n"
STREAMED = (
    f"BEGIN; {MANY.format(1000, 1150)}; SAVEPOINT s; {MANY.format(2000, 2150)}; ROLLBACK TO s;"
    f"UPDATE keyed SET v = 'streamed' WHERE id < 3; {MANY.format(3000, 3150)}; COMMIT"
)
PREPARED = (
    f"BEGIN; {MANY.format(4000, 4150)}; UPDATE keyed SET v = 'prepared' WHERE id = 3; PREPARE TRANSACTION 'one'",
    "BEGIN; DELETE FROM whole WHERE id < 1100; PREPARE TRANSACTION 'two'",
    "INSERT INTO keyless VALUES ('between')",
    "COMMIT PREPARED 'one'",
    "ROLLBACK PREPARED 'two'",
)
OPTIONS: dict[str, tuple[int, object]] = {"binary": (14, True), "streaming": (14, "on"), "two_phase": (15, True)}
KINDS = {14: "kind=StreamCommit", 15: "kind=CommitPrepared"}
"""Said in the log, from a version on: a transaction came before its commit."""


def shown(major: int) -> list[str]:
    """Rows of the matrix in docs/versions.md."""
    parts = [
        (13, "partitions through their root"),
        (14, "values in binary"),
        (14, "large transactions before they end"),
        (15, "prepared transactions"),
        (16, "the same in parallel"),
    ]
    found = [name for since, name in parts if major >= since]
    return ["first copy, then every change, into the lake", "the producer killed in between", *found]


IN_EACH_RUN = {12}
"""The others are of `make matrix` and `make variants`: what a server sends is asked of each in every run, by
integration/test_option_sets.py, and what becomes of it in the lake does not depend on the server."""


def each_major() -> Iterator[object]:
    for major in MAJORS:
        variant = [] if major in IN_EACH_RUN else [pytest.mark.variant]
        yield pytest.param(major, marks=[pytest.mark.feature(*shown(major)), *variant])


@pytest.fixture(params=each_major())
def versioned(
    producer_on: Callable[[int], ProducerUnderTest], spark: SparkSession, lake: Path, request: pytest.FixtureRequest
) -> tuple[int, PipelineUnderTest]:
    """A pipeline of a database on each version, asked for all that the version has."""
    major: int = request.param
    made = producer_on(major)
    made.settings["postgres"] = {name: value for name, (since, value) in OPTIONS.items() if major >= since}
    made.settings["producer"] = {"spool_dir": str(made.folder)}
    if major >= 16:
        made.settings["postgres"]["streaming"] = "parallel"
    if major >= 14:
        made.database.execute(f"ALTER DATABASE {made.database.name} SET logical_decoding_work_mem = '64kB'")
    return major, PipelineUnderTest(made, spark, lake)


def test_copy_and_changes_of_every_version_end_in_the_lake(versioned: tuple[int, PipelineUnderTest]) -> None:
    """I8. Killed on the way on the oldest one, whose slot knows least; MATRIX=1: on each."""
    major, pipeline = versioned
    producer, database = pipeline.producer, pipeline.database
    database.execute(TABLES)
    # A partitioned root cannot be published on 12, its partitions can.
    tables = ("low", "high") if major < 13 else ("parted",)
    via_root = "" if major < 13 else "WITH (publish_via_partition_root)"
    producer.publish("keyed", "whole", "keyless", *tables, options=via_root)
    running = producer.start_streaming()
    for statement in CHANGES[:5]:
        database.execute(statement)
    if major == 12 or os.environ.get("MATRIX"):
        running.kill()
        running = producer.start_streaming()
    for statement in (*CHANGES[5:], STREAMED, *PREPARED):
        database.execute(statement)

    producer.check_equal()
    pipeline.check_equal()
    assert "table is stale" not in running.log
    assert {kind for kind in KINDS.values() if kind in running.log} == {
        kind for since, kind in KINDS.items() if major >= since
    }
