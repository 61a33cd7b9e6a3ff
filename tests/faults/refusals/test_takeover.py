"""A slot has one producer: a second one waits for its end, then takes over or ends; the first goes on."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta

import pytest

from tests.faults.one_table import make_table
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, refusal_of
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.slots import slot_lock
from walbridge.producer.postgres.slots.slot_lock import SlotLock
from walbridge.producer.postgres.source import Source
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.producer.start import start
from walbridge.producer.waits import Waits
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings

pytestmark = pytest.mark.fault


def test_second_producer_of_a_slot_waits_for_the_first_and_goes_on_where_it_ended(producer: ProducerUnderTest) -> None:
    """A rolling update: nobody is fenced, nothing is lost, nothing comes twice."""
    producer.settings["postgres"] = {"start_timeout_s": 120}  # on a busy machine the first may take long to end
    make_table(producer)
    producer.publish("t")
    first = producer.start_streaming()
    producer.database.execute("INSERT INTO t SELECT generate_series(10, 50)")
    second = producer.start()
    second.wait_for_log("waiting for another producer of this slot to end")
    assert f"process {first.process.pid} on {socket.gethostname()}" in second.log
    producer.database.execute("INSERT INTO t SELECT generate_series(51, 100)")
    first.stop()
    second.wait_for_log("streaming")
    producer.database.execute("INSERT INTO t SELECT generate_series(101, 120)")
    producer.check_equal()
    assert second.process.poll() is None


def test_second_producer_that_has_waited_ends_and_names_the_first_which_goes_on(producer: ProducerUnderTest) -> None:
    make_table(producer)
    producer.publish("t")
    first = producer.start_streaming()
    producer.settings["postgres"] = {"start_timeout_s": 1}

    words = refusal_of(producer.start())

    assert f"slot {producer.slot} has a producer: walbridge producer, process {first.process.pid}" in words
    assert "pg_terminate_backend" in words
    producer.database.execute("INSERT INTO t SELECT generate_series(10, 50)")
    assert first.process.poll() is None
    assert "else stop it, then start this one again" in words
    first.stop()
    producer.settings["postgres"] = {}  # on a busy machine no start is done within a second
    producer.start_streaming()
    producer.check_equal()


def test_producer_that_loses_its_lock_ends_the_session_first_and_goes_on(producer: ProducerUnderTest) -> None:
    make_table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name LIKE 'walbridge producer, process {running.process.pid} on %'"
    )
    running.wait_for_log(f"the connection with the lock of slot {producer.slot} was lost")
    producer.database.execute("INSERT INTO t SELECT generate_series(10, 50)")
    producer.check_equal()
    running.stop()


@pytest.mark.variant(of="test_second_producer_of_a_slot_waits_for_the_first_and_goes_on_where_it_ended")
def test_what_the_first_published_while_the_second_started_is_no_older_backup(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first is of a version that takes no lock: until the second has fenced it, it goes on, past the end of
    the WAL that the second saw before."""
    monkeypatch.setattr(SlotLock, "take", lambda *_: None)
    make_table(producer)
    producer.publish("t")
    producer.start_streaming()
    opened = Publisher.open_instance

    def publish_first(publisher: Publisher, timeout_s: float) -> None:
        producer.database.execute("INSERT INTO t VALUES (2)")
        with producer.topics() as topics:
            producer.caught_up(topics)
        opened(publisher, timeout_s)

    monkeypatch.setattr(Publisher, "open_instance", publish_first)
    settings = load_settings(str(producer.folder / "walbridge.toml"))
    source, spool = Source(settings), Spool(settings)

    second = start(settings, source, spool, Waits(lambda: False), ProducerMetrics())
    spool.close()
    source.close()

    assert second.progress is not None
    assert second.server.wal_end >= second.progress.done


def test_own_connection_that_only_the_server_still_has_is_ended_and_the_lock_taken_again(
    database: Database,
) -> None:
    """As a firewall leaves it that resets one side: it would be waited for until the server's keepalive notices."""
    settings = Settings(name="p", postgres={"dsn": database.dsn, "slot": "s", "start_timeout_s": 5})  # type: ignore[arg-type]
    lock = SlotLock(settings)
    lock.take(lambda: None)
    lost = lock._connection
    assert lost is not None
    vars(lock)["_connection"] = None

    lock.take(lambda: None)

    assert lock._connection is not None
    lock.release()
    lost.close()


def test_lock_on_another_server_than_the_sessions_is_let_go_and_not_taken_for_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover, while the old primary goes on: another producer of the new one would not be kept out."""
    settings = Settings(name="p", postgres={"dsn": database.dsn, "slot": "s", "start_timeout_s": 5})  # type: ignore[arg-type]
    lock, other, told = SlotLock(settings), SlotLock(settings), slot_lock._server_of
    with connect_sql(database.dsn) as session:
        lock.take(lambda: None, session)
        held = lock._connection
        lock.take(lambda: None, session)
        assert lock._connection is held

        def failed_over(connection: SqlConnection) -> datetime:
            return told(connection) + timedelta(days=connection is session)

        monkeypatch.setattr(slot_lock, "_server_of", failed_over)
        with pytest.raises(RetryableError, match="lead to two servers"):
            lock.take(lambda: None, session)
        monkeypatch.undo()
        other.take(lambda: None, session)
    other.release()
