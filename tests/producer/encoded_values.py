"""A value's way through an encoder and back: fastavro is the reader."""

from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.value_encoders import encoder_of
from walbridge.schemas.pg_types import BUILTIN_NAMES, ColumnType, column_type

_OIDS = {name: oid for oid, name in BUILTIN_NAMES.items()}


def type_named(name: str, typmod: int = -1) -> ColumnType:
    """A built-in type; ``_name`` is its array."""
    return column_type(_OIDS[name], typmod, {})


def read(known: ColumnType, encoded: bytes | None) -> Any:
    """What an Avro reader makes of the bytes, which must be used up."""
    assert encoded is not None
    source = BytesIO(encoded)
    value = fastavro.schemaless_reader(source, fastavro.parse_schema(["null", known.avro]), None)
    assert source.tell() == len(encoded)
    return value


def through(name: str, text: str | bytes, typmod: int = -1) -> Any:
    """Text of a built-in type, encoded and read back."""
    known = type_named(name, typmod)
    return read(known, encoder_of(known)(text if isinstance(text, bytes) else text.encode()))


def is_exceptional(name: str, text: str, typmod: int = -1) -> bool:
    return encoder_of(type_named(name, typmod))(text.encode()) is None
