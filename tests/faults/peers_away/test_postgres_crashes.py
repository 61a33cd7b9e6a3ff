"""A change at which Postgres itself crashes: it takes all sessions of the server along, so it is not tried for ever."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.followed import settings_of, wait_until_current
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running, refusal_of
from tests.wait import wait_until
from walbridge.check.verb import all_findings
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.tables.copy_all import copy_all

pytestmark = pytest.mark.fault
ROOT_AND_PARTITIONS = """
    CREATE TABLE r (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
    CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
    CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
    INSERT INTO r VALUES (1, 'a'), (11, 'b');
    CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)"""


@pytest.fixture
def own(kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Iterator[ProducerUnderTest]:
    """A server of its own, since others would lose their sessions."""
    with PostgresServer() as server:
        producer = ProducerUnderTest(pipeline_name, Database(server, "postgres"), kafka, tmp_path)
        producer.database.execute(ROOT_AND_PARTITIONS)
        try:
            yield producer
        finally:
            producer.kill_all()


def crashed_processes(producer: ProducerUnderTest) -> list[str]:
    log = producer.database.server.log.read_text(errors="replace")
    return re.findall(r"\(PID (\d+)\) was terminated by signal 11", log)


def write_what_crashes_it(database: Database) -> None:
    """A row, by its partition's own name, while a DETACH CONCURRENTLY of that is pending."""
    with database.connect() as holder, database.connect(options="-c lock_timeout=200ms") as other:
        with holder.transaction():
            holder.execute("INSERT INTO r VALUES (2, 'c'), (12, 'c')")
            with contextlib.suppress(psycopg.errors.LockNotAvailable):
                other.execute("ALTER TABLE r DETACH PARTITION r2 CONCURRENTLY")
        with contextlib.suppress(psycopg.OperationalError):  # it crashes as soon as the row is in the WAL
            holder.execute("INSERT INTO r2 VALUES (13, 'd')")


def test_change_at_which_postgres_crashes_is_tried_three_times_and_left_behind_by_a_copy_of_all_tables(
    own: ProducerUnderTest,
) -> None:
    """I7: nor does any start take the server down until its operator says so."""
    running = own.start_streaming()
    own.check_equal()
    write_what_crashes_it(own.database)
    words = refusal_of(running)
    assert "crashed 3 times in a row" in words
    count = len(crashed := crashed_processes(own))
    assert 3 <= count <= 4, "the stream may have come further after the first one"
    assert ", ".join(crashed[-3:]) in words
    assert "crashed 3 times in a row" in own.refusal()
    found = [each for each in all_findings(settings_of(own)) if "crashed 3 times" in each.text]
    assert {each.area for each in found} == {"programs", "session"}
    assert len(crashed_processes(own)) == count

    own.more_arguments = ("--try-again",)
    assert "Postgres crashed again" in own.refusal()
    assert len(crashed_processes(own)) == count + 1
    own.more_arguments = ()

    look = "SELECT inhrelid::regclass, inhparent::regclass FROM pg_inherits WHERE inhdetachpending"
    assert all(look in (each.remedy or "") for each in found)
    ((partition, root),) = own.database.rows(look)
    own.database.execute(f"ALTER TABLE {root} DETACH PARTITION {partition} FINALIZE")
    assert copy_all(settings_of(own), wait=False, say=lambda line: None) == 0
    running = own.start_streaming()
    wait_until_current(own)
    own.database.execute("INSERT INTO r VALUES (3, 'e')")
    own.check_equal()
    running.stop()
    assert len(crashed_processes(own)) == count + 1


@pytest.mark.soak
def test_server_of_which_other_processes_crash_is_waited_for_however_often(own: ProducerUnderTest) -> None:
    running = own.start_streaming()
    for number in range(1, 6):
        with own.database.connect() as other:
            os.kill(other.info.backend_pid, signal.SIGKILL)
        wait_for_crashes(running, number)
        wait_until(lambda: answers(own.database), "the server to be back")
        own.database.execute(f"INSERT INTO r VALUES ({number + 1}, 'x')")
        own.check_equal()
    assert "in_a_row=1" in running.log
    assert "in_a_row=2" not in running.log
    running.stop()


def wait_for_crashes(running: Running, number: int) -> None:
    wait_until(lambda: running.log.count("Postgres crashed") == number, f"crash {number} to be noticed")


def answers(database: Database) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        return bool(database.value("SELECT true"))
    return False
