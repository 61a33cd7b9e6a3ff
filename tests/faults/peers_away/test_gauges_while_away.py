"""Gauges while a peer is away: they move, say for whom the program waits, and come back."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.scraped import Scraped
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.fault
WRITTEN_BYTES = 200_000


@pytest.fixture(autouse=True)
def _broker_is_back(kafka: KafkaBroker) -> Iterator[None]:
    yield
    kafka.start()


def test_lag_delay_and_state_go_on_while_the_broker_is_away_and_come_back(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.publish("t")
    shown = Scraped(producer.start_streaming().log)
    wait_until(lambda: shown.value("walbridge_producer_server_lsn") > 0, "the first look at the server")
    assert shown.state("producer") == "streaming"
    wait_until(lambda: shown.value("walbridge_producer_slot_wal_status", status="reserved") == 1, "the slot to be seen")
    producer.kafka.kill()
    producer.database.execute(
        f"INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, {WRITTEN_BYTES // 1000}) AS n"
    )

    wait_until(lambda: shown.value("walbridge_producer_lag_bytes") > WRITTEN_BYTES, "the lag to be seen", 30)
    wait_until(lambda: shown.value("walbridge_producer_publish_delay_seconds") > 4, "the delay to grow", 30)
    wait_until(lambda: shown.state("producer") == "waiting for Kafka", "it to say for whom it waits", 30)
    assert shown.value("walbridge_producer_slot_wal_bytes") > WRITTEN_BYTES

    producer.kafka.start()
    wait_until(lambda: shown.state("producer") == "streaming", "it to stream again", 60)
    wait_until(lambda: shown.value("walbridge_producer_lag_bytes") < 10_000, "the lag to fall", 60)
    wait_until(lambda: shown.value("walbridge_producer_publish_delay_seconds") < 4, "the delay to fall", 60)
    producer.check_equal()


def test_lag_is_unknown_while_postgres_is_away_and_comes_back(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.publish("t")
    shown = Scraped(producer.start_streaming().log)
    wait_until(lambda: shown.value("walbridge_producer_server_lsn") > 0, "the first look at the server")
    producer.database.server.kill()
    try:
        wait_until(lambda: shown.state("producer") == "waiting for Postgres", "it to wait", 30)
        wait_until(lambda: math.isnan(shown.value("walbridge_producer_lag_bytes")), "the lag to be unknown", 30)
        assert shown.value("walbridge_producer_slot_wal_status", status="unknown") == 1
        assert shown.value("walbridge_producer_server_silent_seconds") > 5
    finally:
        producer.database.server.start()
    wait_until(lambda: shown.state("producer") == "streaming", "it to stream again", 60)
    wait_until(lambda: shown.value("walbridge_producer_lag_bytes") < 10_000, "the lag to be known again", 60)
