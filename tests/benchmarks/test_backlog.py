"""A backlog's way from Kafka to the published cut, by a job that is warm: rows a second, and CPU by process.

The backlog waits in Kafka while the job stands still; then the job goes on, and the clock runs until a cut at or
after its end is published. In turns come new rows of one table, updates in it when it has a million rows, and
changes of twenty tables. At the end the lake equals the source.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.results import record
from tests.benchmarks.test_lake import (
    COPIED_S,
    PUBLISHED_S,
    JobProgram,
    end_of_wal,
    flushed_lsn,
    job_program,
    settings_of,
    wait_for_cut,
)
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.soak.test_large import ORDERS
from walbridge.schemas.settings import Settings
from walbridge.verify import compare

pytestmark = [pytest.mark.bench, pytest.mark.servers]

TRANSACTION, WARM_UP, TABLES, TABLE_ROWS = 1_000, 300_000, 20, 1_000_000


@dataclass
class Backlog:
    """One that is drained: its statements, and what they change."""

    name: str
    rows: int
    statements: list[str]


def inserts(table: str, first: int, rows: int) -> list[str]:
    return [
        f"INSERT INTO {table} SELECT * FROM mk({start}, {start + TRANSACTION - 1})"
        for start in range(first, first + rows, TRANSACTION)
    ]


def updates(table: str, first: int, rows: int) -> list[str]:
    return [
        f"UPDATE {table} SET qty = qty + 1, updated_at = clock_timestamp() "
        f"WHERE id BETWEEN {start} AND {start + TRANSACTION - 1}"
        for start in range(first, first + rows, TRANSACTION)
    ]


def mixed(tables: list[str], rows: int) -> list[str]:
    """Of each table two new rows for each that is updated."""
    new, changed = 2 * rows // 3, rows // 3
    of_tables = [inserts(name, 1, new) + updates(name, 1, changed) for name in tables]
    return [statement for of_each in zip(*of_tables, strict=True) for statement in of_each]


@pytest.mark.parametrize("rows", [500_000, in_soak(3_000_000)])
def test_backlog(producer: ProducerUnderTest, lake: Path, tmp_path: Path, rows: int) -> None:
    database = producer.database
    many = [f"orders_{number}" for number in range(1, TABLES + 1)]
    database.execute(ORDERS)
    for name in many:
        database.execute(f"CREATE TABLE {name} (LIKE orders INCLUDING ALL)")
    copied = TABLE_ROWS - WARM_UP // 2 - rows
    if copied > 0:
        database.execute(f"INSERT INTO orders SELECT * FROM mk({10 * TABLE_ROWS}, {10 * TABLE_ROWS + copied - 1})")
    producer.publish("orders", *many)
    producer.settings = {"producer": {"idle_cut_interval_ms": Settings().producer.idle_cut_interval_ms}}
    running = producer.start_streaming()
    each = rows // TABLES // 3_000 * 3_000
    backlogs = [
        Backlog("warm-up", WARM_UP, inserts("orders", 1, WARM_UP // 2) + updates("orders", 1, WARM_UP // 2)),
        Backlog("inserts", rows, inserts("orders", WARM_UP, rows)),
        Backlog("updates", rows, updates("orders", WARM_UP, rows)),
        Backlog(f"{TABLES} tables", TABLES * each, mixed(many, each)),
        Backlog(
            "one transaction",
            rows,
            [f"INSERT INTO orders SELECT * FROM mk({2 * rows + WARM_UP}, {3 * rows + WARM_UP - 1})"],
        ),
    ]
    found = {}
    with job_program(producer, lake, tmp_path) as job:
        wait_for_cut(job, end_of_wal(database), COPIED_S)
        for backlog in backlogs:
            found[f"{backlog.name} rows/s"] = round(drained(producer, job, backlog))
        results = compare(settings_of(producer, lake), timeout_s=PUBLISHED_S)
        running.stop()
    assert [result for result in results if not result.equal] == []
    record("backlog", found)


def drained(producer: ProducerUnderTest, job: JobProgram, backlog: Backlog) -> float:
    """Rows a second from the moment the job goes on until all of the backlog is published."""
    with job.standing_still():
        with producer.database.connect() as connection:
            for statement in backlog.statements:
                connection.execute(statement.encode())
            lsn = flushed_lsn(connection)
        with producer.topics() as topics:
            producer.caught_up(topics, PUBLISHED_S)
    port = int(producer.kafka.bootstrap_servers.rpartition(":")[2])
    since_s, since, used = time.monotonic(), time.time(), cpu_by_process(job, port)
    wait_for_cut(job, lsn, COPIED_S)
    took_s = time.monotonic() - since_s
    cpu = {name: s - used.get(name, 0.0) for name, s in cpu_by_process(job, port).items()}
    said = ", ".join(f"{name} {1e6 * s / backlog.rows:.1f} µs" for name, s in cpu.items() if s > 0.2)
    print(f"\nbacklog, {backlog.name}: {backlog.rows:,} rows, {backlog.rows / took_s:,.0f} rows/s; CPU a row: {said}")
    for plan in job.plans_since(since):
        print("  plan:", ", ".join(f"{name} {value:.0f}" for name, value in plan.items() if "ed_s" not in name))
    return backlog.rows / took_s


def cpu_by_process(job: JobProgram, broker_port: int) -> dict[str, float]:
    """CPU seconds of the job's Python, its JVM and the broker."""
    used: dict[str, float] = {}
    own = psutil.Process(job.process.pid)
    for each in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            name = "python" if each == own else each.name()
            used[name] = used.get(name, 0.0) + sum(each.cpu_times()[:2])
    broker = next(
        each.pid
        for each in psutil.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == broker_port
    )
    return used | {"broker": sum(psutil.Process(broker).cpu_times()[:2])}
