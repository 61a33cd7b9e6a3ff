"""What many tables cost: the first events of 500 in one transaction, the start with 2,000; ``make bench``.

Tables are empty and small, so that what is measured is asked, written and made once for each table, not
for each row. Times are the producer's own: from the source's commit to Kafka's, and from the start of the
program to the first frame of the stream.
"""

from __future__ import annotations

import time

import pytest

from tests.benchmarks.producer_log import said
from tests.benchmarks.results import record
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running
from tests.wait import wait_until

pytestmark = [pytest.mark.bench, pytest.mark.servers]

WRITTEN, KNOWN = 500, 2_000
COPIED_S = 600.0
COLUMNS = "id int PRIMARY KEY, name text NOT NULL, price numeric(12,2), seen timestamptz, is_open bool"


def make_tables(database: Database, count: int) -> None:
    """``t0`` and so on, half of them with a column of their own, so that few have the same shape."""
    for first in range(0, count, WRITTEN):
        numbers = range(first, min(first + WRITTEN, count))
        own = {n: f", own_{n} int" if n % 2 else "" for n in numbers}
        database.execute("".join(f"CREATE TABLE t{n} ({COLUMNS}{own[n]});" for n in numbers))


def write_to_each(database: Database, count: int) -> None:
    """One row into each table, in one transaction."""
    values = "(id, name, price, seen, is_open) SELECT coalesce(max(id), 0) + 1, 'a name', 12.34, now(), true"
    database.execute("".join(f"INSERT INTO t{n} {values} FROM t{n};" for n in range(count)))


def streaming_s(producer: ProducerUnderTest) -> tuple[Running, float]:
    """Start over a copy that is complete; seconds until the stream runs."""
    begun_s = time.time()
    running = producer.start()
    wait_until(lambda: any(line.event == "streaming" for line in said(running)), "the stream", COPIED_S)
    return running, next(line.at_s for line in said(running) if line.event == "streaming") - begun_s


def batch_lag_ms(running: Running, rows: int) -> float:
    """From the commit of so many rows in the source to their commit in Kafka."""

    def found() -> list[float]:
        lines = (line.fields for line in said(running) if line.event == "batch")
        return [float(fields["lag_ms"]) for fields in lines if int(fields["rows"]) == rows]

    wait_until(lambda: bool(found()), f"a batch of {rows} rows", COPIED_S)
    return found()[0]


def first_events_ms(producer: ProducerUnderTest, running: Running) -> float:
    """Of a transaction that writes to many tables for the first time in this session."""
    write_to_each(producer.database, WRITTEN)
    return batch_lag_ms(running, WRITTEN)


def test_first_events_of_many_tables_and_the_start_with_more(producer: ProducerUnderTest) -> None:
    producer.settings["producer"] = {"idle_cut_interval_ms": 2_000}
    producer.settings["postgres"] = {"publication": "pub"}
    producer.log_level = "info"
    make_tables(producer.database, KNOWN)
    producer.database.execute("CREATE PUBLICATION pub FOR ALL TABLES")

    running, copied_s = streaming_s(producer)
    first_ms = first_events_ms(producer, running)
    running.stop()
    running, start_s = streaming_s(producer)
    again_ms = first_events_ms(producer, running)
    running.stop()

    values = {
        "tables": KNOWN,
        "copy_s": round(copied_s, 2),
        "start_s": round(start_s, 2),
        "first_events_of_500_after_the_copy_ms": first_ms,
        "first_events_of_500_after_a_start_ms": again_ms,
    }
    print(f"\nmany tables: {values}; {record('many_tables', values)}")
