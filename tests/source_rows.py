"""What SELECT says of a published table, its values as Avro has them: the oracle of what was replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from tests.fix_postgres import Database
from tests.replay import Replay, Row, Text
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import ColumnType


def source_rows(database: Database, relation: RelationRecord, where: str = "true") -> list[Row]:
    """The table as SELECT gives it, its values as Avro has them or as ``Text``."""
    columns = relation.table.columns
    list_or_text = "CASE WHEN array_ndims({0}) > 1 THEN {0}::text ELSE to_jsonb({0})::text END"
    selected = [
        sql.SQL(list_or_text if column.column_type.codec == "array" else "{0}::text").format(
            sql.Identifier(column.name)
        )
        for column in columns
    ]
    query = sql.SQL("SELECT {} FROM {}{} WHERE {}").format(
        sql.SQL(", ").join(selected),
        sql.SQL("" if _is_partitioned(database, relation) else "ONLY "),
        sql.Identifier(relation.table.namespace, relation.table.name),
        sql.SQL(where),
    )
    with psycopg.connect(database.dsn, options="-c extra_float_digits=3 -c bytea_output=hex -c timezone=UTC") as each:
        rows = each.execute(query).fetchall()
    return [
        {column.name: _parsed(text, column.column_type) for column, text in zip(columns, row, strict=True)}
        for row in rows
    ]


def _is_partitioned(database: Database, relation: RelationRecord) -> bool:
    return bool(database.value("SELECT relkind = 'p' FROM pg_class WHERE oid = %s", (relation.table.relation_id,)))


_PARSE: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": float,
    "double": float,
    "bytes": lambda text: bytes.fromhex(text[2:]),
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "array": lambda text: tuple(json.loads(text)),
}


def _parsed(text: str | None, column_type: ColumnType) -> Any:
    if text is None or column_type.codec == "string":
        return text
    try:
        if column_type.codec == "decimal":
            number = Decimal(text)
            return number if number.is_finite() else Text(text)
        return _PARSE[column_type.codec](text)
    except ValueError:
        return Text(text)


def check_no_table_is_absent(published: set[tuple[str, str]], replayed: Replay) -> None:
    """Even an empty table has an event: the one that begins its copy."""
    absent = published - {(relation.table.namespace, relation.table.name) for relation in replayed}
    assert not absent, f"the topics hold nothing of {sorted(absent)}"


def comparable(row: Row) -> tuple[tuple[str, str], ...]:
    """Values by what Python prints: it takes 0.0 and -0.0, 1 and true, 1.5 and 1.50 for equal."""
    return tuple(sorted((name, repr(value)) for name, value in row.items()))
