"""The same WAL says the same under every set of options, on every version that has them.

One workload a server, one slot for each set of options; each slot's messages are put together as
``committed.py`` says and compared with those of a session without options, and with the tables.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import psycopg
import pytest

from producer.pgoutput.messages import Unsent
from producer.pgoutput.options import StreamWishes, start_options
from schemas.errors import OperatorError
from tests.fix_postgres import Database, new_database
from tests.producer.pgoutput.committed import Event, Reader, Transaction
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.postgres_versions import MAJORS

TABLES = """
CREATE TABLE t (id int PRIMARY KEY, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent);
CREATE TABLE f (id int, v text);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE late (id int PRIMARY KEY, v text);
CREATE TABLE toasted_key (k text PRIMARY KEY, n int);
ALTER TABLE toasted_key ALTER k SET STORAGE EXTERNAL;
CREATE PUBLICATION pub FOR TABLE t, late, parent, child, f, toasted_key;
"""
LEVERS = {
    "work_mem": (12, "SET logical_decoding_work_mem = '64kB'"),
    "immediate": (16, "SET debug_logical_replication_streaming = immediate"),
}
_STREAMING: tuple[tuple[Literal["off", "on", "parallel"], str], ...] = (
    ("off", "work_mem"), ("on", "work_mem"), ("on", "immediate"), ("parallel", "work_mem"), ("parallel", "immediate"),
)  # fmt: skip


def many(first: int, count: int = 150) -> str:
    """Enough to be streamed before the transaction ends."""
    return f"INSERT INTO t SELECT n, repeat('v', 600), NULL FROM generate_series({first}, {first + count - 1}) n"


class Script:
    """Several sessions of one database, each by a letter."""

    def __init__(self, database: Database, stack: contextlib.ExitStack) -> None:
        self._database = database
        self._stack = stack
        self._sessions: dict[str, psycopg.Connection[Any]] = {}

    def __call__(self, letter: str, *statements: str) -> None:
        if letter not in self._sessions:
            self._sessions[letter] = self._stack.enter_context(self._database.connect())
        for statement in statements:
            self._sessions[letter].execute(statement.encode())


def interleaved(run: Script) -> None:
    """Blocks of several transactions in turn, whole ones between them, one that is rolled back."""
    run("a", "BEGIN", many(1000))
    run("b", "BEGIN", many(2000))
    run("c", "INSERT INTO f VALUES (1, 'between')")
    run("a", many(3000), "UPDATE t SET v = 'a' WHERE id < 1010")
    run("d", "BEGIN", many(4000))
    run("b", many(5000), "COMMIT")
    run("d", many(6000), "ROLLBACK")
    run("a", "DELETE FROM t WHERE id = 1003", "COMMIT")


def announced_in_streams(run: Script) -> None:
    """The server takes a relation of a streamed transaction for known after its commit, not after its abort."""
    run("a", "BEGIN", "INSERT INTO late VALUES (1, 'never')", many(7000), "ROLLBACK")
    run("a", "BEGIN", "INSERT INTO late VALUES (2, 'streamed')", many(8000), "COMMIT")
    run("a", "INSERT INTO late VALUES (3, 'not streamed')")


def savepoints(run: Script) -> None:
    """Nested ones, rolled back out of their order."""
    run(
        "a", "BEGIN", many(10000), "SAVEPOINT s1", many(11000), "SAVEPOINT s2", many(12000), "SAVEPOINT s3", many(13000)
    )
    run("a", "ROLLBACK TO s2", many(14000), "SAVEPOINT s4", "UPDATE t SET v = 's4' WHERE id = 11000", "RELEASE s4")
    run("a", "SAVEPOINT s5", many(15000), "ROLLBACK TO s5", "SAVEPOINT s6", "DELETE FROM t WHERE id = 11001")
    run("a", "RELEASE s1", "SAVEPOINT s7", many(16000), "ROLLBACK TO s7", many(17000), "COMMIT")
    run("a", "BEGIN", "SAVEPOINT s1", many(18000), "ROLLBACK TO s1", "COMMIT")


def changed_tables(run: Script) -> None:
    """ALTER TABLE in a streamed transaction, in a savepoint that is rolled back, in a transaction that is."""
    run("a", "BEGIN", many(20000), "ALTER TABLE t ADD COLUMN extra int", "INSERT INTO t VALUES (21000, 'x', NULL, 1)")
    run("a", "SAVEPOINT s", "ALTER TABLE t ADD COLUMN gone text", "INSERT INTO t VALUES (21001, 'x', NULL, 1, 'g')")
    run("a", many(22000), "ROLLBACK TO s", "INSERT INTO t VALUES (21002, 'x', NULL, 2)", many(23000), "COMMIT")
    run("a", "INSERT INTO t VALUES (21003, 'after', NULL, 3)")
    run("a", "BEGIN", "ALTER TABLE f ADD COLUMN never int", "INSERT INTO f VALUES (9, 'x', 1)", many(24000), "ROLLBACK")
    run("a", "INSERT INTO f VALUES (2, 'after')")


def prepared(run: Script) -> None:
    """Large and small ones, with savepoints, committed late or rolled back; one name used again."""
    run("a", "BEGIN", many(30000), "SAVEPOINT s", many(31000), "ROLLBACK TO s", "INSERT INTO f VALUES (3, 'p')")
    run("a", "PREPARE TRANSACTION 'one'")
    run("b", "BEGIN", "INSERT INTO f VALUES (4, 'small')", "PREPARE TRANSACTION 'two'")
    run("c", "INSERT INTO f VALUES (5, 'between')", "COMMIT PREPARED 'two'", "COMMIT PREPARED 'one'")
    run("a", "BEGIN", many(32000), "PREPARE TRANSACTION 'one'", "ROLLBACK PREPARED 'one'")
    run("b", "BEGIN", "INSERT INTO f VALUES (6, 'x')", "PREPARE TRANSACTION 'one'", "ROLLBACK PREPARED 'one'")


def kinds_of_change(run: Script) -> None:
    """Keys that change, values and keys out of line, TRUNCATE with CASCADE, COPY's and conflicts' rows."""
    run("a", "INSERT INTO t VALUES (1, 'big', repeat('x', 3000))")
    run("a", "INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1, 1)")
    run("a", "INSERT INTO toasted_key VALUES (repeat('k', 2100), 1)")
    run("a", "BEGIN", many(40000), "UPDATE t SET v = 'same big' WHERE id = 1", "UPDATE toasted_key SET n = 2")
    run("a", "UPDATE t SET id = id + 1000 WHERE id BETWEEN 40000 AND 40009", "UPDATE f SET v = 'w' WHERE id < 3")
    run("a", "INSERT INTO t (id, v) VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET v = 'conflict'")
    run("a", "INSERT INTO t (id, v) VALUES (1, 'c') ON CONFLICT DO NOTHING", "UPDATE toasted_key SET k = k || '!'")
    run("a", "DELETE FROM toasted_key", "COMMIT")
    run("a", "BEGIN", many(42000), "TRUNCATE parent RESTART IDENTITY CASCADE", many(43000))
    run("a", "INSERT INTO parent VALUES (3)", "INSERT INTO child VALUES (3, 3)", "COMMIT")


WORKLOADS = (interleaved, announced_in_streams, savepoints, changed_tables, prepared, kinds_of_change)


@dataclass(frozen=True, slots=True)
class Asked:
    """A set of options, and how the server is made to stream."""

    wishes: StreamWishes
    lever: str

    @property
    def slot(self) -> str:
        wishes = self.wishes
        return f"{wishes.streaming}_{self.lever}_{'b' * wishes.binary}_{'p' * wishes.two_phase}_slot"


EVERY_SET = [
    Asked(StreamWishes(binary=binary, streaming=streaming, two_phase=two_phase), lever)
    for streaming, lever in _STREAMING
    for binary, two_phase in product((False, True), (False, True))
]
PLAIN = EVERY_SET[0]


def asked_of(version: int) -> list[Asked]:
    """Every set that this server can be asked for, the newest last."""
    return [asked for asked in EVERY_SET if version >= LEVERS[asked.lever][0] * 10000 and _can(version, asked.wishes)]


def _can(version: int, wishes: StreamWishes) -> bool:
    with contextlib.suppress(OperatorError):
        start_options(["pub"], version, wishes)
        return True
    return False


@dataclass(frozen=True, slots=True)
class Run:
    """A server after the workloads."""

    database: Database
    version: int

    def committed(self, asked: Asked) -> tuple[list[Transaction], set[str]]:
        """What a slot's messages say, and their tags."""
        options = start_options(["pub"], self.version, asked.wishes)
        query = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s)"
        pairs = [part for pair in options.items() for part in pair]
        with self.database.connect() as session:
            if asked.wishes.streaming != "off":
                session.execute(LEVERS[asked.lever][1].encode())
            payloads = [data for (data,) in session.execute(query.encode(), (self.slot(asked), pairs))]
        return Reader().read(payloads), {chr(payload[0]) for payload in payloads}

    def slot(self, asked: Asked) -> str:
        return f"{asked.slot}_{self.database.name}"


