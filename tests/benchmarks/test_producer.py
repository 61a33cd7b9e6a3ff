"""W1 through the producer beside a loop that receives the same bytes and drops them.

One run, one machine, ratios: ``make bench``. Rows/s count from START_REPLICATION to the cut that
holds the last row; CPU is that of the producer's process, librdkafka's threads included.
"""

from __future__ import annotations

import time

import psutil
import pytest

from producer.pipeline import stream_options
from producer.postgres.connection import connect_walsender
from producer.postgres.replication_stream import ReplicationStream
from schemas.position import parse_lsn
from schemas.settings import Settings
from tests.fix_producer import ProducerUnderTest
from tests.soak.test_large import ORDERS

pytestmark = [pytest.mark.bench, pytest.mark.servers]

ROWS, ROWS_A_TRANSACTION = 500_000, 1_000


def test_w1(producer: ProducerUnderTest) -> None:
    database = producer.database
    database.execute(ORDERS)
    producer.publish("orders")
    producer.start_streaming().stop()
    receiver = f"{producer.slot}_receiver"
    database.value("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (receiver,))
    with database.connect() as connection:
        for first in range(1, ROWS, ROWS_A_TRANSACTION):
            connection.execute(f"INSERT INTO orders SELECT * FROM mk({first}, {first + ROWS_A_TRANSACTION - 1})")
        connection.execute("CHECKPOINT")

    receive_only_s = _receive(producer, receiver)
    started_s = time.monotonic()
    running = producer.start_streaming()
    process = psutil.Process(running.process.pid)
    cpu_before_s = sum(process.cpu_times()[:2])
    with producer.topics() as topics:
        producer.caught_up(topics, 300)
        drained_s = time.monotonic() - started_s
    cpu_s = sum(process.cpu_times()[:2]) - cpu_before_s
    rss_mb = process.memory_info().rss / 2**20
    running.stop()
    print(
        f"\nW1: {ROWS / drained_s:,.0f} rows/s with start-up, receive only {ROWS / receive_only_s:,.0f} rows/s, "
        f"ratio {receive_only_s / drained_s:.2f}, {cpu_s / ROWS * 1e6:.1f} CPU-s per million, {rss_mb:.0f} MB"
    )


def _receive(producer: ProducerUnderTest, slot: str) -> float:
    """Seconds to receive every row and drop it."""
    database = producer.database
    settings = Settings.model_validate({"name": producer.name})
    walsender = connect_walsender(database.dsn)
    started_s = time.monotonic()
    rows = 0
    with ReplicationStream(walsender, slot, 10_000) as stream:
        stream.start(parse_lsn("0/0"), stream_options(settings))
        while rows < ROWS:
            data = stream.read()
            if data is None:
                stream.wait(1.0)
            elif data[25:26] == b"I":
                rows += 1
    return time.monotonic() - started_s
