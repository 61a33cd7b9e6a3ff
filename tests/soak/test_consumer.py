"""A reader of whole transactions holds none of them (I9): the most memory it took for one of millions of rows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fix_producer import ROOT, ProducerUnderTest

pytestmark = [pytest.mark.soak, pytest.mark.servers]

ROWS = int(os.environ.get("CONSUMER_ROWS", "2000000"))
RSS_MB_MAX = 250
READ = """
import pathlib, sys, time
from walbridge.consumer import events
name, servers = sys.argv[1:]
kafka = {"bootstrap.servers": servers, "group.id": name}
largest = 0
with events(name, ["a", "b"], kafka, transactions=True, follow=False) as stream:
    for transactions in stream:
        began, count = time.monotonic(), sum(event.operation == "insert" for event in transactions)
        if count > largest:
            largest, seconds = count, time.monotonic() - began
        stream.commit()
status = pathlib.Path("/proc/self/status").read_text()
print(largest, seconds, int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def test_transaction_of_two_tables_is_read_in_bounded_memory(producer: ProducerUnderTest) -> None:
    """Two tables of which one comes long after the other, so that partitions wait for each other."""
    producer.database.execute("CREATE TABLE a (id int PRIMARY KEY, note text); CREATE TABLE b (LIKE a INCLUDING ALL)")
    producer.publish("a", "b")
    producer.log_level = "info"
    running = producer.start_streaming()
    insert = f"SELECT i, rpad('note ' || i, 60, 'abcdefghij ') FROM generate_series(1, {ROWS // 2}) i"
    producer.database.execute(f"INSERT INTO a {insert}; INSERT INTO b {insert}")
    with producer.topics() as topics:
        producer.caught_up(topics, timeout_s=1800)
    running.stop()

    command = [sys.executable, "-c", READ, producer.name, producer.kafka.bootstrap_servers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True)

    largest, seconds, rss_mb = map(float, done.stdout.split())
    print(f"{largest:,.0f} rows in one transaction, {largest / seconds:,.0f} a second, {rss_mb:.0f} MB at most")
    assert largest == ROWS
    assert rss_mb < RSS_MB_MAX
