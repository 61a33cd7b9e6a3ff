"""The producer as a process of its own, on the shared servers, with topics of its own.

``producer.start()`` runs what ``python -m walbridge.producer`` does; ``check_equal`` waits until a cut covers what is
committed now, replays every event and compares with SELECT.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.fix_postgres import Database, new_database
from tests.forked_producer import ForkedProducer, template
from tests.replay import Replay
from tests.source_rows import check_no_table_is_absent, comparable, source_rows
from tests.topic_reader import READ_S, Topics
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.table_progress import COPYING, STALE
from walbridge.schemas.control.table_request import to_copy
from walbridge.schemas.position import parse_lsn
from walbridge.tables import copy

ROOT = Path(__file__).parent.parent
STOP_S = 40.0
KILLED = 137
MEASURED = ("bench", "soak")
"""Markers of tests that look at the time or memory of the program as it is."""
QUICK = {
    "producer": {"idle_cut_interval_ms": 50},
    "postgres": {"start_timeout_s": 20},
    "metrics": {"producer_port": 0, "job_port": 0},
}


@dataclass
class Running:
    """One process of the producer."""

    process: subprocess.Popen[bytes] | ForkedProducer
    log_file: Path

    @property
    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self.log_file.read_text(errors="replace")  # its last sign may be half written

    def exit_code(self, timeout_s: float = 60.0) -> int:
        """Wait for its end."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the producer did not end; its log:\n{self.log[-3000:]}") from None

    def wait_for_log(self, text: str, timeout_s: float = 60.0) -> None:
        def there() -> bool:
            assert self.process.poll() is None or text in self.log, f"it ended:\n{self.log[-3000:]}"
            return text in self.log

        wait_until(there, f"{text!r} in the producer's log", timeout_s)

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = STOP_S) -> None:
        """Ask it to end; it must do so with exit code 0."""
        self.process.send_signal(number)
        assert self.exit_code(timeout_s) == 0, self.log[-3000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class ProducerUnderTest:
    """A pipeline of one test: settings, processes, topics."""

    name: str
    database: Database
    kafka: KafkaBroker
    folder: Path
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    log_level: str = "debug"
    as_command: bool = False
    """Whether it is started as operators start it, and not forked from a process that has imported it."""
    more_arguments: tuple[str, ...] = ()
    """Of the command line, at each start."""
    deleted_topics: set[str] = field(default_factory=set)
    """Topics of tables that the test deleted."""
    _running: list[Running] = field(default_factory=list)

    @property
    def slot(self) -> str:
        return self.name

    @property
    def spool_dir(self) -> Path:
        """Of its processes, unless the test names another one."""
        return self.folder / "spool"

    def publish(self, *tables: str, options: str = "", name: str = "walbridge") -> None:
        """Create the publication; tables as SQL writes them, with their column lists and filters."""
        quoted = '"' + name.replace('"', '""') + '"'
        self.database.execute(f"CREATE PUBLICATION {quoted} FOR TABLE {', '.join(tables)} {options}")

    def start(self, kill_point: str | None = None, environ: Mapping[str, str] | None = None) -> Running:
        """Start ``python -m walbridge.producer``; it dies at the kill point, if one is named."""
        config = self.write_settings()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WALBRIDGE_")}
        if kill_point:
            clean["WALBRIDGE_KILL_POINT"] = kill_point
        log_file = self.folder / f"producer-{len(self._running)}.log"
        with log_file.open("wb") as log:
            arguments = ["--config", str(config), "--log-level", self.log_level, *self.more_arguments]
            process = self._started(arguments, clean | dict(environ or {}), log)
        running = Running(process, log_file)
        self._running.append(running)
        return running

    def _started(
        self, arguments: Sequence[str], environ: Mapping[str, str], log: BinaryIO
    ) -> subprocess.Popen[bytes] | ForkedProducer:
        if not self.as_command:
            return template().start(arguments, environ, log.fileno())
        command = [sys.executable, "-m", "walbridge.producer", *arguments]
        return subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )

    def write_settings(self) -> Path:
        """The settings file, as a start writes it."""
        self.spool_dir.mkdir(exist_ok=True)
        config = self.folder / "walbridge.toml"
        config.write_text(_toml(self._all_settings()))
        return config

    def _all_settings(self) -> dict[str, Any]:
        merged: dict[str, Any] = {
            "name": self.name,
            "postgres": {"dsn": self.database.dsn, "slot": self.slot},
            "kafka": {
                "bootstrap_servers": self.kafka.bootstrap_servers,
                # A broker that tests kill is back in a second: do not wait longer to see it.
                "client": {"reconnect.backoff.max.ms": "500"},
            },
            "producer": {"spool_dir": str(self.spool_dir)},
        }
        for more in (QUICK, self.settings):
            for section, values in more.items():
                merged[section] = merged.get(section, {}) | values
        return merged

    def start_streaming(self, kill_point: str | None = None, environ: Mapping[str, str] | None = None) -> Running:
        """Start and return when the stream has begun."""
        running = self.start(kill_point, environ)
        running.wait_for_log("streaming")
        return running

    def run_until_killed(self, kill_point: str) -> None:
        """Start; it must reach the kill point and die there."""
        running = self.start(kill_point)
        code = running.exit_code()
        assert code == KILLED, f"exit code {code} instead of death at {kill_point}:\n{running.log[-3000:]}"

    def refusal(self, environ: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> str:
        """Start; it must end with exit code 2 and say what and how, without a traceback. Its words."""
        return refusal_of(self.start(environ=environ), timeout_s)

    def topics(self) -> Topics:
        return Topics(self.kafka.bootstrap_servers, self.name, self._check_alive, self.deleted_topics)

    def _check_alive(self) -> None:
        """A producer that ended writes no more cuts: fail at once, with its words."""
        if self._running and (code := self._running[-1].process.poll()) is not None:
            raise AssertionError(f"the producer ended with code {code}:\n{self._running[-1].log[-3000:]}")

    def caught_up(self, topics: Topics, timeout_s: float = READ_S, *, without_changes: bool = False) -> Cut:
        """The first complete cut that covers everything committed until now.

        Args:
            without_changes: and that tells of no table, as only one does before which the catalogue was looked at.
        """
        with self.database.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            # A commit record after it, since the stream's position passes the one before only with it; and one that is
            # flushed at once, as is that of a transaction that has written something else.
            connection.execute("SELECT pg_create_restore_point('caught up'), txid_current()")
        lsn = parse_lsn(row[0])

        def covers(cut: Cut) -> bool:
            return cut.complete and cut.end_lsn >= lsn and not (without_changes and cut.tables)

        return topics.wait_for_cut(covers, f"at {row[0]}", timeout_s)

    def check_equal(
        self,
        filters: Mapping[str, str] | None = None,
        timeout_s: float = READ_S,
        never_copied: frozenset[str] = frozenset(),
    ) -> Replay:
        """Everything committed is in the topics, once, and replays to what SELECT says; once it is copied, where a cut
        says that a table does not equal its source.

        Args:
            filters: row filters by ``schema.table``.
            never_copied: names of published tables that came after the copy.
        """
        replayed = self._replayed(timeout_s)
        different = self._different(replayed, filters or {})
        # By the very cuts that were replayed: a copy may have ended since then.
        told = [relation for relation in replayed if relation.table.relation_id in replayed.await_copies]
        if different.keys() & {relation.table.qualified_name for relation in told} or (
            different and self.awaits_copies()
        ):
            wait_until(lambda: not self.awaits_copies(), "all tables to be copied", timeout_s)
            replayed = self._replayed(timeout_s)
        published = {table for table in self.published().values() if table[1] not in never_copied}
        check_no_table_is_absent(published, replayed)
        different = self._different(replayed, filters or {})
        for name, (there, wanted) in different.items():
            assert there == wanted, f"{name} differs"
        return replayed

    def published(self) -> dict[int, tuple[str, str]]:
        """Schema and name of every published table, by its oid."""
        postgres = self._all_settings()["postgres"]
        names = postgres.get("publications", [postgres.get("publication", "walbridge")])
        found = self.database.rows(
            "SELECT format('%%I.%%I', schemaname, tablename)::regclass::oid::bigint, schemaname, tablename "
            "FROM pg_publication_tables WHERE pubname = ANY (%s)",
            (names,),
        )
        return {relation_id: (str(namespace), str(name)) for relation_id, namespace, name in found}

    def _replayed(self, timeout_s: float) -> Replay:
        with self.topics() as topics:
            self.caught_up(topics, timeout_s)
            replayed = topics.replay()
            topics.check_nothing_else()
        return replayed

    def _different(self, replayed: Replay, filters: Mapping[str, str]) -> dict[str, tuple[Counter[Any], Counter[Any]]]:
        """By name, tables of which the topics hold other rows than the source; both."""
        found = {}
        for relation in replayed:
            table = relation.table
            where = filters.get(table.qualified_name, "true")
            there = Counter(map(comparable, replayed.rows(table.namespace, table.name)))
            wanted = Counter(map(comparable, source_rows(self.database, relation, where)))
            if there != wanted:
                found[table.qualified_name] = there, wanted
        return found

    def awaits_copies(self) -> bool:
        """Whether a table is not current, and will be without anybody's help."""
        with self.topics() as topics:
            progress = topics.progress()
        if progress is None:
            return False
        return bool(to_copy(progress) or {STALE, COPYING} & {table.state for table in progress.tables.values()})

    def confirmed_lsn(self) -> int:
        self.slot_at_rest()
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        return parse_lsn(self.database.value(query, (self.slot,)))

    def slot_at_rest(self) -> None:
        """If no producer runs: until the walsender has read what the last one said, and noticed its end."""
        if any(running.process.poll() is None for running in self._running):
            return
        held = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
        wait_until(lambda: not self.database.rows(held, (self.slot,)), "the slot to be let go")

    def kill_all(self) -> None:
        for running in self._running:
            running.kill()


def refusal_of(running: Running, timeout_s: float = 60.0) -> str:
    code = running.exit_code(timeout_s)
    words = running.log
    assert code == 2, f"exit code {code}:\n{words[-3000:]}"
    assert "Traceback" not in words
    assert words.count("\nerror: ") + words.startswith("error: ") == words.count("\nremedy: ") == 1
    return words[words.index("error: ") :]


def _toml(tables: Mapping[str, Any], prefix: str = "") -> str:
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    lines = [f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in plain.items()]
    for key, value in tables.items():
        if isinstance(value, Mapping):
            lines.append(f"[{prefix}{json.dumps(key)}]\n{_toml(value, f'{prefix}{json.dumps(key)}.')}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def producer(
    request: pytest.FixtureRequest,
    kafka: KafkaBroker,
    database: Database,
    pipeline_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ProducerUnderTest]:
    """A producer of this test's database, not started yet; killed when the test is over."""
    monkeypatch.setattr(copy, "_LOOK_S", 0.2)  # as the forked ones, that ``walbridge copy --wait`` waits for
    made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
    made.as_command = any(map(request.node.get_closest_marker, MEASURED))
    with contextlib.ExitStack() as stack:
        stack.callback(made.kill_all)
        yield made


@pytest.fixture
def producer_on(
    postgres_version: Callable[[int], PostgresServer], kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> Iterator[Callable[[int], ProducerUnderTest]]:
    """The same on a server of a major version."""
    with contextlib.ExitStack() as stack:

        def made_on(major: int) -> ProducerUnderTest:
            database = stack.enter_context(new_database(postgres_version(major)))
            made = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
            stack.callback(made.kill_all)
            return made

        yield made_on
