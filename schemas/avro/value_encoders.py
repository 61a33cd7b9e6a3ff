"""One value: Postgres text to Avro bytes, branch byte of the ``["null", T]`` union included.

In: the text of one value, as pgoutput and COPY print it under the pinned settings. Out: its Avro
bytes, or None when the type cannot hold it; its text then goes to ``exceptional``. Nothing is
rounded, clamped or raised. Malformed text, which Postgres never prints, raises
ValueError; the transcoder makes a ProtocolError of it.
"""

import re
import struct
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from struct import Struct

from walbridge.schemas.avro.codec import CONTINUED, SHORT, bytes_value, long_bytes
from walbridge.schemas.pg_types import ColumnType

Encoder = Callable[[bytes], bytes | None]

VALUE = b"\x02"
"""Union branch 1: a value follows."""
NULL = b"\x00"
TEXT_LENGTHS = 4096
VALUE_OF_LENGTH = [VALUE + long_bytes(n) for n in range(TEXT_LENGTHS)]
"""Branch byte and length of a short text or bytes value."""

_CACHE_MAX = 65_536
_FLOAT, _DOUBLE = Struct("<cf"), Struct("<cd")
_UNIX_EPOCH = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_TIMESTAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.(\d{1,6}))?(?:\+00)?")
_DATE = re.compile(rb"\d{4}-\d\d-\d\d")


def encode_bool(text: bytes) -> bytes:
    """``t`` or ``f``."""
    return BOOLS[text] if text in BOOLS else _refuse("bool")


BOOLS = {b"t": b"\x02\x01", b"f": b"\x02\x00"}


def _refuse(what: str) -> bytes:
    raise ValueError(f"malformed {what}")


VALUE_SHORT = [VALUE + each for each in SHORT]
VALUE_CONTINUED = [VALUE + each for each in CONTINUED]


def encode_int(text: bytes) -> bytes:
    """int2, int4, int8, oid: zigzag base 128, the common sizes by table."""
    value = int(text)
    n = value << 1 if value >= 0 else ~(value << 1)
    if n < 0x4000:
        return VALUE_SHORT[n]
    if n < 0x10000000:
        return VALUE_CONTINUED[n & 0x3FFF] + SHORT[n >> 14]
    return VALUE + long_bytes(value)


def encode_float(text: bytes) -> bytes:
    """float4; extra_float_digits = 3 prints the shortest text that reads back to the same bits.

    By way of a double, which rounds twice: that differs only for a double half-way between two
    floats, as that of ``7.038531e-26`` is.
    """
    value = float(text)
    double = _BARE_DOUBLE.pack(value)
    # Half-way: of the 29 bits that a float lacks the first is set and no other.
    if (double.startswith(b"\0\0\0") and double[3] & 0x1F == 0x10) or 0 < abs(value) < _FLOAT_NORMAL_MIN:
        return VALUE + _nearest_float(text, value)
    return _FLOAT.pack(VALUE, value)


_BARE_FLOAT, _BARE_DOUBLE = Struct("<f"), Struct("<d")
_FLOAT_NORMAL_MIN = 2.0**-126


def _nearest_float(text: bytes, value: float) -> bytes:
    exact = Fraction(text.decode("ascii"))
    near = int.from_bytes(_BARE_FLOAT.pack(value), "little")
    candidates = [each.to_bytes(4, "little") for each in (near, near + 1, near - 1) if each & 0x7FFFFFFF]
    return min(candidates, key=lambda each: (abs(Fraction(*_BARE_FLOAT.unpack(each)) - exact), each[0] & 1))


def encode_double(text: bytes) -> bytes:
    """float8, NaN and infinities included."""
    return _DOUBLE.pack(VALUE, float(text))


def encode_text(text: bytes) -> bytes:
    """Text is UTF-8 already: client_encoding is pinned."""
    n = len(text)
    return VALUE_OF_LENGTH[n] + text if n < TEXT_LENGTHS else VALUE + long_bytes(n) + text


def encode_bytea(text: bytes) -> bytes:
    r"""bytea_output = hex: ``\x`` and two digits a byte."""
    if not text.startswith(b"\\x"):
        raise ValueError("bytea is not hexadecimal")
    return encode_text(bytes.fromhex(text[2:].decode("ascii")))


def decimal_encoder(scale: int) -> Encoder:
    """numeric(p,s): Postgres prints exactly ``scale`` decimals. NaN and infinities are exceptional."""
    point = -scale - 1

    def encode_decimal(text: bytes) -> bytes | None:
        if not text[-1:].isdigit():
            return None
        digits = text
        if scale:
            if text[point:-scale] != b".":
                raise ValueError("another scale than the column's")
            digits = text[:point] + text[-scale:]
        unscaled = int(digits)
        size = (unscaled.bit_length() + 8) >> 3
        return VALUE_OF_LENGTH[size] + unscaled.to_bytes(size, "big", signed=True)

    return encode_decimal


DATES: dict[bytes, bytes] = {}
"""Dates met lately, encoded."""
SECONDS: dict[bytes, int] = {}
"""Whole seconds met lately, as ``2026-11-21 09:33:04.``, in microseconds since 1970."""


class _HighGroups(dict[int, bytes]):
    """A number's groups of base 128 but for the lowest four, made once: those of a clock change every two minutes."""

    def __missing__(self, n: int) -> bytes:
        if len(self) >= _CACHE_MAX:
            self.clear()
        left, groups = n, b""
        while left >= 0x4000:
            groups += CONTINUED[left & 0x3FFF]
            left >>= 14
        self[n] = groups = groups + SHORT[left]
        return groups


