"""The servers, the two programs and the load, and the hand that kills them.

In: strikes. Out: kills, each told on stdout. Programs are restarted at once whenever they end, as a
container's restart policy does; servers are started again after the strike's pause. A program
that ends by itself fails the campaign, with its last words, unless it only said that a server
that was just killed gave no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.campaign.load import SCRIPT, TABLES, Pgbench
from tests.faults.campaign.schedule import BROKER, POSTGRES, PRODUCER, SPARK, Strike
from tests.fix_postgres import Database
from tests.jvm import SPARK_CONF
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.position import parse_lsn
from walbridge.spark_consumer.read import published

ROOT = Path(__file__).parents[3]
NO_ANSWER = "no answer within"
STOP_S = 60.0
POLL_S = 0.2
HEAL_S = 420.0
"""For the job above all: a JVM, and the first plan on a machine that does much else."""


@dataclass(frozen=True, slots=True)
class Play:
    """What is written to which tables, and settings of the lake besides its path, as lines of TOML."""

    tables: Sequence[str]
    script: str
    of_lake: str = ""


OF_PGBENCH = Play(TABLES, SCRIPT)


class Program:
    """One of the two programs, started again whenever it has ended."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self.name = name
        self._command = [sys.executable, "-m", *arguments]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._read_from = 0
        self.gave_up_waiting = 0
        """Ends with "no answer within …": its restart asks again."""

    def keep_running(self) -> None:
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._judge_end(code)
        self._read_from = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that a driver's JVM dies with it
            )

    def kill(self) -> None:
        """SIGKILL to the process and to what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, by: int = signal.SIGTERM) -> None:
        """Ask it to end; it must do so with exit code 0."""
        assert self._process is not None
        self._process.send_signal(by)
        code = self._process.wait(STOP_S)
        assert code == 0, f"the {self.name} stopped with code {code}:\n{self.words()[-3000:]}"
        self._process = None

    def words(self) -> str:
        """What it said since its last start."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(self._read_from)
            return log.read().decode(errors="replace")

    def log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def said_since(self, offset: int, text: str) -> bool:
        with self._log.open("rb") as log:
            log.seek(offset)
            return text.encode() in log.read()

    def _judge_end(self, code: int) -> None:
        words = self.words()
        assert code == 2 and NO_ANSWER in words, f"the {self.name} ended by itself, code {code}:\n{words[-3000:]}"  # noqa: PT018
        self.gave_up_waiting += 1


