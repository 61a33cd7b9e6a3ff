"""What owners of a database do to it, drawn from one seed: tables made, filled, altered, renamed, emptied, dropped,
their partitions made, attached, detached, emptied and dropped, labels renamed, schemas made, renamed and dropped with
all that is in them.

In: a connection. Out: one transaction at a time, each of which Postgres took. Names are used again: few of them soon.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg

NAMES = ("orders", "items", "users", "notes", "prices")
SCHEMAS = ("public", "archive", "attic")
"""The first is there for ever, the others come and go, and take each other's names."""
PARTS = "parts"
"""A schema for partitions, also for detached ones, and for types."""
ROWS_MAX = 40
SCHEMA_SHARE = 0.1
"""Of all transactions those of schemas: one of them may drop many tables."""

MADE = (
    "CREATE TABLE {0} (id int PRIMARY KEY, n int, v text)",
    "CREATE TABLE {0} (id bigint PRIMARY KEY, n int, v text DEFAULT 'none')",
    "CREATE TABLE {0} (n int, v text, id int); ALTER TABLE {0} REPLICA IDENTITY FULL",
    "CREATE TYPE parts.m{2} AS ENUM ('a', 'b', 'c');"
    "CREATE TABLE {0} (id int PRIMARY KEY, n int, v text, m parts.m{2} DEFAULT 'b', l parts.m{2}[] DEFAULT '{{a}}')",
    "CREATE TABLE {0} (id int PRIMARY KEY, n int, v text) PARTITION BY RANGE (id);"
    "CREATE TABLE parts.p{2} PARTITION OF {0} FOR VALUES FROM (MINVALUE) TO (20);"
    "CREATE TABLE parts.p{2}b PARTITION OF {0} FOR VALUES FROM (20) TO (MAXVALUE)",
)
"""All have a number ``n`` and a text ``v``, whatever else becomes of them, and an ``id`` that is not theirs alone."""
FILLED = "INSERT INTO {0} (id, n, v) SELECT i, i % 7, 'v' || i FROM generate_series(1, {1}) i"
WRITES = (
    "INSERT INTO {0} (id, n, v) SELECT {1} + i, 3, 'late' FROM generate_series(100, 105) i ON CONFLICT DO NOTHING",
    "UPDATE {0} SET n = n + 1 WHERE id % 5 = {1} % 5",
    "UPDATE {0} SET v = v || '.' WHERE id < {1}",
    "UPDATE {0} SET id = id + 1000 WHERE id = {1}",
    "DELETE FROM {0} WHERE id = {1}",
)
ALTERS = (
    "ALTER TABLE {0} ADD c{1} int",
    "ALTER TABLE {0} ADD c{1} int DEFAULT 7",
    "ALTER TABLE {0} ADD c{1} float8 DEFAULT random()",
    "ALTER TABLE {0} DROP IF EXISTS c{1}",
    "ALTER TABLE {0} ALTER n TYPE bigint",
    "ALTER TABLE {0} ALTER n TYPE bigint USING n * 10",
    "ALTER TABLE {0} ALTER v TYPE text USING upper(v)",
    "ALTER TABLE {0} RENAME v TO w{1}; ALTER TABLE {0} RENAME w{1} TO v",
    "TRUNCATE {0}",
    "VACUUM FULL {0}",
    "ALTER TABLE {0} ALTER v TYPE varchar(400)",
    "ALTER TABLE {0} ALTER n TYPE numeric(20,2)",
    "ALTER TABLE {0} ALTER n TYPE numeric",
    "ALTER TABLE {0} DROP c{1}; ALTER TABLE {0} ADD c{1} int",
)
PARTED = (
    "CREATE TABLE parts.p{2} PARTITION OF {0} FOR VALUES FROM ({1}) TO ({3})",
    "CREATE TABLE parts.p{2} (LIKE {0} INCLUDING ALL); INSERT INTO parts.p{2} (id, n) VALUES ({1}, 1);"
    "ALTER TABLE {0} ATTACH PARTITION parts.p{2} FOR VALUES FROM ({1}) TO ({3})",
    "CREATE TABLE parts.p{2} PARTITION OF {0} FOR VALUES FROM ({1}) TO ({3}); INSERT INTO {0} (id, n) VALUES ({1}, 2)",
)
"""Of a root: a new partition of ids from one on."""
LEFT = (
    "ALTER TABLE {0} DETACH PARTITION {1}",
    "ALTER TABLE {0} DETACH PARTITION {1}; DROP TABLE {1}",
    "DROP TABLE {1}",
    "TRUNCATE {1}",
    "TRUNCATE {0}",
)
"""Of a root and one of its partitions."""


