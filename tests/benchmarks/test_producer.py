"""The producer's speed: drained backlogs, the first copy, latency; ``make bench``.

One run, one machine: what another machine gives is told by the ratio to a loop that receives the
same bytes and drops them. Settings are the defaults. CPU is that of the producer's process from
START_REPLICATION on, the client library's threads included; memory is the peak of its whole life.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from psycopg import pq

from tests.benchmarks.producer_log import drained_s, said
from tests.benchmarks.results import record
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running
from tests.topic_reader import Topics
from tests.wait import wait_until
from walbridge.embedded.postgres import ENVIRON
from walbridge.producer.postgres.connection import connect_walsender
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.requirements import stream_options
from walbridge.schemas.position import parse_lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import data_topic

pytestmark = [pytest.mark.bench, pytest.mark.servers]

WORKLOADS = Path(__file__).parent / "workloads"
W1_ROWS, W3_ROWS, W5_ROWS, W6_ROWS = 1_000_000, 500_000, 2_000_000, 2_000_000
W4_RATE, W4_SECONDS, W4_WARM_UP_SECONDS = 1_000, 20, 5
COPIED_BYTES_PER_S = 8 * 2**20
"""Half a core, or less."""
DRAINED_S = 600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one drained backlog."""

    rows_per_s: int
    cpu_s_per_million: float
    peak_rss_mb: int
    main_thread_cpu_s_per_million: float | None = None
    """Of it, what our own loop took; the rest are the client library's threads."""
    machine_cpu_s_per_million: float | None = None
    """Of the whole machine: Postgres' and the broker's share of it, too."""


def _sql(database: Database, name: str) -> None:
    database.execute((WORKLOADS / f"{name}.sql").read_text())


