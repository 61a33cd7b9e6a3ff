"""Postgres restarted, sessions ended, slots moved: reconnect, or stop and say what is missing."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_postgres import stop_in_order
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.wait import wait_until
from walbridge.schemas.position import format_lsn

pytestmark = pytest.mark.fault


def _streaming_again(producer: ProducerUnderTest, value: int) -> None:
    producer.database.execute(f"INSERT INTO t VALUES ({value})")
    producer.check_equal()


def test_ended_sessions_and_a_restarted_server_are_survived(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    running = producer.start_streaming()
    _streaming_again(producer, 1)
    for kind in ("walsender", "client backend"):
        producer.database.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = '{kind}' "
            f"AND application_name LIKE 'walbridge%' AND datname = '{producer.database.name}'"
        )
    _streaming_again(producer, 2)
    # The producer answers the ending server, so a fast shutdown is fast.
    stop_in_order(producer.database.server)
    producer.database.server.start()
    _streaming_again(producer, 3)
    producer.database.server.kill()
    producer.database.server.start()
    _streaming_again(producer, 4)
    assert running.process.poll() is None
    assert "Traceback" not in running.log


@pytest.mark.variant(of="test_ended_sessions_and_a_restarted_server_are_survived")
def test_server_that_ends_during_the_copy_is_waited_for(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.database.execute("INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 150000) i")
    producer.publish("t")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start()
    with producer.topics() as topics:
        topics.wait_for_cut(lambda cut: cut.cut_id == 2, "of the copy")
    producer.database.server.restart()
    running.wait_for_log("copy begins again")
    producer.database.execute("DELETE FROM t WHERE id > 500")
    running.wait_for_log("streaming")
    producer.check_equal()
    assert "Traceback" not in running.log


def test_slot_that_is_gone_or_moved_stops_the_producer(producer: ProducerUnderTest) -> None:
    """I7: a gap is refused, never hidden."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.start_streaming().stop()
    producer.slot_at_rest()
    execute("INSERT INTO t VALUES (1)")
    lsn = producer.database.value("SELECT pg_current_wal_lsn()")
    execute(f"SELECT pg_replication_slot_advance('{producer.slot}', '{lsn}')")
    words = producer.refusal()
    assert "beyond what was published" in words
    assert "a gap" in words
    execute(f"SELECT pg_drop_replication_slot('{producer.slot}')")
    assert f"slot {producer.slot} is gone" in producer.refusal()
    # Made again it stands further on.
    execute(f"SELECT pg_create_logical_replication_slot('{producer.slot}', 'pgoutput')")
    assert "a gap" in producer.refusal()


@pytest.mark.variant(of="test_slot_that_is_gone_or_moved_stops_the_producer")
def test_slot_dropped_under_a_running_producer_stops_it(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    running = producer.start_streaming()

    def dropped() -> bool:
        execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            f"WHERE slot_name = '{producer.slot}' AND active"
        )
        try:
            execute(f"SELECT pg_drop_replication_slot('{producer.slot}')")
        except psycopg.errors.ObjectInUse:
            return False
        return True

    wait_until(dropped, "the slot to be dropped")
    assert f"slot {producer.slot} is gone" in refusal_of(running)


def test_confirmed_lsn_follows_the_cuts_and_other_databases(producer: ProducerUnderTest) -> None:
    """I1: never beyond the last committed cut; and an idle pipeline does not pin what others write."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.start_streaming()
    before = producer.confirmed_lsn()
    with psycopg.connect(producer.database.server.dsn(), autocommit=True) as elsewhere:
        elsewhere.execute("CREATE TABLE IF NOT EXISTS busy (v text)")
        elsewhere.execute("INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 20000)")
        row = elsewhere.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        elsewhere.execute("DROP TABLE busy")
    assert row is not None
    written = int(row[0])
    assert written - before > 2_000_000
    wait_until(lambda: producer.confirmed_lsn() >= written, f"the slot to pass {format_lsn(written)}")
    with producer.topics() as topics:
        for value in range(20):
            producer.database.execute(f"INSERT INTO t VALUES ({value})")
            topics.check_held(producer.confirmed_lsn())
    producer.check_equal()
