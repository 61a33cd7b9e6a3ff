"""From COMMIT in Postgres to a published cut that a reader finds, and a backlog's rows a second.

The line as an operator runs it: the producer and the job are programs of their own, the lake has
twenty tables of 100,000 rows each in the shape of ``orders``, and 180 of 10,000. A round is one transaction of 500
changes a table; it ends when a row of ``_cuts`` at or after the transaction's end is read. The
backlog waits in Kafka while the job, warm, stands still. At the end the lake equals the source.
``make bench`` prints where a plan's time goes, from what the job says of each.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.benchmarks.results import record
from tests.fix_postgres import Database
from tests.fix_producer import ROOT, ProducerUnderTest
from tests.jvm import SPARK_CONF, spark_conf
from tests.soak.test_large import ORDERS
from tests.wait import wait_until
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import parse_lsn
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE
from walbridge.spark_consumer.read import published_at
from walbridge.verify import compare

pytestmark = [pytest.mark.bench, pytest.mark.servers]

TABLES, TABLE_ROWS = 20, 100_000
ALL_TABLES, SMALL_TABLE_ROWS = 200, 10_000
WARM_UP_ROUNDS, ROUNDS, ROUNDS_OF_ALL = 5, 9, 4
UPDATED, INSERTED, DELETED = 200, 200, 100
BACKLOG_INSERTED, BACKLOG_UPDATED, BACKLOG_TRANSACTION = 200_000, 100_000, 1_000
COPIED_S, PUBLISHED_S = 900.0, 300.0

Laps = dict[str, float]
PHASES = ("to_plan_ms", "plan_ms", "read_ms", "apply_ms", "publish_ms")
"""``to_plan_ms``: from COMMIT through producer, Kafka and trigger to the first plan; the others are the job's own laps,
of all its plans together."""


@dataclass
class JobProgram:
    """``python -m walbridge.spark_consumer``, its lake and what it says."""

    process: subprocess.Popen[bytes]
    said: Path
    lake: Path

    def cpu_s(self) -> float:
        """Of Python and the JVM beside it."""
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        used_s = 0.0
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # a child that Java asked something and that has answered
                used_s += sum(each.cpu_times()[:2])
        return used_s

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Warm and stopped in its tracks, until the block ends."""
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for each in family:
            each.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for each in family:
                each.send_signal(signal.SIGCONT)

    def plans_since(self, moment_s: float) -> list[Laps]:
        """Laps of every plan that ended after that time, oldest first, with the moment it began."""
        found = []
        for line in self.said.read_text().splitlines():
            laps = {name: float(value) for name, value in re.findall(r"(\w+_ms|rows)=(\d+)", line)}
            when = re.match(r"timestamp=(\S+)", line)
            if when is None or "plan_ms" not in laps:
                continue
            ended_s = datetime.fromisoformat(when[1]).timestamp()
            took_s = sum(value for name, value in laps.items() if name.endswith("_ms")) / 1000
            if ended_s > moment_s:
                found.append(laps | {"began_s": ended_s - took_s, "ended_s": ended_s})
        return found


