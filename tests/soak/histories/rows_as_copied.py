"""Rows of a table as COPY gives them, each value by the text that Postgres prints: the oracle for any type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg import sql

from tests.fix_postgres import Database
from tests.replay import Row, value_of_text
from walbridge.schemas.control.metadata_record import RelationRecord

_PINNED = """
    SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC; SET extra_float_digits = 3;
    SET bytea_output = hex; SET lc_monetary = 'C'; SET search_path = ''; SET client_encoding = UTF8;
    SET row_security = off; SET quote_all_identifiers = off"""
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_FILTERS = """
    SELECT rowfilter FROM pg_publication_tables t JOIN pg_class c ON c.relname = t.tablename
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
    WHERE c.oid = %s"""
_KIND = """
    SELECT c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s"""


def rows_let_through(database: Database, relation: RelationRecord) -> list[Row]:
    """Those that the table's publications publish (15 and newer): one without a filter makes the others void."""
    found = [row[0] for row in database.rows(_FILTERS, (relation.table.relation_id,))]
    conditions = ["true"] if None in found or not found else [f"({each})" for each in found]
    return rows_as_copied(database, relation, " OR ".join(conditions))


def rows_as_copied(database: Database, relation: RelationRecord, where: str = "true") -> list[Row]:
    """All rows that this condition holds for, their values as Avro has them."""
    table = relation.table
    columns = [sql.Identifier(each.name) for each in table.columns]
    return [
        {
            column.name: None if field is None else value_of_text(field, column.column_type)
            for column, field in zip(table.columns, row, strict=True)
        }
        for row in fields_as_copied(database, (table.namespace, table.name), columns, where)
    ]


def fields_as_copied(
    database: Database, table: tuple[str, str], selected: Sequence[sql.Composable], where: str = "true"
) -> list[list[bytes | None]]:
    """What Postgres prints of these expressions, of the table alone or of all its partitions."""
    with database.connect() as connection:
        connection.execute(_PINNED)
        is_root = connection.execute(_KIND, table).fetchall() == [("p",)]
        query = sql.SQL("COPY (SELECT {} FROM {}{} WHERE {}) TO STDOUT").format(
            sql.SQL(", ").join(selected),
            sql.SQL("" if is_root else "ONLY "),
            sql.Identifier(*table),
            sql.SQL(where),
        )
        with connection.cursor().copy(query) as copied:
            lines = b"".join(bytes(each) for each in copied).split(b"\n")[:-1]
    return [[_unescaped(field) for field in line.split(b"\t")] if selected else [] for line in lines]


def _unescaped(field: bytes) -> bytes | None:
    if field == b"\\N":
        return None
    return re.sub(rb"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), field, flags=re.DOTALL)
