"""Tables as a database's catalogue has them now, and values that fit their columns.

In: a connection, which sees what its own transaction did. Out: tables with their columns, for who draws statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

PARTS = "parts"
"""A schema for partitions, also for detached ones, and for types. All others hold tables only."""

_TABLES = """
    SELECT c.oid::int, n.nspname, c.relname, c.relkind = 'p', c.relispartition, c.relpersistence,
           c.relreplident, c.reltoastrelid > 0,
           coalesce((SELECT array_agg(i.inhparent::int) FROM pg_inherits i WHERE i.inhrelid = c.oid), '{}'),
           EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND i.inhdetachpending)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p')
    AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname NOT IN ('information_schema', 'walbridge')
    ORDER BY 2, 3"""
_COLUMNS = """
    SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), b.typcategory, format_type(b.oid, NULL),
           a.attgenerated <> '', a.attislocal,
           EXISTS (SELECT FROM pg_index x
                   WHERE x.indrelid = a.attrelid AND a.attnum = ANY (x.indkey) AND x.indisprimary)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Table:
    """One that may be published, or a partition. ``is_leaving``: its DETACH … CONCURRENTLY was broken off, and Postgres
    crashes where it decodes a row that was written to it by its own name (docs/limits.md)."""

    oid: int
    namespace: str
    bare: str
    is_root: bool
    is_partition: bool
    persistence: str
    identity: str
    has_toast: bool
    parents: Sequence[int]
    is_leaving: bool

    @property
    def name(self) -> str:
        """As SQL writes it."""
        return f"{self.namespace}.{self.bare}"


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table: its type, and of what kind the type under it is."""

    number: int
    name: str
    type: str
    category: str
    base: str
    is_generated: bool
    is_local: bool
    is_key: bool


def tables(connection: psycopg.Connection[Any]) -> list[Table]:
    """All of them."""
    rows = connection.execute(_TABLES.encode()).fetchall()
    return [Table(*row) for row in rows]


def columns(connection: psycopg.Connection[Any], table: Table) -> list[Column]:
    """Those of a table, in their order."""
    return [Column(*row) for row in connection.execute(_COLUMNS.encode(), (table.oid,)).fetchall()]


def tree(all_tables: list[Table], oids: set[int]) -> set[int]:
    """These tables with all that are above and below them: partitions, roots, parents, children."""
    found = set(oids)
    while True:
        more = {each.oid for each in all_tables if found & set(each.parents)}
        more |= {parent for each in all_tables if each.oid in found for parent in each.parents}
        if more <= found:
            return found
        found |= more


_VALUES = {
    "B": "i % 2 = 0",
    "D": "timestamp '2024-01-01' + i * interval '1 hour'",
    "S": "'t' || i",
    "N": "i % 90",
    "E": "(enum_range(NULL::{0}))[1 + i % 2]",
    "C": """jsonb_populate_record(NULL::{0}, jsonb_build_object('a', i, 'b', 'x' || i))""",
}
_BASES = {"jsonb": "jsonb_build_object('i', i)", "bytea": "decode(md5(i::text), 'hex')", "uuid": "md5(i::text)::uuid"}
LONG = "repeat(md5((i)::text), 90)"
"""Of a text that is stored out of line where the column's storage says so."""


def value(column: Column, number: str) -> str:
    """SQL of a value of this column, by the number that SQL gives there."""
    if column.base.endswith("[]"):
        item = "i % 90" if column.base[:-2] in ("integer", "bigint") else "'t' || i"
        text = f"ARRAY[{item}]"
    else:
        text = _BASES.get(column.base) or _VALUES.get(column.category, "NULL").format(column.base)
    return f"(SELECT ({text})::{column.type} FROM (VALUES ({number})) AS of_row (i))"