@pytest.fixture(scope="module")
def runs(postgres_version: Callable[[int], PostgresServer]) -> Iterator[Callable[[int], Run]]:
    """The workloads run once on each server, when first asked for."""
    made: dict[int, Run] = {}
    with contextlib.ExitStack() as stack:

        def of(major: int) -> Run:
            if major not in made:
                made[major] = _run(stack.enter_context(new_database(postgres_version(major))))
            return made[major]

        yield of


def _run(database: Database) -> Run:
    with database.connect() as connection:
        run = Run(database, connection.info.server_version)
        connection.execute(TABLES.encode())
        for asked in asked_of(run.version):
            two_phase = ", false, true" if asked.wishes.two_phase else ""
            create = f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{two_phase})"
            connection.execute(create.encode(), (run.slot(asked),))
    with contextlib.ExitStack() as stack:
        script = Script(database, stack)
        for workload in WORKLOADS:
            workload(script)
    return run


def sets_tested() -> Iterator[tuple[int, Asked]]:
    """All on the newest version, the newest on the others; MATRIX=1: all."""
    for major in MAJORS:
        sets = [asked for asked in asked_of(major * 10000) if asked != PLAIN]
        for asked in sets if major == MAJORS[-1] or os.environ.get("MATRIX") else sets[-1:]:
            yield major, asked


