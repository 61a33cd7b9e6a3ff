"""The producer behind a network that breaks: noticed in bounded time, and nothing lost or twice (I1, I4)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from tests.faults.proxy import BREAKING, HINDERING, TcpProxy
from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.wait import wait_until

pytestmark = pytest.mark.fault

NOTICED_S = 60.0
"""Far above the silence that the tests allow: the machine may be busy."""


ALL = tuple(HINDERING | BREAKING)
OF_EACH_KIND = ("slow", "half-open", "to the client only", "reset")
faults = pytest.mark.parametrize("names", [OF_EACH_KIND, in_soak(ALL)], ids=["of each kind", "all"])


def _survives(producer: ProducerUnderTest, proxy: TcpProxy, names: Iterable[str]) -> None:
    """Each fault in turn under load; after each the topics go on, at the end they equal the source."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    producer.publish("t")
    running = producer.start_streaming()
    with Writer(producer) as writer, producer.topics() as topics:
        for name in names:
            writer.wait_for(20)
            connections = proxy.accepted
            (HINDERING | BREAKING)[name](proxy)
            writer.wait_for(20)
            if name in BREAKING:
                wait_until(lambda: proxy.accepted > connections, f"{name}: a new connection", NOTICED_S)  # noqa: B023
            confirmed = producer.confirmed_lsn()
            topics.wait_for_cut(lambda cut: cut.end_lsn >= confirmed, f"{name}: that was confirmed", NOTICED_S)  # noqa: B023
            proxy.heal()
            producer.caught_up(topics, timeout_s=60)
    producer.check_equal(timeout_s=60)
    assert running.process.poll() is None
    assert "Traceback" not in running.log


def _behind(producer: ProducerUnderTest, proxy: TcpProxy, silence_s: int) -> None:
    """Postgres through the proxy, and how much silence is too much for both ends."""
    way = producer.database.dsn.replace(f"port={producer.database.server.port}", f"port={proxy.port}")
    producer.settings["postgres"] = {
        "dsn": f"{way} connect_timeout=2 options='-c wal_sender_timeout={silence_s}s'",
        "silence_timeout_ms": silence_s * 1000,
    }


def _stream(producer: ProducerUnderTest) -> tuple[int, datetime]:
    """The stream's connection as the server sees it, which is not the only one: its pid, its last status message; the
    server's clock where none has come yet."""
    of_slot = "pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE s.slot_name = %s"
    query = f"SELECT r.pid, coalesce(r.reply_time, clock_timestamp()) FROM {of_slot}"
    (row,) = producer.database.rows(query, (producer.slot,))
    return row


@faults
def test_every_network_fault_between_producer_and_postgres_is_survived(
    producer: ProducerUnderTest, postgres_proxy: TcpProxy, names: tuple[str, ...]
) -> None:
    _behind(producer, postgres_proxy, silence_s=2)
    _survives(producer, postgres_proxy, names)


@pytest.mark.variant(of="test_every_network_fault_between_producer_and_postgres_is_survived")
def test_silence_is_noticed_also_where_nothing_is_written_and_a_quiet_server_is_no_silence(
    producer: ProducerUnderTest, postgres_proxy: TcpProxy
) -> None:
    """The catalogue is asked over the same dead path, by a client library that would wait for ever."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    producer.publish("t")
    # Not 2: here nothing may be noticed, and on a busy machine a process may get no turn for two seconds.
    _behind(producer, postgres_proxy, silence_s=5)
    running = producer.start_streaming()
    pid, began = _stream(producer)
    # Longer than the silence that is allowed: our questions are answered, and say so to the server.
    wait_until(lambda: _stream(producer)[1] > began + timedelta(seconds=7), "some quiet seconds")
    assert _stream(producer)[0] == pid, running.log[-2000:]
    connections = postgres_proxy.accepted
    postgres_proxy.half_open()
    wait_until(lambda: postgres_proxy.accepted > connections, "a new connection", NOTICED_S)
    postgres_proxy.heal()
    producer.database.execute("INSERT INTO t VALUES (1, 1)")
    producer.check_equal()


@faults
def test_every_network_fault_between_producer_and_kafka_is_survived(
    producer: ProducerUnderTest, kafka_proxy: TcpProxy, names: tuple[str, ...]
) -> None:
    producer.settings["kafka"] = {
        "bootstrap_servers": f"127.0.0.1:{kafka_proxy.port}",
        "client": {"socket.timeout.ms": "2000", "reconnect.backoff.max.ms": "500"},
    }
    producer.settings["producer"] = {"commit_suspect_ms": 500}
    _survives(producer, kafka_proxy, names)
