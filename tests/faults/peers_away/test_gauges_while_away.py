"""Gauges while Postgres is away: they say for whom the program waits, and come back. With Kafka away:
``test_kafka_away.py``.
"""

from __future__ import annotations

import math

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.scraped import Scraped
from tests.wait import wait_until

pytestmark = pytest.mark.fault


@pytest.mark.variant(of="test_broker_that_is_away_for_long_costs_no_memory_and_no_slot_and_gauges_say_so")
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
