"""Avro records: control records in single-object encoding, events after whatever ``framing`` knows.

In: schemas and values; out: bytes, and back. Control records (Relation, Type, Cut, Progress, TableProgress,
TableRequest) go through fastavro; events are written by the producer's generated transcoder, piece by piece, with
``long_bytes`` and ``bytes_value`` of this module. Source: Avro 1.12 specification,
"Single-object encoding" and "Binary encoding".
"""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from walbridge.schemas.avro.framing import frame_of, prefix_of
from walbridge.schemas.errors import ProtocolError

CONTROL_RECORDS = (
    "Relation",
    "Type",
    "Cut",
    "Progress",
    "TableProgress",
    "TableRequest",
    "TableProgress2",
    "TableRequest2",
    "Relation2",
    "TableRequest3",
    "Relation3",
    "Relation4",
)


def schema_id(schema: Any) -> str:
    """16 hexadecimal digits: the fingerprint as its 8 bytes stand in a record (little-endian)."""
    return _fingerprint(to_parsing_canonical_form(schema))


@lru_cache(2_000)
def _fingerprint(canonical_form: str) -> str:
    # A millisecond of Python each: a session that begins again asks for those of all its tables.
    return fingerprint(canonical_form, "CRC-64-AVRO")


@cache
def control_schema(name: str) -> Any:
    """The frozen schema of a control record, parsed. ``name``: one of CONTROL_RECORDS."""
    return fastavro.parse_schema(json.loads(files("walbridge.schemas.control").joinpath(f"{name}.avsc").read_text()))


@cache
def _control_id(name: str) -> str:
    return schema_id(json.loads(files("walbridge.schemas.control").joinpath(f"{name}.avsc").read_text()))


def encode_control(name: str, record: dict[str, Any]) -> bytes:
    """Encode a control record."""
    return encode_body(prefix_of(_control_id(name)), control_schema(name), record)


def encode_body(prefix: bytes, parsed_schema: Any, record: Mapping[str, Any]) -> bytes:
    """A record after its prefix. It raises what fastavro raises where the record is none of the schema."""
    out = BytesIO()
    out.write(prefix)
    fastavro.schemaless_writer(out, parsed_schema, record)
    return out.getvalue()


def decode_control(value: bytes, names: tuple[str, ...] = CONTROL_RECORDS) -> tuple[str, dict[str, Any]]:
    """Decode a control record: its name and fields.

    Raises:
        ProtocolError: another schema (newer code wrote it), truncated, or bytes left over.
    """
    found = frame_of(value).frame_id
    name = next((name for name in names if _control_id(name) == found), None)
    if name is None:
        raise ProtocolError(f"schema {found} is none of {', '.join(names)}: newer code may have written it")
    return name, decode_body(value, control_schema(name))


def decode_body(value: bytes, parsed_schema: Any) -> dict[str, Any]:
    """Decode the body of a record whose schema is known.

    Raises:
        ProtocolError: of no known framing, truncated, malformed, or bytes left over.
    """
    return decode_between(value, frame_of(value).body_at, len(value), parsed_schema)


def decode_between(value: bytes, at: int, end: int, parsed_schema: Any) -> dict[str, Any]:
    """Decode the record that stands there. Raises as ``decode_body``."""
    source = BytesIO(value)
    source.seek(at)
    try:
        record = fastavro.schemaless_reader(source, parsed_schema, None)
    except Exception as error:  # fastavro lets IndexError, EOFError, struct.error and others through
        raise ProtocolError(f"malformed Avro body: {type(error).__name__}") from error
    if source.tell() != end:
        raise ProtocolError(f"{end - source.tell()} bytes left over after an Avro body")
    if not isinstance(record, dict):
        raise ProtocolError("an Avro body that is not a record")
    return record


_GROUPS = 1 << 14
SHORT = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(_GROUPS)]
"""Base-128 bytes of a number below 2^14: two groups of seven bits at the most."""
CONTINUED = [bytes([n & 127 | 128, n >> 7 | 128]) for n in range(_GROUPS)]
"""Two groups that are not the last."""


def long_bytes(value: int) -> bytes:
    """Avro int or long: zigzag, then base 128, least significant group first."""
    n = value << 1 if value >= 0 else ~(value << 1)
    if n < 0x4000:
        return SHORT[n]
    if n < 0x10000000:
        return CONTINUED[n & 0x3FFF] + SHORT[n >> 14]
    if n < 0x40000000000:
        return CONTINUED[n & 0x3FFF] + CONTINUED[n >> 14 & 0x3FFF] + SHORT[n >> 28]
    head = CONTINUED[n & 0x3FFF] + CONTINUED[n >> 14 & 0x3FFF] + CONTINUED[n >> 28 & 0x3FFF]
    n >>= 42
    return head + SHORT[n] if n < 0x4000 else head + CONTINUED[n & 0x3FFF] + SHORT[n >> 14]


def bytes_value(value: bytes) -> bytes:
    """Avro bytes or string: length, then the bytes."""
    return long_bytes(len(value)) + value


def string_value(value: str) -> bytes:
    """Avro string of a Python one."""
    return bytes_value(value.encode())
