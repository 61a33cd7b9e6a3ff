"""What owners of a database do to it, drawn from one seed: tables made, filled, altered, renamed, emptied, dropped.

In: a connection. Out: one transaction at a time, each of which Postgres took. Names are few, so they are used again.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import psycopg

NAMES = ("orders", "items", "users", "notes", "prices")
SCHEMAS = ("public", "archive")
ROWS_MAX = 40

MADE = (
    "CREATE TABLE {0} (id int PRIMARY KEY, n int, v text)",
    "CREATE TABLE {0} (id bigint PRIMARY KEY, n int, v text DEFAULT 'none')",
    "CREATE TABLE {0} (n int, v text, id int); ALTER TABLE {0} REPLICA IDENTITY FULL",
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
)


class Habits:
    """Those of one database."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.done = Counter[str]()

    def act(self, connection: psycopg.Connection[Any]) -> None:
        """One transaction; what Postgres refuses did not happen."""
        kind, statements = self._drawn(self._tables(connection))
        try:
            connection.execute(statements.encode())
        except psycopg.Error:
            return
        self.done[kind] += 1

    def _tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname = ANY (%s) ORDER BY 1"
        return [row[0] for row in connection.execute(query, (list(SCHEMAS),))]

    def _drawn(self, there: list[str]) -> tuple[str, str]:
        dice = self._dice
        name, what = f"{dice.choice(SCHEMAS)}.{dice.choice(NAMES)}", dice.random()
        if not there or (name not in there and what < 0.5):
            return "made", f"{dice.choice(MADE).format(name)}; {FILLED.format(name, dice.randint(0, ROWS_MAX))}"
        name = dice.choice(there)
        if what < 0.6:
            return "written", dice.choice(WRITES).format(name, dice.randint(1, ROWS_MAX))
        if what < 0.85:
            return "altered", dice.choice(ALTERS).format(name, dice.randint(1, 3))
        if what < 0.95:
            return "renamed", self._renamed(name, there)
        return "dropped", f"DROP TABLE {name}"

    def _renamed(self, name: str, there: list[str]) -> str:
        dice = self._dice
        schema, bare = name.split(".")
        if dice.random() < 0.3:
            return f"ALTER TABLE {name} SET SCHEMA {dice.choice([each for each in SCHEMAS if each != schema])}"
        others = [each.split(".")[1] for each in there if each.startswith(f"{schema}.") and each != name]
        if others and dice.random() < 0.5:
            other = dice.choice(others)
            swap = ((bare, "swapped"), (other, bare), ("swapped", other))
            return "; ".join(f"ALTER TABLE {schema}.{old} RENAME TO {new}" for old, new in swap)
        return f"ALTER TABLE {name} RENAME TO {dice.choice(NAMES)}"