class Stage:
    """Everything that lives. A context manager: nothing outlives it."""

    def __init__(
        self, database: Database, kafka: KafkaBroker, pipeline: str, lake: Path, folder: Path, play: Play = OF_PGBENCH
    ) -> None:
        self.database, self.kafka, self.pipeline, self.lake = database, kafka, pipeline, lake
        self.config = folder / "walbridge.toml"
        self.config.write_text(settings_of(database, kafka, pipeline, lake, play))
        config = ["--config", str(self.config)]
        self.producer = Program("producer", ["walbridge.producer", *config, "--log-level", "debug"], folder)
        self.job = Program("Spark job", ["walbridge.spark_consumer", *config], folder)
        self.pgbench = Pgbench(database, folder, rate=40, text=play.script)
        self.kills: Counter[str] = Counter()
        self.pairs = 0
        self._loaded = False

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exception: object) -> None:
        self.rest()
        self.producer.kill()
        self.job.kill()
        self.database.server.start()
        self.kafka.start()

    def open(self) -> None:
        """Start both programs, the job when its topics are there; return when a copy is published."""
        self.producer.keep_running()
        self._until(lambda: self.producer.said_since(0, "streaming"), "the copy", self.producer.keep_running)
        self.wait(lambda: self.published_lsn() > 0, "the first copy to be published")

    def play(self) -> None:
        """Put the load on."""
        self._loaded = True
        self.keep_running()

    def rest(self) -> None:
        """Take the load off."""
        self._loaded = False
        self.pgbench.end()

    def keep_running(self) -> None:
        """Start again what has ended."""
        self.producer.keep_running()
        self.job.keep_running()
        if self._loaded:
            self.pgbench.keep_running()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until a condition holds, keeping all alive."""
        self._until(condition, what, self.keep_running)

    def _until(self, condition: Callable[[], bool], what: str, keep_running: Callable[[], None]) -> None:
        deadline_s = time.monotonic() + HEAL_S
        while not condition():
            assert time.monotonic() < deadline_s, self._despair(what)
            keep_running()
            time.sleep(POLL_S)

    def _despair(self, what: str) -> str:
        words = f"the job:\n{self.job.words()[-2000:]}\nthe producer:\n{self.producer.words()[-2000:]}"
        return f"waited {HEAL_S:.0f} s in vain for {what}; {words}"

    def strike(self, strike: Strike) -> None:
        """Wait for its moment, kill, and bring back."""
        self._await_moment(strike)
        for victim in strike.victims:
            self._kill(victim)
        self.kills.update(strike.victims)
        self.pairs += len(strike.victims) > 1
        self.keep_running()
        self._pause(strike.down_s)
        self.database.server.start()
        self.kafka.start()
        self.keep_running()

    def caught_up(self) -> int:
        """Take the load off and wait until the lake holds everything; the LSN that it reached."""
        self.rest()
        with self.database.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            # A commit record after it: the stream's position passes the one before only with it.
            connection.execute("SELECT pg_current_xact_id()")
        lsn = parse_lsn(row[0])
        self.wait(lambda: self.published_lsn() >= lsn, f"a published cut at {row[0]}")
        return lsn

    def published_lsn(self) -> int:
        """Of the newest published cut, 0 before the first."""
        rows = published(str(self.lake))
        return rows[-1].end_lsn if rows else 0

    def _await_moment(self, strike: Strike) -> None:
        program, text = (self.job, "event=published") if strike.aim == "plan" else (self.producer, "batch")
        if strike.aim != "any":
            since, deadline_s = program.log_size(), time.monotonic() + 5.0
            # A program that is down commits nothing: then this is a kill at any moment.
            while not program.said_since(since, text) and time.monotonic() < deadline_s:
                self.keep_running()
                time.sleep(0.002)
        self._pause(strike.delay_s)

    def _pause(self, pause_s: float) -> None:
        deadline_s = time.monotonic() + pause_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            self.keep_running()
            time.sleep(min(0.02, left_s))

    def _kill(self, victim: str) -> None:
        {
            SPARK: self.job.kill,
            PRODUCER: self.producer.kill,
            BROKER: self.kafka.kill,
            POSTGRES: self.database.server.kill,
        }[victim]()


def _environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WALBRIDGE_", "PYSPARK", "SPARK"))
    }
    home = {name: os.environ[name] for name in ("WALBRIDGE_HOME", "WALBRIDGE_JAVA", SPARK_CONF) if name in os.environ}
    return kept | home | {"JAVA_HOME": str(find_java().java_home), "SPARK_LOCAL_IP": "127.0.0.1"}


def settings_of(database: Database, kafka: KafkaBroker, pipeline: str, lake: Path, play: Play = OF_PGBENCH) -> str:
    tables = json.dumps([f"public.{name}" for name in play.tables])
    return f"""\
name = "{pipeline}"
[postgres]
dsn = "{database.dsn}"
slot = "{pipeline}"
publication_tables = {tables}
start_timeout_s = 120
[kafka]
bootstrap_servers = "{kafka.bootstrap_servers}"
client = {{ "reconnect.backoff.max.ms" = "500" }}
[topics]
partitions = 2
[producer]
idle_cut_interval_ms = 200
[lake]
path = "{lake}"
{play.of_lake}
[spark]
jars_dir = "{spark_jars()[0].parent}"
master = "local[2]"
driver_memory = "1g"
[metrics]
producer_port = 0
job_port = 0
"""
