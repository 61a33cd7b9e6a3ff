"""The broker, killed: rows wait in Postgres, nothing is lost or twice, a stop is still heard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest
from tests.scraped import Scraped
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings_file import load_settings

pytestmark = pytest.mark.fault


@pytest.fixture(autouse=True)
def _broker_is_back(kafka: KafkaBroker) -> Iterator[None]:
    yield
    kafka.start()


@pytest.mark.variant(of="test_killed_at_random_under_load_everything_arrives_once_and_the_lake_equals_the_source")
def test_broker_killed_under_load_and_started_again_loses_and_repeats_nothing(producer: ProducerUnderTest) -> None:
    """Killed while transactions are open and committing; the walsender's session outlives it."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE log (v text)")
    producer.publish("t", "log")
    producer.settings["producer"] = {"batch_ms_max": 20, "commit_suspect_ms": 500}
    producer.as_command = True  # its memory is measured
    running = producer.start_streaming()
    with Writer(producer) as writer:
        writer.wait_for(100)
        producer.kafka.kill()
        writer.wait_for(100)
        # Far more than any queue may hold (I9), in one transaction.
        producer.database.execute("INSERT INTO log SELECT repeat('x', 100000) FROM generate_series(1, 1500)")
        producer.kafka.start()
        writer.wait_for(100)
    producer.check_equal(timeout_s=90)
    assert running.process.poll() is None
    assert "Traceback" not in running.log
    assert running.log.count("level=warning") < 40, "the log is flooded"
    assert _memory_peak_mb(running.process.pid) < 200


def _memory_peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


GROWTH_MB_MAX = 64
"""What librdkafka's queues may take beside what a streaming producer has anyway."""
SENDER_TIMEOUT_S = 5
"""Twice in the shortest outage, and not so short that a busy machine exceeds it."""


WRITTEN_BYTES = 200_000


@pytest.mark.parametrize("away_s", [12, pytest.param(300, marks=pytest.mark.soak)])
def test_broker_that_is_away_for_long_costs_no_memory_and_no_slot_and_gauges_say_so(
    producer: ProducerUnderTest, away_s: int
) -> None:
    """I9: for several of the server's time-outs at least; what is written meanwhile waits in Postgres. Lag, delay and
    state go on meanwhile, and come back."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE log (v text)")
    producer.publish("t", "log")
    dsn = f"{producer.database.dsn} options='-c wal_sender_timeout={SENDER_TIMEOUT_S}s'"
    producer.settings["postgres"] = {"dsn": dsn}
    producer.as_command = True  # its memory is measured
    running = producer.start_streaming()
    shown = Scraped(running.log)
    wait_until(lambda: shown.value("walbridge_producer_server_lsn") > 0, "the first look at the server")
    assert shown.state("producer") == "streaming"
    wait_until(lambda: shown.value("walbridge_producer_slot_wal_status", status="reserved") == 1, "the slot to be seen")

    def sender() -> int | None:
        query = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
        pid: int | None = producer.database.value(query, (producer.slot,))
        return pid

    with Writer(producer) as writer:
        writer.wait_for(300)
        at_first_mb, sender_at_first = _memory_mb(running.process.pid), sender()
        producer.kafka.kill()
        back_s = time.monotonic() + away_s
        writer.wait_for(300)  # a commit that was on its way is confirmed by now
        confirmed = producer.confirmed_lsn()
        rows = WRITTEN_BYTES // 1000
        producer.database.execute(f"INSERT INTO log SELECT repeat('x', 1000) FROM generate_series(1, {rows})")
        wait_until(lambda: shown.value("walbridge_producer_lag_bytes") > WRITTEN_BYTES, "the lag to be seen", 30)
        wait_until(lambda: shown.value("walbridge_producer_publish_delay_seconds") > 4, "the delay to grow", 30)
        wait_until(lambda: shown.state("producer") == "waiting for Kafka", "it to say for whom it waits", 30)
        assert shown.value("walbridge_producer_slot_wal_bytes") > WRITTEN_BYTES
        wait_until(lambda: time.monotonic() > back_s, "the end of the outage", away_s + 30, poll_s=0.5)
        assert _memory_mb(running.process.pid) - at_first_mb < GROWTH_MB_MAX
        if away_s * 1000 < 300_000:  # transaction_timeout_ms: then the session begins again
            assert sender() == sender_at_first, "the server gave the producer up"
        assert producer.confirmed_lsn() == confirmed
        producer.kafka.start()
        with producer.topics() as topics:
            producer.caught_up(topics, timeout_s=90)
    wait_until(lambda: shown.state("producer") == "streaming", "it to stream again", 60)
    wait_until(lambda: shown.value("walbridge_producer_lag_bytes") < 10_000, "the lag to fall", 60)
    wait_until(lambda: shown.value("walbridge_producer_publish_delay_seconds") < 4, "the delay to fall", 60)
    producer.check_equal(timeout_s=60)
    assert sender() is not None
    assert running.process.poll() is None
    assert "Traceback" not in running.log


def _memory_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.variant(of="test_end_is_told_on_its_machine_while_kafka_is_away_and_to_kafka_at_the_next_start")
def test_stop_and_start_with_the_broker_away(producer: ProducerUnderTest) -> None:
    """A start that waits in vain: ``kills/test_last_words.py``."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    producer.publish("t")
    running = producer.start_streaming()
    producer.kafka.kill()
    producer.database.execute("INSERT INTO t VALUES (1, 1)")
    running.wait_for_log("kafka")
    running.stop(timeout_s=30)
    assert "Traceback" not in running.log
    waiting = producer.start(environ={"WALBRIDGE_POSTGRES__START_TIMEOUT_S": "60"})
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walbridge catalog' AND datname = %s"
    wait_until(lambda: producer.database.value(query, (producer.database.name,)) == 1, "it to reach Postgres")
    waiting.stop(timeout_s=30)
    assert "Traceback" not in waiting.log
    producer.kafka.start()
    producer.start_streaming()
    producer.check_equal()


def test_broker_that_opens_no_transactions_is_said_so(producer: ProducerUnderTest) -> None:
    """As one node with the default replication of the transaction log: everything else answers."""
    from walbridge.producer.kafka.publisher import Publisher

    settings = load_settings(name=producer.name, kafka={"bootstrap_servers": "127.0.0.1:1"})
    publisher = Publisher(settings, "nobody", lambda: None)
    with pytest.raises(RetryableError, match="opens no transactions"):
        publisher.open_instance(timeout_s=0.2)
