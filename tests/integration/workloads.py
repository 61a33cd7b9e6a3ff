"""What happens on a source, in SQL: one run of it on each server, read under every set of options.

In: an empty database. Out: tables, a publication of them, and transactions of every shape that
pgoutput has a way of its own for. Versions before 15 publish no part of a table, 12 no
partitioned one: there the rest is the same.
"""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg

from tests.fix_postgres import Database

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
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parted FOR VALUES FROM (100) TO (200);
CREATE TABLE bare ();
CREATE TABLE kept (id int PRIMARY KEY, n int);
ALTER TABLE kept REPLICA IDENTITY FULL;
CREATE TABLE narrow (id int PRIMARY KEY, v text, secret text);
"""
WIDE = f"CREATE TABLE wide (id int PRIMARY KEY, {', '.join(f'c{n} text' for n in range(1, 500))})"
WHOLE = ("t", "late", "parent", "child", "f", "toasted_key", "bare", "wide")


def create_tables(database: Database, version: int) -> None:
    """The tables, and publication ``pub`` of what this version can publish of them."""
    parts = ("kept WHERE (n > 10)", "narrow (id, v)") if version >= 150000 else ("kept", "narrow")
    partitions = ("parted",) if version >= 130000 else ("low", "high")
    database.execute(TABLES)
    database.execute(WIDE)
    database.execute(f"CREATE PUBLICATION pub FOR TABLE {', '.join((*WHOLE, *partitions, *parts))}")


def published_queries(version: int) -> dict[str, str]:
    """What the publication shows of each table."""
    queries = {name: f"SELECT * FROM {name}" for name in (*WHOLE, "low", "high", "kept", "narrow")}
    if version >= 150000:
        queries |= {"kept": "SELECT * FROM kept WHERE n > 10", "narrow": "SELECT id, v FROM narrow"}
    return queries


def many(first: int, count: int = 150) -> str:
    """Enough to be streamed before the transaction ends."""
    return f"INSERT INTO t SELECT n, repeat('v', 600), NULL FROM generate_series({first}, {first + count - 1}) n"


class Script:
    """Several sessions of one database, each by a letter."""

    def __init__(self, database: Database, version: int, stack: contextlib.ExitStack) -> None:
        self._database = database
        self.version = version
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


def odd_tables(run: Script) -> None:
    """Rows that move between partitions, 500 columns, none at all, COPY."""
    run("a", "BEGIN", "INSERT INTO parted SELECT n, 'p' FROM generate_series(90, 110) n", many(50000))
    run("a", "UPDATE parted SET id = id + 50 WHERE id BETWEEN 95 AND 105", "UPDATE parted SET v = 'q' WHERE id < 94")
    run("a", "INSERT INTO wide (id, c1, c499) VALUES (1, 'first', 'last'), (2, NULL, 'x')", "COMMIT")
    run("a", "UPDATE wide SET c250 = 'middle'", "UPDATE wide SET id = 3 WHERE id = 2", "DELETE FROM wide WHERE id = 1")
    run("a", "BEGIN", "INSERT INTO bare DEFAULT VALUES", "INSERT INTO bare DEFAULT VALUES", many(51000), "COMMIT")
    run("a", "INSERT INTO bare DEFAULT VALUES", "DELETE FROM parted WHERE id = 90")
    run("a", "BEGIN", """COPY f (id, v) FROM PROGRAM 'printf "70\\tcopied\\n71\\t\\\\N\\n"'""", many(52000), "COMMIT")


def filtered(run: Script) -> None:
    """Rows that enter and leave what is published of their table (15 and newer: before, all of it is)."""
    run("a", "INSERT INTO kept VALUES (1, 5), (2, 15), (3, 25)", "UPDATE kept SET n = 20 WHERE id = 1")
    run("a", "BEGIN", "UPDATE kept SET n = 5 WHERE id = 2", many(60000), "UPDATE kept SET n = n + 1", "COMMIT")
    run("a", "DELETE FROM kept WHERE id < 3", "INSERT INTO narrow VALUES (1, 'seen', 'hidden')")
    run("a", "BEGIN", many(61000), "UPDATE narrow SET secret = 'other'", "UPDATE narrow SET v = 'v', id = 2", "COMMIT")


def merged(run: Script) -> None:
    """MERGE: 15 and newer."""
    if run.version < 150000:
        return
    source = "(SELECT n AS id, 'merged' AS v FROM generate_series(69, 74) n) AS s"
    run("a", "BEGIN", many(70000))
    run(
        "a",
        f"MERGE INTO f USING {source} ON f.id = s.id WHEN MATCHED AND s.id = 70 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        "COMMIT",
    )


WORKLOADS = (
    interleaved, announced_in_streams, savepoints, changed_tables, prepared, kinds_of_change, odd_tables, filtered,
    merged,
)  # fmt: skip


END = ("i", "late", None, {"id": -1, "v": "the end"})
"""The last change of all, as ``committed.py`` tells it."""


def run_workloads(database: Database, version: int) -> None:
    """All of them, in their order."""
    with contextlib.ExitStack() as stack:
        script = Script(database, version, stack)
        for workload in WORKLOADS:
            workload(script)
        script("a", "INSERT INTO late VALUES (-1, 'the end')")