HIGH_GROUPS = _HighGroups()


def _days(text: bytes) -> int:
    return date.fromisoformat(text.decode("ascii")).toordinal() - _UNIX_EPOCH


def encode_date(text: bytes) -> bytes | None:
    """Days since 1970; ±infinity, BC and years beyond 9999 are exceptional."""
    encoded = DATES.get(text)
    if encoded is None and _DATE.fullmatch(text):
        if len(DATES) >= _CACHE_MAX:
            DATES.clear()
        encoded = DATES[text] = VALUE + long_bytes(_days(text))
    return encoded


def encode_timestamp(text: bytes) -> bytes | None:
    """Microseconds since 1970, in UTC for timestamptz (TimeZone is pinned)."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    of_day_s = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    second_us = _days(text[:10]) * _DAY_US + of_day_s * 1_000_000
    if len(SECONDS) >= _CACHE_MAX:
        SECONDS.clear()
    SECONDS[text[:19] + b"."] = second_us
    return VALUE + long_bytes(second_us + int((found[1] or b"").ljust(6, b"0")))


def array_encoder(item: ColumnType) -> Encoder:
    """A one-dimensional array with lower bound 1 whose elements the item type can hold."""
    encode_item = encoder_of(item)

    def encode_array(text: bytes) -> bytes | None:
        items = split_array(text)
        if items is None:
            return None
        encoded = [NULL if item is None else encode_item(item) for item in items]
        present = [piece for piece in encoded if piece is not None]
        if len(present) < len(encoded):
            return None
        block = long_bytes(len(present)) + b"".join(present) if present else b""
        return VALUE + block + b"\x00"

    return encode_array


# Possessive: a pattern that could go back would keep a hundred bytes a character (I9).
_QUOTED = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_BARE = re.compile(rb'[^",{}\\]+')


def split_array(text: bytes) -> list[bytes | None] | None:
    """The elements of a one-dimensional array literal; None for another shape.

    Another lower bound prints as ``[0:1]={...}``, more dimensions as nested braces.
    Source: PostgreSQL manual, "Array Input and Output Syntax".
    """
    if text == b"{}":
        return []
    if not (text.startswith(b"{") and text.endswith(b"}")) or text.startswith(b"{{"):
        return None
    items: list[bytes | None] = []
    at, end = 1, len(text) - 1
    while True:
        if found := _QUOTED.match(text, at, end):
            items.append(_unescaped(found[1]))
        elif found := _BARE.match(text, at, end):
            items.append(None if found[0] == b"NULL" else found[0])
        else:
            raise ValueError("malformed array")
        at = found.end()
        if at == end:
            return items
        if text[at] != 0x2C:
            raise ValueError("malformed array")
        at += 1


def _unescaped(quoted: bytes) -> bytes:
    if b"\\" not in quoted:
        return quoted
    return b"\\".join(part.replace(b"\\", b"") for part in quoted.split(b"\\\\"))


def encode_map(text: bytes) -> bytes:
    """hstore, ``"a"=>"1", "b"=>NULL``: Postgres keeps one order of keys, so equal values are equal bytes."""
    entries: list[bytes] = []
    at = 0
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None:
            raise ValueError("malformed hstore")
        key, value = found.groups()
        entries.append(bytes_value(_unescaped(key)) + (NULL if value is None else encode_text(_unescaped(value))))
        at = found.end()
        if at == len(text):
            break
        if text[at : at + 2] != b", " or at + 2 == len(text):
            raise ValueError("malformed hstore")
        at += 2
    block = long_bytes(len(entries)) + b"".join(entries) if entries else b""
    return VALUE + block + b"\x00"


_STRING = rb'"((?:[^"\\]++|\\.)*+)"'
_PAIR = re.compile(_STRING + rb"=>(?:" + _STRING + rb"|NULL)", re.DOTALL)


def encode_vector(text: bytes) -> bytes:
    """pgvector's ``[1,2.5]``: finite floats as ``encode_float`` reads them, many at a time."""
    if not (text.startswith(b"[") and text.endswith(b"]")):
        raise ValueError("malformed vector")
    items = text[1:-1].split(b",")
    numbers, count = [float(item) for item in items], len(items)
    bits = struct.unpack(f"{count}Q", struct.pack(f"{count}d", *numbers))
    if any(each & 0x1FFFFFFF == 0x10000000 for each in bits) or any(
        0 < abs(number) < _FLOAT_NORMAL_MIN for number in numbers
    ):
        packed = b"".join(encode_float(item)[1:] for item in items)
    else:
        packed = struct.pack(f"<{count}f", *numbers)
    return VALUE + long_bytes(count) + packed + b"\x00"


_ENCODERS: dict[str, Encoder] = {
    "bool": encode_bool,
    "int": encode_int,
    "float": encode_float,
    "double": encode_double,
    "string": encode_text,
    "bytes": encode_bytea,
    "date": encode_date,
    "timestamp": encode_timestamp,
    "timestamptz": encode_timestamp,
    "map": encode_map,
    "vector": encode_vector,
}


def encoder_of(column_type: ColumnType) -> Encoder:
    """The encoder of a column's type."""
    if column_type.codec == "decimal":
        return decimal_encoder(column_type.scale)
    if column_type.codec == "array":
        assert column_type.item is not None
        return array_encoder(column_type.item)
    return _ENCODERS[column_type.codec]