@pytest.mark.parametrize(
    ("major", "asked"), list(sets_tested()), ids=lambda each: each.slot if isinstance(each, Asked) else str(each)
)
def test_options_change_neither_what_was_committed_nor_its_positions(
    runs: Callable[[int], Run], major: int, asked: Asked
) -> None:
    """I4: position, table, operation and row of every change."""
    plain, _ = runs(major).committed(PLAIN)
    found, tags = runs(major).committed(asked)

    assert ("S" in tags, "p" in tags or "P" in tags) == (asked.wishes.streaming != "off", asked.wishes.two_phase)
    for expected, transaction in zip(plain, found, strict=True):
        assert (expected.commit_lsn, expected.end_lsn) == (transaction.commit_lsn, transaction.end_lsn)
        assert expected.events == transaction.events


@pytest.mark.parametrize("major", MAJORS)
def test_what_was_committed_adds_up_to_the_tables(runs: Callable[[int], Run], major: int) -> None:
    transactions, _ = runs(major).committed(PLAIN)
    tables: dict[str, list[dict[str, Any]]] = {
        "t": [],
        "late": [],
        "parent": [],
        "child": [],
        "f": [],
        "toasted_key": [],
    }
    for transaction in transactions:
        for event in transaction.events:
            _apply(tables, event)

    for name, rows in tables.items():
        with runs(major).database.connect() as connection:
            cursor = connection.execute(f"SELECT * FROM {name}".encode())
            columns = [column.name for column in cursor.description or ()]
            expected = [dict(zip(columns, row, strict=True)) for row in cursor]
        complete = [dict.fromkeys(columns) | row for row in rows]
        assert sorted(expected, key=str) == sorted(complete, key=str)


def _apply(tables: dict[str, list[dict[str, Any]]], event: Event) -> None:
    operation, table, before, after = event
    rows = tables[table]
    if operation == "t":
        rows.clear()
    if operation in ("u", "d"):
        known = before or {name: value for name, value in (after or {}).items() if name in ("id", "k")}
        (old,) = [row for row in rows if known.items() <= row.items()][:1]
        rows.remove(old)
        after = after and {n: old.get(n) if v is Unsent.UNCHANGED_TOAST else v for n, v in after.items()}
    if after is not None:
        rows.append(after)
