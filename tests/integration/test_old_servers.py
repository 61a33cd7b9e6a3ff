"""The producer on servers of older versions: the same SQL, the same events."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.postgres_versions import MAJORS

TABLES = """
CREATE SCHEMA s;
CREATE TYPE s.mood AS ENUM ('sad', 'ok');
CREATE TABLE keyed (id int PRIMARY KEY, v text, feeling s.mood, big text, tags text[]);
ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int, v text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE keyless (line text);
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
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
    "TRUNCATE keyless; INSERT INTO keyless VALUES ('after')",
)


@pytest.fixture(params=[major for major in MAJORS if major < 18])
def old_producer(
    postgres_version: Callable[[int], PostgresServer],
    kafka: KafkaBroker,
    pipeline_name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[ProducerUnderTest]:
    with new_database(postgres_version(request.param)) as database, contextlib.ExitStack() as stack:
        made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        stack.callback(made.kill_all)
        yield made


def test_copy_and_changes_on_an_old_server_are_what_it_holds(old_producer: ProducerUnderTest) -> None:
    """Killed on the way on the oldest one, whose slot knows least; MATRIX=1: on each."""
    database = old_producer.database
    database.execute(TABLES)
    with database.connect() as connection:
        is_12 = connection.info.server_version < 130000
    # A partitioned root cannot be published on 12, its partitions can.
    tables = ("low", "high") if is_12 else ("parted",)
    via_root = "" if is_12 else "WITH (publish_via_partition_root)"
    old_producer.publish("keyed", "whole", "keyless", *tables, options=via_root)
    running = old_producer.start_streaming()
    for statement in CHANGES[:5]:
        database.execute(statement)
    if is_12 or os.environ.get("MATRIX"):
        running.kill()
        old_producer.start()
    for statement in CHANGES[5:]:
        database.execute(statement)

    old_producer.check_equal()