@pytest.fixture
def orders(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A producer at its defaults over the empty table of all workloads."""
    producer.settings["producer"] = {"idle_cut_interval_ms": 2_000}
    producer.settings["postgres"] = {"publication": "pub"}
    producer.log_level = "info"
    _sql(producer.database, "schema")
    return producer


def drain(producer: ProducerUnderTest, rows: int) -> Cost:
    """Start over the backlog, and wait until all of it is in Kafka."""
    running = producer.start_streaming()
    before_s = _cpu_s(running.process.pid)
    seconds = drained_s(running, rows, DRAINED_S)
    spent = [
        round((now - then) / rows * 1e6, 2) for then, now in zip(before_s, _cpu_s(running.process.pid), strict=True)
    ]
    cost = Cost(round(rows / seconds), spent[0], _peak_rss_mb(running), *spent[1:])
    running.stop()
    return cost


def _cpu_s(pid: int) -> tuple[float, float, float]:
    """Of a process, of its main thread, of the machine."""
    process, machine = psutil.Process(pid), psutil.cpu_times()
    main = next(thread for thread in process.threads() if thread.id == pid)
    return sum(process.cpu_times()[:2]), main.user_time + main.system_time, sum(machine[:3])


def _peak_rss_mb(running: Running) -> int:
    """``VmHWM``: the most this process ever held."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024


def _receive_only(producer: ProducerUnderTest, slot: str, rows: int) -> float:
    """Rows a second that a loop around psycopg receives and drops."""
    walsender = connect_walsender(producer.database.dsn)
    settings = Settings.model_validate({"name": producer.name, "postgres": producer.settings["postgres"]})
    options = stream_options(settings, walsender.server_version)
    with ReplicationStream(walsender, slot, 10_000) as stream:
        stream.start(parse_lsn("0/0"), options)
        started_s = time.monotonic()
        _drop(walsender, rows)
        return rows / (time.monotonic() - started_s)


def _drop(walsender: pq.abc.PGconn, rows: int) -> None:
    insert, left = ord("I"), rows
    while left:
        size, data = walsender.get_copy_data(1)
        if size > 25:
            left -= data[25] == insert
        elif size == 0:
            select.select([walsender.socket], [], [])
            walsender.consume_input()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_w1_a_million_inserts_in_transactions_of_a_thousand(orders: ProducerUnderTest, binary: bool) -> None:
    orders.settings["postgres"]["binary"] = binary
    orders.start_streaming().stop()
    receiver = f"{orders.slot}_receiver"
    orders.database.value("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (receiver,))
    _sql(orders.database, "w1")

    receive_only = _receive_only(orders, receiver, W1_ROWS)
    cost = drain(orders, W1_ROWS)
    again = _receive_only(orders, receiver, W1_ROWS)

    floor = (receive_only + again) / 2
    _keep(
        "w1_binary" if binary else "w1",
        cost,
        receive_only_rows_per_s=round(floor),
        ratio=round(cost.rows_per_s / floor, 3),
    )


def test_w3_half_a_million_updates_in_transactions_of_ten(orders: ProducerUnderTest) -> None:
    _sql(orders.database, "w3_pre")
    orders.start_streaming().stop()
    _sql(orders.database, "w3")

    _keep("w3", drain(orders, W3_ROWS))


_FIRST_COPY = {"snapshot": ("copy begins", "copied"), "beside": ("copy of a table begins", "table is copied")}
"""By ``first_copy``: the lines of the log between which all is copied."""


@pytest.mark.parametrize("first_copy", _FIRST_COPY)
@pytest.mark.parametrize("workers", [0, 2])
def test_w5_copy_of_two_million_rows(orders: ProducerUnderTest, workers: int, first_copy: str) -> None:
    """By the producer alone, and with worker processes. What the server itself needs is asked for in the same run."""
    orders.settings["producer"] |= {"copy_workers": workers, "first_copy": first_copy}
    begin, end = _FIRST_COPY[first_copy]
    _sql(orders.database, "w6")
    before = _copy_out(orders.database, "orders")

    running = orders.start()
    peaks: dict[int, int] = {}
    wait_until(lambda: _saw_workers(running, peaks) or _has_said(running, end), "the copy", DRAINED_S)

    begins, ends = (next(line.at_s for line in said(running) if line.event == e) for e in (begin, end))
    wait_until(lambda: _has_said(running, "streaming"), "the end of its workers", 60)
    cpu_s = _cpu_with_workers_s(running.process.pid)
    cost = Cost(round(W5_ROWS / (ends - begins)), round(cpu_s / W5_ROWS * 1e6, 2), _peak_rss_mb(running))
    running.stop()
    floor = (before + _copy_out(orders.database, "orders")) / 2
    more = {"copy_out_rows_per_s": round(floor), "ratio": round(cost.rows_per_s / floor, 3)}
    section = ("w5" if first_copy == "snapshot" else "w5_first_beside") + (f"_workers_{workers}" if workers else "")
    _keep(section, cost, **more, worker_peak_rss_mb=max(peaks.values(), default=0))


def _has_said(running: Running, event: str) -> bool:
    assert running.process.poll() is None, f"the producer ended:\n{running.log[-3000:]}"
    return any(line.event == event for line in said(running))


def _saw_workers(running: Running, peaks: dict[int, int]) -> bool:
    """Remember the most memory that each of its processes had so far; False."""
    for worker in psutil.Process(running.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            peaks[worker.pid] = max(peaks.get(worker.pid, 0), worker.memory_info().rss >> 20)
    return False


def _cpu_with_workers_s(pid: int) -> float:
    """Also of those that have ended."""
    process = psutil.Process(pid)
    alive = (sum(worker.cpu_times()[:2]) for worker in process.children())
    return float(sum(process.cpu_times()[:4]) + sum(alive))


@pytest.mark.parametrize("workers", [0, 2])
def test_w5_copy_of_two_million_rows_beside_the_stream(orders: ProducerUnderTest, workers: int) -> None:
    """Of a table that comes. What the server itself needs is asked for in the same run, before and after."""
    orders.settings["producer"]["copy_workers"] = workers
    running = orders.start_streaming()
    made = f"CREATE TABLE late (LIKE orders INCLUDING ALL); INSERT INTO late SELECT * FROM mk(1, {W5_ROWS})"
    orders.database.execute(made)
    before = _copy_out(orders.database, "late")
    cpu_before_s = _cpu_with_workers_s(running.process.pid)
    orders.database.execute("ALTER PUBLICATION pub ADD TABLE late")
    peaks: dict[int, int] = {}
    wait_until(lambda: _saw_workers(running, peaks) or _has_said(running, "table is copied"), "the copy", DRAINED_S)
    cpu_s = _cpu_with_workers_s(running.process.pid) - cpu_before_s
    after = _copy_out(orders.database, "late")

    events = ("copy of a table begins", "table is copied")
    begins, ends = (next(line.at_s for line in said(running) if line.event == event) for event in events)
    cost = Cost(round(W5_ROWS / (ends - begins)), round(cpu_s / W5_ROWS * 1e6, 2), _peak_rss_mb(running))
    floor = (before + after) / 2
    more = {"copy_out_rows_per_s": round(floor), "ratio": round(cost.rows_per_s / floor, 3)}
    section = f"w5_beside_workers_{workers}" if workers else "w5_beside"
    _keep(section, cost, **more, worker_peak_rss_mb=max(peaks.values(), default=0))
    running.stop()


def _copy_out(database: Database, table: str) -> float:
    """Rows a second of ``COPY … TO STDOUT``, received and dropped."""
    with database.connect() as connection, connection.cursor() as cursor:
        started_s = time.monotonic()
        with cursor.copy(f"COPY {table} TO STDOUT".encode()) as copy:
            while copy.read():
                pass
        return W5_ROWS / (time.monotonic() - started_s)


def test_w6_one_transaction_of_two_million_rows(orders: ProducerUnderTest) -> None:
    orders.start_streaming().stop()
    _sql(orders.database, "w6")

    _keep("w6", drain(orders, W6_ROWS))


def test_w4_latency_to_a_read_committed_consumer(orders: ProducerUnderTest) -> None:
    """From the commit's own time to the moment a consumer holds the row, at 1,000 commits a second."""
    _sql(orders.database, "w4_pre")
    running = orders.start_streaming()
    latencies_ms = _latencies_at_rate_ms(orders)
    running.stop()
    values = {"p50_ms": _at(latencies_ms, 50), "p99_ms": _at(latencies_ms, 99), "commits": len(latencies_ms)}
    print(f"\nw4: {values}; {record('w4', values)}")


def test_w4_latency_while_another_table_is_copied_at_a_limit(orders: ProducerUnderTest) -> None:
    """The same in one run without and with a copy that may take half a core."""
    orders.settings["producer"]["copy_bytes_per_s"] = COPIED_BYTES_PER_S
    _sql(orders.database, "w4_pre")
    made = f"CREATE TABLE late (LIKE orders INCLUDING ALL); INSERT INTO late SELECT * FROM mk(1, {W5_ROWS})"
    orders.database.execute(made)
    running = orders.start_streaming()
    alone_ms = _latencies_at_rate_ms(orders)
    orders.database.execute("ALTER PUBLICATION pub ADD TABLE late")
    wait_until(lambda: any(line.event == "copy of a table begins" for line in said(running)), "the copy", 60)
    before_s, begun_s = sum(psutil.Process(running.process.pid).cpu_times()[:2]), time.monotonic()
    beside_ms = _latencies_at_rate_ms(orders)
    spent_s = sum(psutil.Process(running.process.pid).cpu_times()[:2]) - before_s
    assert not any(line.event == "table is copied" for line in said(running)), "the copy ended too soon"
    seconds = time.monotonic() - begun_s
    values = {
        "p50_ms": _at(beside_ms, 50),
        "p99_ms": _at(beside_ms, 99),
        "p50_ratio": round(_at(beside_ms, 50) / _at(alone_ms, 50), 2),
        "p99_ratio": round(_at(beside_ms, 99) / _at(alone_ms, 99), 2),
        "cores": round(spent_s / seconds, 2),
        "peak_rss_mb": _peak_rss_mb(running),
    }
    print(f"\nw4_beside: {values}; {record('w4_beside', values)}")
    running.stop()


def _latencies_at_rate_ms(producer: ProducerUnderTest) -> list[float]:
    """In their order by size, of a load of some seconds."""
    with _Listener(producer) as listener:
        begun_us = time.time_ns() // 1000
        _commit_at_rate(producer.database, W4_WARM_UP_SECONDS + W4_SECONDS)
        committed = producer.database.value("SELECT count(*) FROM orders")
        wait_until(lambda: len(listener.heard) >= committed, "all rows at the consumer", 30)
    with producer.topics() as topics:
        return sorted(_latencies_ms(topics, listener, begun_us + W4_WARM_UP_SECONDS * 1_000_000))


def _at(sorted_ms: list[float], percent: int) -> float:
    return round(sorted_ms[int(len(sorted_ms) * percent / 100)], 1)


def _commit_at_rate(database: Database, seconds: int) -> None:
    options = [f"--rate={W4_RATE}", f"--time={seconds}", "--client=4", "--no-vacuum", f"--file={WORKLOADS / 'w4.sql'}"]
    command = [str(database.server.bin("pgbench")), *options, database.dsn]
    subprocess.run(command, env=ENVIRON, check=True, capture_output=True)


class _Listener:
    """Hears rows as they become visible, and only notes when: decoding waits until the load is over."""

    def __init__(self, producer: ProducerUnderTest) -> None:
        topic = data_topic(producer.name, "public", "orders", {})
        self.heard: list[tuple[int, bytes]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": producer.kafka.bootstrap_servers,
                "group.id": "latency",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.heard.append((time.time_ns() // 1000, message.value() or b""))

    def __enter__(self) -> _Listener:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()
        self._consumer.close()


def _latencies_ms(topics: Topics, listener: _Listener, since_us: int) -> list[float]:
    found = []
    for at_us, value in listener.heard:
        source = topics.envelope(value)[1]["source"]
        if source["snapshot"] == "false" and source["ts_us"] >= since_us:
            found.append((at_us - source["ts_us"]) / 1000)
    return found


def _keep(section: str, cost: Cost, **more: float) -> None:
    values = {name: value for name, value in asdict(cost).items() if value is not None} | more
    path = record(section, values)
    print(f"\n{section}: {values}; {path}")
