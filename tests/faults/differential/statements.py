"""Statements of all kinds that a table's owner gives, each with what it means for a copy of the table.

In: dice, and the tables as the catalogue has them. Out: one statement at a time. Whether Postgres takes it is for
Postgres to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.faults.differential.tables import LONG, PARTS, Column, Table, columns, tree, value

SAME = "same"
"""No row that was there reads otherwise: no copy is due."""
OTHER = "other"
"""Rows read otherwise, come or go, and the stream tells nothing of it."""
UNTOLD = "untold"
"""As ``SAME``, but Postgres tells nobody."""


_NAMED_ANEW = frozenset({"rename column", "swap columns", "alter column of the key"})


LABELS_ADDED = "add several labels"
TYPES_ALTERED = frozenset({"rename label", "add label", "add attribute", "drop attribute", "rename attribute"})


def untold_together(kinds: set[str], altered: set[str]) -> set[str]:
    """Of these, which are ``SAME`` by themselves, what nobody is told beside the others: a label that came behind a
    column of its type may have been renamed, or be another one of several; a column that came and is gone may have had
    a value in older rows; beside one that is gone, a column that has its third name by now may be any other one; and a
    key that another type of its column made again may have been away under the identity that came after.

    Args:
        altered: how types were altered that the table may not have had then: a column that came may be of one.
    """
    together = kinds & {"add label", "drop column"} if "add column" in kinds else set[str]()
    together |= kinds & {"add column"} if altered else set()
    together |= kinds & {"add label"} if LABELS_ADDED in altered else set()
    together |= kinds & {"alter type", "alter column of the key"} if "replica identity" in kinds else set()
    return together | (kinds & _NAMED_ANEW if "drop column" in kinds else set())


COLUMN_TYPES = (
    "int",
    "bigint",
    "text",
    "varchar(40)",
    "numeric(12,4)",
    "numeric(20,4)",
    "boolean",
    "float8",
    "timestamp",
    "timestamptz",
    "jsonb",
    "uuid",
    "int[]",
    "text[]",
    f"{PARTS}.mood",
    f"{PARTS}.mood[]",
    f"{PARTS}.pair",
    f"{PARTS}.amount",
)
TYPES = f"""
    CREATE TYPE {PARTS}.mood AS ENUM ('sad', 'ok', 'fine');
    CREATE TYPE {PARTS}.pair AS (a int, b text);
    CREATE DOMAIN {PARTS}.amount AS int CHECK (VALUE IS NULL OR VALUE > -1000000)"""

_REFERRING = """
    WITH RECURSIVE reached AS (
      SELECT unnest(%s::oid[]) AS oid
      UNION SELECT x.oid FROM reached r CROSS JOIN LATERAL (
        SELECT conrelid FROM pg_constraint WHERE contype = 'f' AND confrelid = r.oid
        UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = r.oid) x (oid))
    SELECT oid::int FROM reached"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One, with the relations that it concerns. ``alone``: it runs in no transaction block."""

    kind: str
    text: str
    oids: frozenset[int] = frozenset()
    effect: str = SAME
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What a statement is drawn from."""

    dice: random.Random
    connection: psycopg.Connection[Any]
    tables: Sequence[Table]
    number: int
    """Not used before in this run."""

    def tree(self, *chosen: Table) -> frozenset[int]:
        return frozenset(tree(list(self.tables), {each.oid for each in chosen}))

    def columns(self, table: Table) -> list[Column]:
        return columns(self.connection, table)

    def free_column(self, table: Table) -> Column | None:
        """One that is neither the id nor generated."""
        free = [each for each in self.columns(table) if each.name != "id" and not each.is_generated and each.is_local]
        return self.dice.choice(free) if free else None

    def referring(self, chosen: Sequence[Table]) -> list[Table]:
        """These and all that a TRUNCATE of them with CASCADE reaches."""
        rows = self.connection.execute(_REFERRING.encode(), ([each.oid for each in chosen],)).fetchall()
        reached = {row[0] for row in rows}
        return [each for each in self.tables if each.oid in reached]


Drawn = Callable[[Scene, Table], Statement | None]


def inserted(scene: Scene, table: Table) -> Statement:
    wanted = [each for each in scene.columns(table) if not each.is_generated]
    wanted = [each for each in wanted if each.name == "id" or each.is_key or scene.dice.random() < 0.8]
    first, count = scene.dice.randrange(220), scene.dice.choice((1, 1, 3, 12))
    values = ", ".join("s" if each.name == "id" else _drawn_value(scene, each, "s") for each in wanted)
    names = ", ".join(each.name for each in wanted)
    text = (
        f"INSERT INTO {table.name} ({names}) SELECT {values} FROM generate_series({first}, {first + count - 1}) s "
        "ON CONFLICT DO NOTHING"
    )
    return Statement("insert", text)


def updated(scene: Scene, table: Table) -> Statement | None:
    column = scene.free_column(table)
    if column is None:
        return None
    new = _drawn_value(scene, column, f"id + {scene.number % 97}")
    return Statement("update", f"UPDATE {table.name} SET {column.name} = {new} WHERE {_where(scene)}")


def _drawn_value(scene: Scene, column: Column, number: str) -> str:
    if scene.dice.random() < 0.1 and not column.is_key:
        return "NULL"
    if column.base == "text" and scene.dice.random() < 0.2 and not column.is_key:
        return LONG.replace("(i)", f"({number})")
    return value(column, number)


def _where(scene: Scene) -> str:
    dice = scene.dice
    return dice.choice((f"id = {dice.randrange(220)}", f"id % 9 = {dice.randrange(9)}", f"id < {dice.randrange(60)}"))


def moved(scene: Scene, table: Table) -> Statement:
    old = scene.dice.randrange(220)
    return Statement("key update", f"UPDATE {table.name} SET id = {scene.dice.randrange(220)} WHERE id = {old}")


def deleted(scene: Scene, table: Table) -> Statement:
    return Statement("delete", f"DELETE FROM {table.name} WHERE {_where(scene)}")


WRITES: tuple[Drawn, ...] = (inserted, inserted, inserted, updated, updated, updated, moved, deleted)


def made(scene: Scene, name: str) -> list[Statement]:
    """A table with its first rows."""
    dice, number = scene.dice, scene.number
    body = "id int, n int, v text"
    key = dice.choice(("PRIMARY KEY (id)", "PRIMARY KEY (id)", "PRIMARY KEY (id, k)", "CHECK (true)"))
    if key.endswith("k)"):
        body += ", k varchar(24) NOT NULL DEFAULT 'k'"
    more = "".join(
        f", c{each} {dice.choice(COLUMN_TYPES)}" for each in dice.sample(range(1, 6), dice.choice((0, 0, 1, 3)))
    )
    kind = dice.random()
    if kind < 0.25:
        texts = [
            f"CREATE TABLE {name} ({body}{more}, {key}) PARTITION BY RANGE (id)",
            f"CREATE TABLE {PARTS}.p{number} PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO (40)",
            f"CREATE TABLE {PARTS}.p{number}b PARTITION OF {name} FOR VALUES FROM (40) TO (120)",
        ]
    elif kind < 0.32 and (parents := [t for t in scene.tables if not t.is_root and not t.is_partition]):
        texts = [f"CREATE TABLE {name} ({key.replace(', k', '')}) INHERITS ({dice.choice(parents).name})"]
    elif kind < 0.36 and (others := [t for t in scene.tables if not t.is_root]):
        texts = [f"CREATE TABLE {name} AS SELECT * FROM {dice.choice(others).name}"]
    elif kind < 0.4:
        texts = [f"CREATE TABLE {name} (id serial, n int{more}, PRIMARY KEY (id))"]  # no TOAST table, maybe
    else:
        texts = [f"CREATE TABLE {name} ({body}{more}, {key})"]
    if "PRIMARY KEY" not in texts[0] or dice.random() < 0.2:
        texts += [f"ALTER TABLE {each} REPLICA IDENTITY FULL" for each in _made_by(texts)]
    if dice.random() < 0.4:
        texts.append(f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL")
    filled = f"INSERT INTO {name} (id, n) SELECT i, i % 7 FROM generate_series(1, {dice.choice((0, 5, 60))}) i"
    return [Statement("create", "; ".join([*texts, filled]))]


def _made_by(texts: list[str]) -> list[str]:
    return [each.split()[2] for each in texts if each.startswith("CREATE TABLE")]
