"""The owner of a database, who writes and alters its tables in transactions with savepoints.

In: a seed, and how tables are published. Out: transactions, one step at a time, so that several can be open; for each
table what was done to it, which tells whether a copy of it was due.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from typing import Any

import psycopg

from tests.faults.differential.alterations import ALTERATIONS
from tests.faults.differential.places import PLACES, new_name
from tests.faults.differential.statements import (
    LABELS_ADDED,
    OTHER,
    TYPES_ALTERED,
    UNTOLD,
    WRITES,
    Drawn,
    Scene,
    Statement,
    inserted,
    made,
)
from tests.faults.differential.tables import Table, tables, tree

TABLES_MIN = 32
"""With fewer there, more are made."""
SETTINGS = "SET lock_timeout = '60ms'; SET client_min_messages = error; SET TimeZone = 'UTC'"

_FREE = """
    DO $$ DECLARE found record; BEGIN
      FOR found IN SELECT conrelid::regclass AS of, conname FROM pg_constraint WHERE contype = 'f' AND conrelid = {0}
      LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.of, found.conname); END LOOP;
    END $$"""

_PENDING = """
    SELECT format('ALTER TABLE %s DETACH PARTITION %s FINALIZE', inhparent::regclass, inhrelid::regclass)
    FROM pg_inherits WHERE inhdetachpending"""


class Owner:
    """One seed's.

    Attributes:
        taken: statements that Postgres took, by kind; also those that were rolled back.
        refused: those that it did not.
        done: by relation, what was committed of it: kinds of statements by effect.
    """

    def __init__(self, dice: random.Random, *, names_tables: bool) -> None:
        self._dice = dice
        self._names_tables = names_tables
        self._number = 0
        self.taken, self.refused = Counter[str](), Counter[str]()
        self.types_altered: set[str] = set()
        """How, since all tables were current."""
        self.done: defaultdict[int, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.history: defaultdict[int, list[str]] = defaultdict(list)

    def transaction(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """One, or a statement by itself; yields between its statements."""
        dice = self._dice
        if dice.random() < 0.4:
            for statement in self._drawn(connection, may_be_alone=True):
                # One that waited in vain for others has detached the partition all the same, until it is finalized.
                if self._is_taken(connection, statement) or "CONCURRENTLY" in statement.text:
                    self._note([statement])
                yield
            return
        connection.execute(b"BEGIN")
        committed: list[Statement] = []
        for _ in range(dice.randint(1, 6)):
            committed += yield from self._within_savepoint(connection)
        if dice.random() < 0.12:
            connection.execute(b"ROLLBACK")
            return
        connection.execute(b"COMMIT")
        self._note(committed)

    def _within_savepoint(self, connection: psycopg.Connection[Any]) -> Generator[None, None, list[Statement]]:
        taken: list[Statement] = []
        connection.execute(b"SAVEPOINT outside")
        for statement in self._drawn(connection, may_be_alone=False):
            connection.execute(b"SAVEPOINT inside")
            if self._is_taken(connection, statement):
                taken.append(statement)
                connection.execute(b"RELEASE inside")
            else:
                connection.execute(b"ROLLBACK TO inside")
            yield
        if self._dice.random() < 0.2:
            connection.execute(b"ROLLBACK TO outside")
            return []
        if self._dice.random() < 0.5:
            connection.execute(b"RELEASE outside")
        return taken

    def _is_taken(self, connection: psycopg.Connection[Any], statement: Statement) -> bool:
        try:
            connection.execute(statement.text.encode())
        except psycopg.OperationalError as error:
            if connection.broken:
                raise
            self.refused[f"{statement.kind}: {type(error).__name__}"] += 1
            return False
        except psycopg.Error as error:
            self.refused[f"{statement.kind}: {type(error).__name__}"] += 1
            return False
        self.taken[statement.kind] += statement.text.count(";") + 1
        return True

    def _note(self, statements: list[Statement]) -> None:
        for statement in statements:
            if statement.kind == "add label" and "add label" in self.types_altered:
                self.types_altered.add(LABELS_ADDED)
            self.types_altered |= {statement.kind} & TYPES_ALTERED
            for oid in statement.oids:
                self.done[oid][statement.effect].add(statement.kind)
                if statement.kind != "rename schema":
                    self.history[oid].append(f"{self._number} {statement.effect} {statement.text[:300]}")

    def _drawn(self, connection: psycopg.Connection[Any], *, may_be_alone: bool) -> list[Statement]:
        self._number += 1
        dice = self._dice
        scene = Scene(dice, connection, tables(connection), self._number)
        count = sum(not each.is_partition for each in scene.tables)
        if count < TABLES_MIN or dice.random() < 0.01:
            name = new_name(scene)
            return [*made(scene, name), *self._published(name)]
        kinds: tuple[Drawn, ...]
        (kinds,) = dice.choices((WRITES, ALTERATIONS, PLACES), (60, 28, 12))
        statement = dice.choice(kinds)(scene, dice.choice([each for each in scene.tables if not each.is_leaving]))
        if statement is None or (statement.alone and not may_be_alone):
            return []
        return [statement]

    def _published(self, name: str) -> list[Statement]:
        if not self._names_tables:
            return []
        return [Statement("publish", f"ALTER PUBLICATION walbridge ADD TABLE {name}")]

    def mend(self, connection: psycopg.Connection[Any]) -> None:
        """End what keeps a table from being followed: the remedies that the producer names."""
        for (text,) in connection.execute(_PENDING.encode()).fetchall():
            self._patiently(connection, text)
        while unlogged := [each for each in tables(connection) if each.persistence == "u"]:
            logged = [each for each in unlogged if self._is_logged_again(connection, each)]
            if not logged:  # they refer to each other
                connection.execute(_FREE.format(unlogged[0].oid).encode())
        for table in tables(connection):
            if (table.is_partition or table.is_root) and table.identity != "f":
                self._mended(connection, table, f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")

    def _is_logged_again(self, connection: psycopg.Connection[Any], table: Table) -> bool:
        """Not yet where it refers to one that is not."""
        with contextlib.suppress(psycopg.errors.InvalidTableDefinition):
            self._mended(connection, table, f"ALTER TABLE {table.name} SET LOGGED")
            return True
        return False

    def _mended(self, connection: psycopg.Connection[Any], table: Table, text: str) -> None:
        self._patiently(connection, text)
        for oid in tree(tables(connection), {table.oid}):
            self.history[oid].append(text)
            if "LOGGED" in text:
                self.done[oid][OTHER].add("set logged")
            elif table.is_partition:
                self.done[oid][UNTOLD].add("replica identity")  # its old rows came in parts

    @staticmethod
    def _patiently(connection: psycopg.Connection[Any], text: str) -> None:
        with connection.transaction():
            # On a busy machine a look of the producer's holds a table for longer than others wait for it.
            connection.execute(b"SET LOCAL lock_timeout = '10s'")
            connection.execute(text.encode())

    def write_everywhere(self, connection: psycopg.Connection[Any]) -> set[int]:
        """Every table that takes one has a change: these."""
        written = set()
        for table in tables(connection):
            for _ in range(0 if table.is_partition else 3):
                self._number += 1
                drawn = inserted(Scene(self._dice, connection, tables(connection), self._number), table)
                with contextlib.suppress(psycopg.Error):
                    if connection.execute(drawn.text.encode()).rowcount:
                        written.add(table.oid)
        return written
