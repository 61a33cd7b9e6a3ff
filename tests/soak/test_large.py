"""Large inputs in bounded memory (I9): ``make soak`` prints what each process took at its most.

The driver has a heap of 1 GiB; rows are those of the benchmarks' table: 10 columns, about 200
bytes in Kafka.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fix_producer import ROOT, ProducerUnderTest
from tests.jvm import SPARK_CONF, spark_conf
from tests.memory import Watched
from walbridge.embedded.jars import fetch
from walbridge.embedded.java import find_java
from walbridge.schemas.settings import Settings
from walbridge.verify import compare

pytestmark = [pytest.mark.soak, pytest.mark.servers]

ORDERS = """
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint, sku text, qty int, price numeric(12,2), status text,
                         note text, created_at timestamptz, updated_at timestamptz, flag bool);
    CREATE FUNCTION mk(a bigint, b bigint) RETURNS SETOF orders LANGUAGE sql AS $$
      SELECT i, i * 7919 % 100003, 'SKU-' || lpad((i % 5000)::text, 6, '0'), (i % 20 + 1)::int,
             ((i * 37 % 1000000) / 100.0)::numeric(12,2), (ARRAY['new','paid','shipped','done'])[i % 4 + 1],
             rpad('note ' || i, 60, 'abcdefghij '), clock_timestamp(), clock_timestamp(), i % 2 = 0
      FROM generate_series(a, b) i $$;
"""
PRODUCER_RSS_MB_MAX = 300
TRANSACTION_RSS_MB_MAX = 200
JOB_RSS_MB_MAX = 3_000
"""Driver JVM (1 GiB of heap and what lies outside it) and the Python beside it."""


def materialize(producer: ProducerUnderTest, lake: Path) -> float:
    """Drain everything with ``python -m walbridge.spark_consumer --once``; its peak RSS in MB."""
    environ = os.environ | {
        "JAVA_HOME": str(find_java().java_home),
        "WALBRIDGE_LAKE__PATH": str(lake),
        "WALBRIDGE_SPARK__JARS_DIR": str(fetch(["spark"], print)["spark"]),
        "WALBRIDGE_SPARK__DRIVER_MEMORY": "1g",
        "WALBRIDGE_SPARK__MASTER": "local[2]",
    }
    environ[SPARK_CONF] = spark_conf(producer.folder)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "walbridge.spark_consumer",
            "--once",
            "--config",
            str(producer.folder / "walbridge.toml"),
        ],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
    )
    watched = Watched(process.pid)
    try:
        assert process.wait(1800) == 0
    finally:
        process.kill()
    return watched.stop()


@pytest.mark.parametrize("kind", ["one transaction of 2M rows", "a backlog of 3M rows"])
def test_large_input_passes_in_bounded_memory(producer: ProducerUnderTest, lake: Path, kind: str) -> None:
    database = producer.database
    database.execute(ORDERS)
    producer.publish("orders")
    running = producer.start_streaming()
    if kind.startswith("one"):
        database.execute("INSERT INTO orders SELECT * FROM mk(1, 2000000)")
    else:
        running.stop()
        with database.connect() as connection:
            for k in range(3000):
                connection.execute(f"INSERT INTO orders SELECT * FROM mk({k * 1000 + 1}, {k * 1000 + 1000})")
        running = producer.start_streaming()
    watched = Watched(running.process.pid)
    started = time.monotonic()
    with producer.topics() as topics:
        producer.caught_up(topics, 900)
    producer_s, producer_mb = time.monotonic() - started, watched.stop()
    started = time.monotonic()
    job_mb = materialize(producer, lake)
    job_s = time.monotonic() - started
    print(f"\n{kind}: producer {producer_s:.0f} s, {producer_mb:.0f} MB; job {job_s:.0f} s, {job_mb:.0f} MB")

    source = {"dsn": database.dsn}
    settings = Settings.model_validate({"name": producer.name, "postgres": source, "lake": {"path": str(lake)}})
    assert all(result.equal for result in compare(settings, timeout_s=60))
    assert producer_mb < PRODUCER_RSS_MB_MAX
    assert job_mb < JOB_RSS_MB_MAX


@pytest.mark.parametrize("streaming", ["on", "off"])
def test_ten_million_rows_in_one_transaction_pass_though_killed_in_the_middle(
    producer: ProducerUnderTest, lake: Path, streaming: str
) -> None:
    """I4, I9; and the server hears from us all the time, whichever disk it waits for."""
    database, rows = producer.database, int(os.environ.get("SOAK_ROWS", "10_000_000"))
    database.execute("CREATE TABLE m (id int PRIMARY KEY, n int, v text)")
    database.execute(f"ALTER DATABASE {database.name} SET wal_sender_timeout = '10s'")
    producer.publish("m")
    producer.settings["postgres"] = {"streaming": streaming}
    producer.settings["producer"] = {"spool_dir": str(producer.folder)}
    producer.log_level = "info"
    producer.start_streaming().stop()
    started = time.monotonic()
    first = producer.start(f"produce:split:{rows // 20_000 // 2}")
    peaks = [Watched(first.process.pid)]
    database.execute(f"INSERT INTO m SELECT n, n % 1000, 'value ' || n FROM generate_series(1, {rows}) n")
    assert first.exit_code(1800) == 137
    second = producer.start_streaming()
    peaks.append(Watched(second.process.pid))
    with producer.topics() as topics:
        producer.caught_up(topics, 1800)
    producer_s, producer_mb = time.monotonic() - started, max(each.stop() for each in peaks)
    started = time.monotonic()
    materialize(producer, lake)
    job_s = time.monotonic() - started
    print(
        f"\n{rows:,} rows, streaming {streaming}: producer {producer_s:.0f} s, {producer_mb:.0f} MB; job {job_s:.0f} s"
    )

    assert "begins again" not in first.log + second.log
    source = {"dsn": database.dsn}
    settings = Settings.model_validate({"name": producer.name, "postgres": source, "lake": {"path": str(lake)}})
    assert all(result.equal for result in compare(settings, timeout_s=60))
    assert producer_mb < TRANSACTION_RSS_MB_MAX
