"""What a table of the lake holds and what Postgres prints of it, without any code that encodes, applies or verifies.

In: a table of one published cut, and its source at rest. Out: rows as Python's values, comparable with each other: a
value that its column cannot hold is its text.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from psycopg import sql

from tests.fix_postgres import Database
from tests.soak.histories.rows_as_copied import fields_as_copied
from walbridge.lake import LakeTable

Rows = Counter[tuple[str, ...]]
_OURS = "_walbridge"
_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_boolean, lambda text: text in ("t", "true")),
    (pa.types.is_integer, int),
    (pa.types.is_float32, lambda text: struct.unpack("f", struct.pack("f", float(text)))[0]),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, lambda text: datetime.fromisoformat(text).isoformat()),
    (pa.types.is_binary, lambda text: bytes.fromhex(text[2:])),
    (pa.types.is_large_binary, lambda text: bytes.fromhex(text[2:])),
)


def rows_of_lake(table: LakeTable) -> Rows:
    """As of its version."""
    fields, found = _compared(table), Counter[tuple[str, ...]]()
    for batch in table.reader():
        for row in batch.to_pylist():
            exceptional = dict((row[_OURS] or {}).get("exceptional") or ())
            found[tuple(repr(exceptional.get(each.name, _plain(row[each.name]))) for each in fields)] += 1
    return found


def rows_of_source(database: Database, table: LakeTable) -> Rows:
    """Of the table alone, or of all its partitions."""
    fields, (namespace, name) = _compared(table), table.name.split(".", 1)
    arrays = [each.name for each in fields if _is_array(each)]
    # One for each column and array: Postgres selects no more than 1,664 expressions.
    selected = [*map(_column, fields), *(_as_json(_column(each)) for each in fields if _is_array(each))]
    found = Counter[tuple[str, ...]]()
    for row in fields_as_copied(database, (namespace, name), selected):
        texts = [None if each is None else each.decode() for each in row]
        listed = dict(zip(arrays, texts[len(fields) :], strict=True))
        values = zip(texts, fields, strict=False)
        found[tuple(repr(_value(text, listed.get(each.name), each.type)) for text, each in values)] += 1
    return found


def _compared(table: LakeTable) -> list[pa.Field]:
    """All but maps, which nothing that Postgres prints is easily made of."""
    return [each for each in table.schema if each.name != _OURS and not pa.types.is_map(each.type)]


def _is_array(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    of_array = (metadata.get(b"pg.base") or metadata[b"pg.type"]).startswith(b"_")
    return bool(of_array and pa.types.is_list(field.type))


def _column(field: pa.Field) -> sql.Identifier:
    """Under the name that the source has for it."""
    return sql.Identifier((field.metadata or {}).get(b"pg.name", field.name.encode()).decode())


def _as_json(column: sql.Identifier) -> sql.Composable:
    """An array as the lake has it."""
    return sql.SQL(
        "CASE WHEN array_ndims({0}) > 1 OR array_lower({0}, 1) <> 1 THEN NULL ELSE to_jsonb({0}) END"
    ).format(column)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _value(text: str | None, listed: str | None, kind: pa.DataType) -> Any:
    if text is None:
        return None
    try:
        if not pa.types.is_list(kind):
            return _scalar(text, kind)
        elements = json.loads(listed or text, parse_float=str, parse_int=str)
        return [None if each is None else _scalar(_element(each), kind.value_type) for each in elements]
    except (ValueError, ArithmeticError):
        return text


def _element(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _scalar(text: str, kind: pa.DataType) -> Any:
    value = next((parse for is_of, parse in _SCALARS if is_of(kind)), str)(text)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(text)
    return value
