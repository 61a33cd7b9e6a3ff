"""The key schema that a topic began with, and a table as it is now.

In: a key schema as it was recorded, as JSON text, and a table. Out: whether rows of the table have their keys by that
schema, in the same bytes for the same values; and which column of the table each column of the key is. Pure.

A topic has one key schema for life, so that a row stays under one key and in one partition (I3): its field names are
those of the columns when the topic began. The columns of a key are those of the table's key in the same order, so
whoever has both tells them by their places, whatever they are called.

The bytes of a value follow from its text and its Avro type. So a column is the same one where its number and its Avro
type are, and Postgres prints its values as before: of one type with any length; ``varchar``, ``text`` and ``char``
without a length alike. Not so ``char(n)``, which is filled up with blanks, and a ``numeric`` of another scale.
"""

import json
from collections.abc import Mapping
from functools import lru_cache

from walbridge.schemas.avro.schema import Json, column_field
from walbridge.schemas.pg_types import numeric_modifier
from walbridge.schemas.table_schema import TableSchema

_NAME, _NUMBER = "pg.name", "pg.attnum"


def is_key_of(recorded: str, table: TableSchema, *, is_same_relation: bool = True) -> bool:
    """Whether the table has its keys by this schema.

    Args:
        is_same_relation: else column numbers say nothing, as of a table that was made again, and names count.
    """
    known, columns = _fields(recorded), table.key_columns
    if len(known) != len(columns):
        return False
    if any(column.column_type.may_be_exceptional for column in columns) != _has_texts(recorded):
        return False
    pairs = zip(known, map(column_field, columns), strict=True)
    return all(_is_same_column(field, now, by_number=is_same_relation) for field, now in pairs)


def key_names(recorded: str) -> tuple[str, ...]:
    """What the columns of the key are called in keys: of each column of the table's key, in their order."""
    return tuple(str(field[_NAME]) for field in _fields(recorded))


def column_names(recorded: str, table: TableSchema) -> Mapping[str, str]:
    """By its name in keys, what each column of the key is called in a version of the table that has this key."""
    return dict(zip(key_names(recorded), (column.name for column in table.key_columns), strict=True))


@lru_cache(1_000)
def _fields(recorded: str) -> tuple[Json, ...]:
    """Those that are columns."""
    return tuple(field for field in json.loads(recorded)["fields"] if _NAME in field)


def _has_texts(recorded: str) -> bool:
    return any(field["name"] == "_exceptional" and _NAME not in field for field in json.loads(recorded)["fields"])


def _is_same_column(known: Json, now: Json, *, by_number: bool) -> bool:
    if by_number and _NUMBER in known and _NUMBER in now:
        return bool(known[_NUMBER] == now[_NUMBER]) and _prints_alike(known, now)
    # The catalogue may have forgotten the table, and so the numbers: then nothing may differ besides.
    return {**known, _NUMBER: None} == {**now, _NUMBER: None}


def _prints_alike(known: Json, now: Json) -> bool:
    if known["type"] != now["type"] or known.get("pg.text") != now.get("pg.text"):
        return False
    (of, detail), (of_now, detail_now) = _printed(known), _printed(now)
    # What Postgres casts to a numeric without digits keeps its scale.
    return of == of_now and (detail == detail_now or (of == "numeric" and detail_now is None))


def _printed(field: Json) -> tuple[str, int | None]:
    """What values, or their elements, are printed as: a type, and what else decides it. Of a domain that under it."""
    of, length = field.get("pg.base", field["pg.type"]), field.get("pg.base_typmod", field["pg.typmod"])
    match of.removeprefix("_"):
        case "varchar" | "text":
            return "text", None
        case "bpchar" if length == -1:
            return "text", None
        case "bpchar" | "bit" as filled_up:
            return filled_up, length
        case "numeric":
            digits = numeric_modifier(length)
            return "numeric", None if digits is None else digits[1]
    return of, None
