"""One value: as Avro stores it to as JSON has it, and back; nothing is lost either way.

| Avro | JSON |
|---|---|
| boolean | ``true``, ``false`` |
| int, long | a number, beyond 2^53 as well |
| float, double | the shortest number that reads back to the same bits; ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` |
| decimal | text, as Postgres prints it: ``"12.50"`` |
| string | text; ``json`` and ``jsonb`` are text, too |
| bytes | text: base64 |
| date | a number: days since 1970 |
| local-timestamp-micros, timestamp-micros | a number: microseconds since 1970, of timestamptz in UTC |
| array | an array |
| map | an object |

In: a value with the column's type. A null is a null and never comes here. A function is None where the value stays as
it is.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from struct import Struct
from typing import Any

from walbridge.schemas.avro.value_encoders import encode_float
from walbridge.schemas.pg_types import ColumnType

Convert = Callable[[Any], Any]

_FLOAT = Struct("<f").pack
_ENOUGH_DIGITS = range(6, 10)
"""Of a float4: 6 survive it, 9 tell any two apart."""
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(column_type: ColumnType) -> Convert | None:
    """From Avro, with logical types left aside, to what JSON takes."""
    match column_type.codec:
        case "float":
            return _float_to_json
        case "double":
            return _double_to_json
        case "bytes":
            return base64_text
        case "decimal":
            return _decimal_to_json(column_type.scale)
        case "array" | "vector":
            return _of_items(column_type, to_json)
    return None


def json_text(column_type: ColumnType) -> Callable[[Any], str]:
    """From Avro likewise, to the bytes that a JSON encoder makes of what ``to_json`` gives, as text."""
    convert = to_json(column_type)
    match column_type.codec:
        case "bool":
            return {True: "true", False: "false"}.__getitem__
        case "int" | "date" | "timestamp" | "timestamptz":
            return str
        case "string":
            return encode_basestring
        case "decimal" | "bytes":
            assert convert is not None
            return lambda value: f'"{convert(value)}"'
    return dumped_text if convert is None else lambda value: dumped_text(convert(value))


dumped_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def from_json(column_type: ColumnType) -> Convert | None:
    """Makes a value for Avro of one in JSON. It raises ValueError or TypeError where the value is not of the type."""
    match column_type.codec:
        case "float" | "double":
            return _number_from_json
        case "bytes":
            return base64_bytes
        case "decimal":
            return _decimal_from_json(column_type.scale)
        case "array" | "vector":
            return _of_items(column_type, from_json)
    return None


def _of_items(column_type: ColumnType, convert: Callable[[ColumnType], Convert | None]) -> Convert | None:
    assert column_type.item is not None
    of_item = convert(column_type.item)
    if of_item is None:
        return None
    return lambda items: [None if item is None else of_item(item) for item in items]


def _double_to_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _float_to_json(value: float) -> float | str:
    """The number of fewest digits that is the same float4 to who reads it as one, and to who reads a double first."""
    if not math.isfinite(value):
        return _double_to_json(value)
    wanted = _FLOAT(value)
    for digits in _ENOUGH_DIGITS:
        short = float(f"{value:.{digits}g}")
        if _as_float(short) == wanted == encode_float(repr(short).encode())[1:]:
            return short
    return value


def _as_float(value: float) -> bytes | None:
    try:
        return _FLOAT(value)
    except OverflowError:
        return None


def _number_from_json(value: float | str) -> float:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise ValueError("a text that is no number")
        return _NOT_FINITE[value]
    return float(value)


def base64_text(value: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(value).decode("ascii")


def base64_bytes(text: str) -> bytes:
    """The bytes of a base64 text. Raises ValueError."""
    return b64decode(text, validate=True)


def _decimal_to_json(scale: int) -> Convert:
    def convert(value: bytes) -> str:
        unscaled = int.from_bytes(value, "big", signed=True)
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"

    return convert


def _decimal_from_json(scale: int) -> Convert:
    def convert(text: str) -> bytes:
        if not isinstance(text, str):
            raise TypeError("a numeric that is no text")
        sign, digits, exponent = Decimal(text).as_tuple()
        if exponent != -scale:
            raise ValueError("another scale than the column's")
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        return unscaled.to_bytes((unscaled.bit_length() + 8) >> 3, "big", signed=True)

    return convert
