"""The server behind the address is another one, an older one, a promoted one, or threw WAL away."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.followed import copy_all_again
from tests.faults.standing import refused_and_untouched
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import COPY_ALL

pytestmark = pytest.mark.fault

SETTINGS = {"shared_buffers": "16MB", "min_wal_size": "32MB", "max_wal_size": "1GB"}


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(SETTINGS) as made:
        yield made


@pytest.fixture
def own(server: PostgresServer, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Iterator[ProducerUnderTest]:
    """A producer with a server of its own: streamed, and stopped with everything published."""
    producer = ProducerUnderTest(pipeline_name, Database(server, "postgres"), kafka, tmp_path)
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0)")
    producer.publish("t")
    try:
        _stream(producer, 1)
        yield producer
    finally:
        producer.kill_all()


def _stream(producer: ProducerUnderTest, value: int) -> None:
    """Run it over one more row, and stop."""
    running = producer.start_streaming()
    producer.database.execute(f"INSERT INTO t VALUES ({value})")
    producer.check_equal()
    running.stop()


def copy_cluster(server: PostgresServer, to: Path) -> None:
    """A cold copy of the data folder, as a backup by file or by disk snapshot is."""
    server.stop()
    subprocess.run(["cp", "-a", str(server.data), str(to)], check=True)
    server.start()


def replace_cluster(server: PostgresServer, by: Path) -> None:
    """Another data folder behind the same address."""
    server.stop()
    shutil.rmtree(server.data)
    subprocess.run(["cp", "-a", str(by), str(server.data)], check=True)


def _promote(server: PostgresServer) -> None:
    """Start what is in the data folder as a standby, and promote it: a new timeline."""
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")

        def promoted() -> bool:
            # The control file, which a walsender reports, follows the end of recovery.
            row = connection.execute("SELECT NOT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()")
            return row.fetchone() == (True, 2)

        wait_until(promoted, "the second timeline")


def test_server_that_is_not_the_one_that_was_followed_is_refused_and_a_failover_accepted(
    server: PostgresServer, own: ProducerUnderTest
) -> None:
    """I7, I1: whether the server has what was published decides, not what it is called."""
    backup, newest = server.data.with_name("backup"), server.data.with_name("newest")
    copy_cluster(server, backup)
    _stream(own, 2)
    copy_cluster(server, newest)

    replace_cluster(server, backup)
    server.start()
    refused_and_untouched(own, "but the server's WAL ends at", COPY_ALL)
    _promote(server)
    refused_and_untouched(own, "a standby that lagged was promoted, or a backup restored", COPY_ALL)

    replace_cluster(server, newest)
    _promote(server)
    running = own.start_streaming()
    assert "failover accepted" in running.log
    own.database.execute("INSERT INTO t VALUES (3)")
    own.check_equal()
    running.stop()
    # What was published since lies behind the switch: only the timeline that was seen tells.
    _stream(own, 4)

    replace_cluster(server, newest)
    server.start()
    refused_and_untouched(
        own, "does not come from timeline 2", f"the primary that was followed, or at its successor; or {COPY_ALL}"
    )
    with PostgresServer(SETTINGS) as other:
        other.stop()
        replace_cluster(server, other.data)
        server.start()
    own.database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR TABLE t")
    remedy = f"point [postgres] dsn at the right server; or {COPY_ALL}"
    refused_and_untouched(own, "this is another Postgres cluster", remedy)
    copy_all_again(own)


@pytest.mark.variant(of="test_server_that_is_not_the_one_that_was_followed_is_refused_and_a_failover_accepted")
def test_failover_during_the_first_copy_costs_that_attempt_alone(
    server: PostgresServer, own: ProducerUnderTest, tmp_path: Path
) -> None:
    """I7: the copy that follows is one of the new primary, and its cuts say so."""
    folder = tmp_path / "copying"
    folder.mkdir()
    copying = ProducerUnderTest(f"{own.name}_copying", own.database, own.kafka, folder)
    try:
        with contextlib.closing(psycopg.connect(server.dsn())) as blocker:
            blocker.execute("INSERT INTO t VALUES (3)")
            running = copying.start()
            running.wait_for_log("the slot waits for transactions")
            _promote(server)
        running.wait_for_log("streaming")
        own.database.execute("INSERT INTO t VALUES (4)")
        copying.check_equal()
        with copying.topics() as topics:
            assert {cut.epoch.timeline for cut in topics.cuts()} == {2}
    finally:
        copying.kill_all()


def test_slot_that_was_not_waited_for_is_used_as_long_as_it_has_everything_and_then_refused(
    server: PostgresServer, own: ProducerUnderTest
) -> None:
    """I7: ``max_slot_wal_keep_size`` lets the server throw away what nobody has read yet."""
    execute = own.database.execute
    execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    execute("SELECT pg_reload_conf()")

    def write_wal() -> None:
        for _ in range(3):
            execute("SELECT pg_logical_emit_message(false, '', repeat('x', 1000)); SELECT pg_switch_wal()")

    def status() -> str:
        return str(own.database.value("SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", (own.slot,)))

    write_wal()
    assert status() == "unreserved"
    _stream(own, 5)
    write_wal()
    execute("CHECKPOINT")
    wait_until(lambda: status() == "lost", "the slot to be lost")
    refused_and_untouched(own, "is lost: the server removed WAL", COPY_ALL)
    copy_all_again(own)
