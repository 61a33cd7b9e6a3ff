"""Thousands of random changes of one table, for readers that nobody here wrote: deletes, changes of keys, truncates,
and columns that come and go.

In: a database with the table, a seed. Out: changes, in transactions of up to 30; each call of ``make`` goes on with the
same drawing, so a seed is a history.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

import psycopg

from tests.fix_postgres import Database

TABLE = """
CREATE TABLE orders (id bigint PRIMARY KEY, price numeric(10,2), note text, due date, paid boolean, at timestamptz,
    ratio double precision, raw bytea, tags text[], big text, ref uuid, doc jsonb);
ALTER TABLE orders ALTER big SET STORAGE EXTERNAL;
INSERT INTO orders (id, price, note, tags) SELECT i, i / 3.0, 'copied ' || i, '{a,b}' FROM generate_series(1, 200) i;
"""
COLUMNS = ("id", "price", "note", "due", "paid", "at", "ratio", "raw", "tags", "big", "ref", "doc")
_ROWS_MAX = 1_500
_TRANSACTION_MAX = 30


class RandomChanges:
    """Changes of ``orders``."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database, self._random = database, random.Random(seed)
        self._ids = list(range(1, 201))
        self._next_id = 1_000
        self._extra: str | None = None
        self._extras = 0
        self.count = 0

    def make(self, count: int) -> None:
        """So many more."""
        wanted = self.count + count
        with self.database.connect() as connection:
            while self.count < wanted:
                with connection.transaction():
                    for _ in range(self._random.randint(1, _TRANSACTION_MAX)):
                        self._change(connection)

    def truncate(self) -> None:
        """And something comes behind it."""
        self.database.execute("TRUNCATE orders")
        self._ids.clear()
        self.make(50)

    def alter(self) -> None:
        """Add a column under a name of its own, or drop it again."""
        if self._extra is None:
            self._extras += 1
            self._extra = f"extra_{self._extras}"
            self.database.execute(f"ALTER TABLE orders ADD {self._extra} int")
        else:
            self.database.execute(f"ALTER TABLE orders DROP {self._extra}")
            self._extra = None
        self.make(50)

    def widen(self) -> None:
        """A precision, of which Avro's fingerprint knows nothing."""
        self.database.execute("ALTER TABLE orders ALTER price TYPE numeric(12,2)")
        self.make(50)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that the table has."""
        return COLUMNS if self._extra is None else (*COLUMNS, self._extra)

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        kinds = ("insert",) if not self._ids else ("insert", "update", "update", "delete", "key")
        kind = self._random.choice(kinds if len(self._ids) < _ROWS_MAX else kinds[1:])
        self.count += 1
        if kind == "insert":
            self._insert(connection)
            return
        at = self._random.randrange(len(self._ids))
        an_id = self._ids[at]
        if kind == "update":
            column = self._random.choice(self.columns[1:])
            connection.execute(f"UPDATE orders SET {column} = %s WHERE id = %s".encode(), (self._value(column), an_id))
        elif kind == "delete":
            self._ids[at] = self._ids[-1]
            self._ids.pop()
            connection.execute("DELETE FROM orders WHERE id = %s", (an_id,))
        else:
            self._ids[at] = self._new_id()
            connection.execute("UPDATE orders SET id = %s WHERE id = %s", (self._ids[at], an_id))

    def _insert(self, connection: psycopg.Connection[Any]) -> None:
        values = [self._new_id(), *map(self._value, self.columns[1:])]
        self._ids.append(values[0])
        places = ", ".join(["%s"] * len(values))
        connection.execute(f"INSERT INTO orders ({', '.join(self.columns)}) VALUES ({places})".encode(), values)

    def _new_id(self) -> int:
        """Sometimes one that another row had before: its events come again under the same key."""
        if self._random.random() < 0.2:
            free = self._random.randint(1, self._next_id)
            if free not in self._ids:
                return free
        self._next_id += 1
        return self._next_id

    def _value(self, column: str) -> Any:
        if self._random.random() < 0.1:
            return None
        return _DRAWN.get(column, _whole)(self._random)


def _whole(draw: random.Random) -> int:
    return draw.randint(-(2**31), 2**31 - 1)


_DRAWN: dict[str, Callable[[random.Random], Any]] = {
    "price": lambda draw: f"{draw.randint(-(10**8), 10**8 - 1) / 100:.2f}",
    "note": lambda draw: draw.choice(("", "é😀", "o'clock", "x" * draw.randint(1, 60))),
    "due": lambda draw: f"{draw.randint(1900, 2100)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
    "paid": lambda draw: draw.random() < 0.5,
    "at": lambda draw: f"{draw.randint(1900, 2100)}-02-03 04:05:06.{draw.randint(0, 999_999):06}+00",
    "ratio": lambda draw: draw.choice((0.1, -2.5, 3.0, 0.001)),
    "raw": lambda draw: draw.randbytes(draw.randint(0, 5)),
    "tags": lambda draw: [draw.choice(("a", "bc", None)) for _ in range(draw.randint(0, 3))],
    # The larger ones are stored out of line: they are not sent where an update leaves them alone.
    "big": lambda draw: draw.choice("xyz") * draw.choice((5, 2_100)),
    "ref": lambda draw: str(uuid.UUID(int=draw.getrandbits(128))),
    "doc": lambda draw: json.dumps({"n": draw.randint(0, 9)}),
}
