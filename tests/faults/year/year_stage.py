"""Servers, load and both programs, tended by an operator who does only what they print.

In: a seed. Out: a pipeline over all tables of a database, to which ``events.py`` happens.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.end_to_end.habits import Habits
from tests.faults.campaign.load import SCHEMA, TABLES, Pgbench
from tests.faults.campaign.stage import POLL_S, ROOT, Program, settings_of
from tests.faults.year.attendant import Attendant, AttendedProgram
from tests.faults.year.year_servers import Access, LakeDisk
from tests.fix_postgres import Database
from tests.spark_consumer.program import environment
from walbridge.embedded.kafka import KafkaBroker

HEAL_S = 420.0
"""As long as in the campaign: several copies and restarts of the job, on a machine that does much else."""
VERB_S = 180.0
LARGE = "large"
BUSY = "pgbench_accounts"
"""A table that is written all the time."""
QUIET_TABLES = "CREATE SCHEMA archive; CREATE SCHEMA parts; CREATE TABLE orders (id int PRIMARY KEY, n int, v text);"


class YearStage:
    """Everything that lives. A context manager: nothing outlives it."""

    def __init__(
        self, database: Database, access: Access, kafka: KafkaBroker, pipeline: str, folder: Path, dice: random.Random
    ) -> None:
        self.database, self.access, self.kafka, self.pipeline, self.dice = database, access, kafka, pipeline, dice
        self.lake, self.config = folder / "lake", folder / "walbridge.toml"
        self.config.write_text(_of_all_tables(settings_of(database, kafka, pipeline, self.lake), access))
        self.attendant = Attendant(database, kafka, self.config)
        self.habits = Habits(dice, (*TABLES, LARGE))
        self._folder, self._producers, self._jobs = folder, 0, 0
        self.producer, self.job = self._new_producer(), self._new_job()
        self._pgbench = Pgbench(database, folder, rate=20)
        self._is_loaded = False

    def __enter__(self) -> YearStage:
        self.disk = LakeDisk(self.lake)
        self.database.execute(SCHEMA + QUIET_TABLES)
        publication = "CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)"
        self.database.execute(publication)
        self._until(self._is_begun, "the first copy", self.producer.keep_running)
        return self

    def __exit__(self, *exception: object) -> None:
        self._pgbench.end()
        self.producer.kill()
        self.job.kill()
        self.database.server.start()
        self.kafka.start()
        self.disk.close()

    def keep_running(self) -> None:
        """Start again what has ended, its remedy followed."""
        self.producer.keep_running()
        self.job.keep_running()
        if self._is_loaded:
            self._pgbench.keep_running()

    def play(self, pause_s: float) -> None:
        """Load for a while, beside what happens."""
        self._is_loaded = True
        self.pause(pause_s)

    def pause(self, pause_s: float) -> None:
        """Let things go on."""
        deadline_s = time.monotonic() + pause_s
        while time.monotonic() < deadline_s:
            self.keep_running()
            time.sleep(POLL_S)

    def rest(self) -> None:
        """Without load."""
        self._is_loaded = False
        self._pgbench.end()

    def settle(self, what: str) -> None:
        """Without load: until verify, as an operator runs it, finds every table equal, and check no error."""
        self.rest()
        self._until(self._is_equal, f"every table to be equal after {what}", self.keep_running)
        assert not self.attendant.never_asked(), f"after {what} nobody told to do: {self.attendant.never_asked()}"

    def replace_producer(self) -> None:
        """A second one is started, then the first is asked to end."""
        first, self.producer = self.producer, self._new_producer()
        self.producer.keep_running()
        first.stop()

    def replace_job(self) -> None:
        """Likewise; the second waits until the first says that it has ended."""
        first, self.job = self.job, self._new_job()
        self.job.keep_running()
        first.stop()

    def set_partitions(self, count: int) -> None:
        """In the settings, and the producer starts with them."""
        self.producer.stop()
        self.attendant.set("topics", "partitions", str(count))

    def refused(self, module: str, environ: Mapping[str, str]) -> str:
        """What a second program says that ends for the first one's sake."""
        done = subprocess.run(
            [sys.executable, "-m", module, "--config", str(self.config)],
            cwd=ROOT,
            env=environment(dict(environ)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )
        words = done.stdout + done.stderr
        assert done.returncode == 2, words
        assert "Traceback" not in words, words
        return words

    def drop_slot(self) -> None:
        """Once nobody reads it."""
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND slot_name = "
        self._until(lambda: bool(self.database.rows(f"{query}'{self.pipeline}'")), "the slot", lambda: None)

    def run(self, *arguments: str) -> str:
        """A verb, as an operator types it."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def topic_of(self, table: str) -> str:
        """Of a table in schema public, as ``walbridge tables`` names it."""
        return str(self._table(table)["topic"])

    def folder_of(self, table: str) -> Path:
        """Likewise, its folder in the lake."""
        return self.lake / str(self._table(table)["lake"]["path"])

    def _table(self, table: str) -> dict[str, Any]:
        tables = json.loads(self.run("tables", "--json"))["tables"]
        found: dict[str, Any] = next(each for each in tables if each["table"] == f"public.{table}")
        return found

    def _new_producer(self) -> Program:
        self._producers += 1
        arguments = ["walbridge.producer", "--config", str(self.config)]
        return AttendedProgram(f"producer {self._producers}", arguments, self._folder, self.attendant)

    def _new_job(self) -> Program:
        self._jobs += 1
        arguments = ["walbridge.spark_consumer", "--config", str(self.config)]
        return AttendedProgram(f"Spark job {self._jobs}", arguments, self._folder, self.attendant)

    def _is_begun(self) -> bool:
        return self.producer.said_since(0, "streaming")

    def _is_equal(self) -> bool:
        done = self._run("verify", "--json", "--timeout", "60")
        if done.returncode:
            self.attendant.hear(done.stderr)
            return False
        return not [each for each in json.loads(done.stdout)["tables"] if each["in_flux"]]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "walbridge", *arguments, "--config", str(self.config)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )

    def _until(self, condition: Callable[[], bool], what: str, keep_running: Callable[[], None]) -> None:
        deadline_s = time.monotonic() + HEAL_S
        while True:
            keep_running()
            if condition():
                return
            assert time.monotonic() < deadline_s, self._despair(what)
            time.sleep(POLL_S)

    def _despair(self, what: str) -> str:
        shown = self._run("tables").stdout
        words = f"the job:\n{self.job.words()[-2000:]}\nthe producer:\n{self.producer.words()[-3000:]}"
        return f"waited {HEAL_S:.0f} s in vain for {what}:\n{shown}\n{words}"


def _of_all_tables(settings: str, access: Access) -> str:
    """The campaign's settings, for whatever the publication holds, by a role of its own."""
    left = ("publication_tables", "dsn")
    lines = [line for line in settings.splitlines() if not line.startswith(left)]
    return "\n".join([*lines, ""]).replace("[postgres]", f"[postgres]\n{access.settings}")
