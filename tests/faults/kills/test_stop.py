"""SIGTERM, Ctrl-C and SIGHUP: exit code 0, at a batch boundary, whatever the producer is doing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.proxy import TcpProxy
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, in_variants
from tests.wait import wait_until
from walbridge.producer import waits
from walbridge.producer.kafka import instance, table_requests
from walbridge.producer.postgres import interruptible
from walbridge.producer.postgres.slots import wal_watch
from walbridge.runtime.reports import run_report

pytestmark = pytest.mark.fault
# How long a stop takes measures the machine: asked is that it comes at all, and in the middle of the work.


@pytest.mark.parametrize("number", [signal.SIGTERM, in_variants(signal.SIGINT), in_variants(signal.SIGHUP)])
def test_idle_stream_stops_at_once(producer: ProducerUnderTest, number: int) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    running = producer.start_streaming()
    running.stop(number)
    assert "Traceback" not in running.log


@pytest.mark.variant(of="test_stop_inside_a_huge_transaction_leaves_it_half_published")
def test_stream_that_never_rests_stops_at_the_next_boundary(producer: ProducerUnderTest) -> None:
    """A backlog keeps the socket full: the stop must not wait for its end."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)")
    producer.publish("t")
    producer.settings["producer"] = {"batch_rows_max": 100}
    producer.start_streaming().stop()
    producer.database.execute(
        "DO $$ BEGIN FOR i IN 1..1500 LOOP INSERT INTO t (v) SELECT 'x' FROM generate_series(1, 100);"
        "COMMIT; END LOOP; END $$"
    )
    running = producer.start_streaming()
    with producer.topics() as topics:
        topics.wait_for_cut(lambda cut: cut.transactions > 0, "of the backlog")
    running.stop()
    with producer.topics() as topics:
        stopped_at = topics.cuts()[-1]
    assert sum(cut_rows.records for cut_rows in stopped_at.partitions) >= 100
    total = producer.database.value("SELECT count(*) FROM t")
    with producer.topics() as topics:
        published = sum(part.records for cut in topics.cuts() for part in cut.partitions)
    assert published < total, "the whole backlog was read before the stop"


def test_stop_inside_a_huge_transaction_leaves_it_half_published(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings["producer"] = {"batch_rows_max": 20}  # five hundred boundaries: it is not through before the stop
    producer.start_streaming().stop()
    producer.database.execute("INSERT INTO t SELECT generate_series(1, 10000)")
    running = producer.start_streaming()
    with producer.topics() as topics:
        topics.wait_for_cut(lambda cut: cut.cut_id > 2 and not cut.complete, "inside the transaction")
    running.stop()
    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    assert progress.split is not None
    producer.settings["producer"] = {}
    producer.start_streaming()
    assert len(producer.check_equal().rows("public", "t")) == 10_000


@pytest.mark.variant(of="test_copy_killed_at_every_point_begins_again_and_voids_what_it_left")
def test_stop_during_the_copy_begins_it_again_next_time(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.database.execute("INSERT INTO t SELECT i, repeat('x', 50) FROM generate_series(1, 300000) i")
    producer.publish("t")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start()
    with producer.topics() as topics:
        topics.wait_for_cut(lambda cut: cut.cut_id == 2, "of the copy")
    running.stop()
    assert "Traceback" not in running.log
    assert "Exception ignored" not in running.log
    with producer.topics() as topics:
        assert not any(cut.complete for cut in topics.cuts()), "the whole copy was made before the stop"
    producer.database.execute("DELETE FROM t WHERE id > 100")
    producer.settings["producer"] = {}
    producer.start_streaming()
    assert len(producer.check_equal().rows("public", "t")) == 100


def test_stop_while_the_slot_waits_for_an_old_transaction(producer: ProducerUnderTest) -> None:
    """CREATE_REPLICATION_SLOT waits for every running transaction, for hours if need be."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    with producer.database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t VALUES (1)")
        running = producer.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%%' AND datname = %s"
        wait_until(lambda: producer.database.value(waits, (producer.database.name,)) == 1, "the slot to be made")
        running.stop()
    assert "Traceback" not in running.log
    producer.start_streaming()
    assert len(producer.check_equal().rows("public", "t")) == 1


def test_stop_with_postgres_away(producer: ProducerUnderTest) -> None:
    producer.settings["postgres"] = {"dsn": "host=127.0.0.1 port=1 user=u dbname=d", "start_timeout_s": 60}
    running = producer.start()
    wait_until(lambda: _catches(running.process.pid, signal.SIGTERM), "the producer to listen for SIGTERM")
    running.stop()


LONG_S = 600
"""No test waits for so long: what ends before was interrupted."""


@pytest.mark.variant(of="test_stop_with_kafka_silent_leaves_its_batch_to_the_next_start")
@pytest.mark.parametrize("has_streamed", [in_soak(False), True])
def test_stop_while_postgres_takes_connections_and_says_nothing(
    producer: ProducerUnderTest, postgres_proxy: TcpProxy, has_streamed: bool
) -> None:
    """As behind a firewall that drops packets: neither libpq nor a silent session is waited for."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    way = producer.database.dsn.replace(f"port={producer.database.server.port}", f"port={postgres_proxy.port}")
    postgres = {"dsn": f"{way} connect_timeout={LONG_S}", "start_timeout_s": LONG_S, "silence_timeout_ms": 2000}
    producer.settings["postgres"] = postgres
    if has_streamed:
        running = producer.start_streaming()
        accepted = postgres_proxy.accepted
        postgres_proxy.half_open()
    else:
        postgres_proxy.half_open()
        accepted, running = 0, producer.start()
    wait_until(lambda: postgres_proxy.accepted > accepted, "a connection that nobody answers")
    wait_until(lambda: _catches(running.process.pid, signal.SIGTERM), "the producer to listen for SIGTERM")
    running.stop()
    assert "Traceback" not in running.log
    postgres_proxy.cut(reset=True)  # else the server keeps slot and lock for who is gone without a word
    postgres_proxy.heal()
    producer.start_streaming()
    producer.check_equal()


def test_stop_with_kafka_silent_leaves_its_batch_to_the_next_start(
    producer: ProducerUnderTest, kafka_proxy: TcpProxy
) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings["kafka"] = {"bootstrap_servers": f"127.0.0.1:{kafka_proxy.port}"}
    running = producer.start_streaming()
    kafka_proxy.half_open()
    producer.database.execute("INSERT INTO t VALUES (1)")
    running.stop()
    kafka_proxy.cut(reset=True)
    kafka_proxy.heal()
    producer.start_streaming()
    assert len(producer.check_equal().rows("public", "t")) == 1


def test_waits_of_a_stop_are_five_seconds_together() -> None:
    """With Kafka silent: for the slice in which the stop comes, the open batch, the slice in which patience with that
    ends, its abort, and a look for requests. With Postgres silent: for an answer, and a look at its WAL. Then for the
    record of the end."""
    with_kafka_silent = waits.PATIENCE_S + 3 * instance.SLICE_S + table_requests.END_S
    with_postgres_silent = 1.5 * interruptible.PATIENCE_S + wal_watch.END_S
    assert max(with_kafka_silent, with_postgres_silent) + run_report.END_S <= 5


def _catches(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)