class Habits:
    """Those of one database. Tables that are spared are named without their schema."""

    def __init__(
        self,
        dice: random.Random,
        spared: Sequence[str] = (),
        names: Sequence[str] = NAMES,
        schemas: Sequence[str] = SCHEMAS,
        schema_share: float = SCHEMA_SHARE,
    ) -> None:
        self._dice, self._spared, self._names, self._schemas = dice, list(spared), names, schemas
        self._schema_share = schema_share
        self.done = Counter[str]()
        self._number = 0
        """Of names that are not used again."""

    def act(self, connection: psycopg.Connection[Any]) -> None:
        """One transaction; what Postgres refuses did not happen."""
        self._number += 1
        kind, statements = self._drawn(connection, self._tables(connection))
        try:
            connection.execute(statements.encode())
        except psycopg.Error:
            return
        self.done[kind] += 1

    def _tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        query = (
            "SELECT schemaname || '.' || tablename FROM pg_tables "
            "WHERE schemaname = ANY (%s) AND tablename <> ALL (%s) ORDER BY 1"
        )
        return [row[0] for row in connection.execute(query, (list(self._schemas), self._spared))]

    def _drawn(self, connection: psycopg.Connection[Any], there: list[str]) -> tuple[str, str]:
        dice, number = self._dice, self._number
        name, what = f"{dice.choice(self._schemas)}.{dice.choice(self._names)}", dice.random()
        if dice.random() < self._schema_share:
            return "schemas", self._of_schemas(connection)
        if not there or (name not in there and what < 0.5):
            filled = FILLED.format(name, dice.randint(0, ROWS_MAX))
            return "made", f"{dice.choice(MADE).format(name, None, number)}; {filled}"
        name = dice.choice(there)
        if what < 0.55:
            return "written", dice.choice(WRITES).format(name, dice.randint(1, ROWS_MAX))
        if what < 0.75:
            return "altered", dice.choice(ALTERS).format(name, dice.randint(1, 3))
        if what < 0.85:
            return "parted", self._parted(connection)
        if what < 0.88:
            return "labelled", self._labelled(connection)
        if what < 0.95:
            return "renamed", self._renamed(name, there)
        return "dropped", f"DROP TABLE {name}"

    def _parted(self, connection: psycopg.Connection[Any]) -> str:
        """A partition that comes, goes, comes back or is emptied."""
        dice = self._dice
        query = """
            SELECT p.oid::regclass::text, c.oid::regclass::text FROM pg_class p
            LEFT JOIN pg_inherits i ON i.inhparent = p.oid LEFT JOIN pg_class c ON c.oid = i.inhrelid
            WHERE p.relkind = 'p' ORDER BY 1, 2"""
        parted = connection.execute(query).fetchall()
        if not parted:
            return "SELECT 1"
        root, partition = dice.choice(parted)
        start = dice.choice((-100, 0, 20, 40, 60))
        if partition is None or dice.random() < 0.4:
            return dice.choice(PARTED).format(root, start, self._number, start + 20)
        alone = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' "
            "AND NOT relispartition ORDER BY 1",
            (PARTS,),
        ).fetchall()
        if alone and dice.random() < 0.3:
            back = dice.choice(alone)[0]
            return f"ALTER TABLE {root} ATTACH PARTITION {back} FOR VALUES FROM ({start}) TO ({start + 20})"
        return dice.choice(LEFT).format(root, partition)

    def _labelled(self, connection: psycopg.Connection[Any]) -> str:
        """A label that is called otherwise, or comes."""
        labels = connection.execute("SELECT enumtypid::regtype::text, enumlabel FROM pg_enum ORDER BY 1, 2").fetchall()
        if not labels:
            return "SELECT 1"
        a_type, label = self._dice.choice(labels)
        if self._dice.random() < 0.5:
            return f"ALTER TYPE {a_type} RENAME VALUE '{label}' TO 'x{self._number}'"
        return f"ALTER TYPE {a_type} ADD VALUE 'y{self._number}' BEFORE '{label}'"

    def _renamed(self, name: str, there: list[str]) -> str:
        dice = self._dice
        schema, bare = name.split(".")
        if dice.random() < 0.3:
            return f"ALTER TABLE {name} SET SCHEMA {dice.choice([each for each in self._schemas if each != schema])}"
        others = [each.split(".")[1] for each in there if each.startswith(f"{schema}.") and each != name]
        if others and dice.random() < 0.5:
            return _swapped("TABLE", bare, dice.choice(others), f"{schema}.")
        return f"ALTER TABLE {name} RENAME TO {dice.choice(self._names)}"

    def _of_schemas(self, connection: psycopg.Connection[Any]) -> str:
        """One that comes, goes with its tables, is renamed, or has another's name, and that has its."""
        dice, (_, *passing) = self._dice, self._schemas
        query = "SELECT nspname::text FROM pg_namespace WHERE nspname = ANY (%s) ORDER BY 1"
        there = [row[0] for row in connection.execute(query, (passing,))]
        absent = [each for each in passing if each not in there]
        if not there or (absent and dice.random() < 0.4):
            return f"CREATE SCHEMA {dice.choice(absent)}"
        schema = dice.choice(there)
        if dice.random() < 0.2:
            return f"DROP SCHEMA {schema} CASCADE"
        if absent and dice.random() < 0.6:
            return f"ALTER SCHEMA {schema} RENAME TO {dice.choice(absent)}"
        return _swapped("SCHEMA", schema, dice.choice(there))


def _swapped(kind: str, one: str, other: str, prefix: str = "") -> str:
    """Both have each other's name, in one transaction."""
    swap = ((one, "swapped"), (other, one), ("swapped", other))
    return "; ".join(f"ALTER {kind} {prefix}{old} RENAME TO {new}" for old, new in swap)