@dataclass
class Rounds:
    """Seconds of each round, and the medians of the phases."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    phases: list[Laps] = field(default_factory=list)

    def without(self, first: int) -> Rounds:
        """The rounds after the first ones."""
        return Rounds(self.seconds[first:], self.cpu_s[first:], self.phases[first:])

    def __str__(self) -> str:
        medians = {
            name: statistics.median(found)
            for name in PHASES
            if (found := [phases[name] for phases in self.phases if name in phases])
        }
        return (
            f"median {statistics.median(self.seconds):.2f} s, max {max(self.seconds):.2f} s "
            f"of {len(self.seconds)} rounds, {statistics.median(self.cpu_s):.2f} CPU-s; "
            + ", ".join(f"{name} {value:.0f}" for name, value in medians.items())
        )


def test_lake(producer: ProducerUnderTest, lake: Path, tmp_path: Path) -> None:
    database = producer.database
    all_names = [f"orders_{number}" for number in range(1, ALL_TABLES + 1)]
    names = all_names[:TABLES]
    database.execute(ORDERS)
    for name in all_names:
        rows = TABLE_ROWS if name in names else SMALL_TABLE_ROWS
        database.execute(
            f"CREATE TABLE {name} (LIKE orders INCLUDING ALL); INSERT INTO {name} SELECT * FROM mk(1, {rows})"
        )
    producer.publish(*all_names)
    # As by default: idle cuts every 50 ms, as other tests want them, would be plans of their own.
    producer.settings = {"producer": {"idle_cut_interval_ms": Settings().producer.idle_cut_interval_ms}}
    running = producer.start()
    running.wait_for_log("streaming", COPIED_S)
    with job_program(producer, lake, tmp_path) as job:
        wait_for_cut(job, end_of_wal(database), COPIED_S)
        one, many, all_of_them = Rounds(), Rounds(), Rounds()
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            time_round(database, job, names[:1], 2 * number, one)
            time_round(database, job, names, 2 * number + 1, many)
        for number in range(WARM_UP_ROUNDS + ROUNDS, WARM_UP_ROUNDS + ROUNDS + ROUNDS_OF_ALL):
            time_round(database, job, all_names, 2 * number, all_of_them)
        one, many, all_of_them = one.without(WARM_UP_ROUNDS), many.without(WARM_UP_ROUNDS), all_of_them.without(1)
        print(f"\nlake, 1 table x 500 changes: {one}\nlake, {TABLES} tables x 500 changes: {many}")
        print(f"lake, {ALL_TABLES} tables x 500 changes: {all_of_them}")

        rows_per_s = drain_backlog(producer, job, names[0])
        # While both run: what is compared is a cut at or after this moment.
        results = compare(settings_of(producer, lake), timeout_s=PUBLISHED_S)
        running.stop()
    assert len(results) == ALL_TABLES
    assert [result for result in results if not result.equal] == []
    record(
        "lake",
        {
            "1": round(statistics.median(one.seconds), 3),
            "1_max": round(max(one.seconds), 3),
            str(TABLES): round(statistics.median(many.seconds), 3),
            f"{TABLES}_max": round(max(many.seconds), 3),
            str(ALL_TABLES): round(statistics.median(all_of_them.seconds), 3),
            "backlog_rows_per_s": round(rows_per_s),
        },
    )


def time_round(database: Database, job: JobProgram, tables: list[str], number: int, rounds: Rounds) -> None:
    """One transaction of 500 changes a table, timed from its COMMIT to its published cut."""
    cpu_s = job.cpu_s()
    with database.connect() as connection:
        with connection.transaction():
            for name in tables:
                connection.execute(changes(name, number).encode())
        committed_s, since_s = time.time(), time.monotonic()
        lsn = flushed_lsn(connection)
    wait_for_cut(job, lsn)
    rounds.seconds.append(time.monotonic() - since_s)
    wait_until(lambda: bool(job.plans_since(committed_s)), "the plan to be reported")
    rounds.cpu_s.append(job.cpu_s() - cpu_s)
    # A transaction that takes several batches is applied from the first on, so it may take several plans.
    plans = [plan for plan in job.plans_since(committed_s) if plan["rows"]]
    laps = {name: sum(plan[name] for plan in plans) for name in PHASES[1:] if all(name in plan for plan in plans)}
    rounds.phases.append(laps | {"to_plan_ms": 1000 * (plans[0]["began_s"] - committed_s)})


def changes(table: str, number: int) -> str:
    """200 updates all over the table, 200 inserts, 100 deletes; other rows each time."""
    rows = TABLE_ROWS if int(table.rpartition("_")[2]) <= TABLES else SMALL_TABLE_ROWS
    step = rows // (UPDATED + DELETED)
    first = TABLE_ROWS + 1 + number * INSERTED
    return f"""
        UPDATE {table} SET qty = qty + 1, status = 'paid', updated_at = clock_timestamp()
          WHERE id IN (SELECT {number} + g * {step} + 1 FROM generate_series(0, {UPDATED - 1}) g);
        DELETE FROM {table}
          WHERE id IN (SELECT {number} + g * {step} + 1
                       FROM generate_series({UPDATED}, {UPDATED + DELETED - 1}) g);
        INSERT INTO {table} SELECT * FROM mk({first}, {first + INSERTED - 1});
    """


def drain_backlog(producer: ProducerUnderTest, job: JobProgram, table: str) -> float:
    """Rows a second from the moment the job goes on until all of a waiting backlog is published."""
    database = producer.database
    with job.standing_still():
        first = 10 * TABLE_ROWS
        with database.connect() as connection:
            for start in range(first, first + BACKLOG_INSERTED, BACKLOG_TRANSACTION):
                connection.execute(
                    f"INSERT INTO {table} SELECT * FROM mk({start}, {start + BACKLOG_TRANSACTION - 1})".encode()
                )
            for start in range(first, first + BACKLOG_UPDATED, BACKLOG_TRANSACTION):
                connection.execute(
                    f"UPDATE {table} SET qty = qty + 1, updated_at = clock_timestamp() "
                    f"WHERE id BETWEEN {start} AND {start + BACKLOG_TRANSACTION - 1}".encode()
                )
            lsn = flushed_lsn(connection)  # not later: an idle cut would be waited for
        with producer.topics() as topics:
            producer.caught_up(topics, PUBLISHED_S)
    since_s, since, cpu_s = time.monotonic(), time.time(), job.cpu_s()
    wait_for_cut(job, lsn)
    took_s = time.monotonic() - since_s
    rows = BACKLOG_INSERTED + BACKLOG_UPDATED
    print(f"lake, backlog of {rows:,} rows: {rows / took_s:,.0f} rows/s, {job.cpu_s() - cpu_s:.1f} CPU-s")
    for plan in job.plans_since(since):
        print("  plan:", ", ".join(f"{name} {plan[name]:.0f}" for name in ("rows", *PHASES[1:]) if name in plan))
    return rows / took_s


def end_of_wal(database: Database) -> int:
    with database.connect() as connection:
        return flushed_lsn(connection)


def flushed_lsn(connection: Connection[Any]) -> int:
    """After a commit of this connection: the end of its transaction."""
    row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])


def wait_for_cut(job: JobProgram, lsn: int, timeout_s: float = PUBLISHED_S) -> None:
    """Until a reader finds a published cut at or after ``lsn``."""
    seen, newest = 0, 0

    def there() -> bool:
        nonlocal seen, newest
        assert job.process.poll() is None, f"the job ended:\n{job.said.read_text()[-3000:]}"
        # Looked at only when there is a new row: polling must not take the job's cores.
        if (rows := len(list((job.lake / CUTS_TABLE / "_delta_log").glob("*.json")))) != seen:
            seen, newest = rows, newest_lsn(job.lake)
        return newest >= lsn

    wait_until(there, "the cut to be published", timeout_s, poll_s=0.01)


def newest_lsn(lake: Path) -> int:
    """What a reader is given now, 0 before the first published cut."""
    with contextlib.suppress(OperatorError):
        return published_at(str(lake)).end_lsn
    return 0


def settings_of(producer: ProducerUnderTest, lake: Path) -> Settings:
    return Settings(
        name=producer.name,
        postgres={"dsn": producer.database.dsn, "slot": producer.slot},  # type: ignore[arg-type]
        kafka={"bootstrap_servers": producer.kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )


@contextlib.contextmanager
def job_program(producer: ProducerUnderTest, lake: Path, folder: Path) -> Iterator[JobProgram]:
    """The job as a program on two cores; killed should the block fail."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environ |= {
        SPARK_CONF: spark_conf(folder),
        "JAVA_HOME": str(find_java().java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "WALBRIDGE_LAKE__PATH": str(lake),
        "WALBRIDGE_LAKE__PUBLISH_INTERVAL_MS": "0",
        "WALBRIDGE_SPARK__JARS_DIR": str(spark_jars()[0].parent),
        "WALBRIDGE_SPARK__DRIVER_MEMORY": "1g",
        "WALBRIDGE_SPARK__MASTER": "local[2]",
    }
    said = folder / "job.log"
    command = [sys.executable, "-m", "walbridge.spark_consumer", "--config", str(producer.folder / "walbridge.toml")]
    with said.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield JobProgram(process, said, lake)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, said.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
