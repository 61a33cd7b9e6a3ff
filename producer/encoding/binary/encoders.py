"""One value: binary format to Avro bytes, branch byte of the ``["null", T]`` union included.

In: a column's type and what its values are in binary. Out: the encoder that gives the bytes that
its text encoder gives of the same value, or None where the type cannot hold it; the value's text
then goes to ``exceptional``. Where there is no shorter way the value is read as text first.
"""

import struct
from collections.abc import Callable
from datetime import date
from struct import Struct

from walbridge.producer.encoding.binary.containers import read_array
from walbridge.producer.encoding.binary.extensions import floats_of_vector, pairs_of_hstore
from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.encoding.binary.types import BinaryFacts, TypeReaders
from walbridge.schemas.avro.codec import bytes_value, long_bytes
from walbridge.schemas.avro.value_encoders import NULL, VALUE, VALUE_OF_LENGTH, Encoder, encode_text, encoder_of
from walbridge.schemas.pg_types import ColumnType

_FLOAT, _DOUBLE = Struct("<cf"), Struct("<cd")
_BIG_FLOAT, _BIG_DOUBLE = Struct(">f"), Struct(">d")
_INT32, _INT64 = Struct(">i"), Struct(">q")
_NUMERIC = Struct(">HhHH")
_GROUPS = [Struct(f">{count}H") for count in range(13)]
"""Of a numeric: 38 digits are eleven groups at the most."""
_POWERS = [10**n for n in range(64)]
_SPECIAL = 0xC000
NAN_FLOAT, NAN_DOUBLE = _FLOAT.pack(VALUE, float("nan")), _DOUBLE.pack(VALUE, float("nan"))
"""The one NaN that text can tell; processors make others."""
TO_1970_DAYS = 10_957
TO_1970_US = TO_1970_DAYS * 86_400_000_000
_FIRST = date(1, 1, 1).toordinal() - date(2000, 1, 1).toordinal()
FIRST_DAY, END_DAY = _FIRST, _FIRST + date(9999, 12, 31).toordinal()
FIRST_US, END_US = FIRST_DAY * 86_400_000_000, END_DAY * 86_400_000_000
"""From the year 1 until after 9999, counted from 2000 as Postgres does."""
BOOLS = {b"\x01": b"\x02\x01", b"\x00": b"\x02\x00"}


def _integer(data: bytes) -> bytes:
    return VALUE + long_bytes(int.from_bytes(data, "big", signed=True))


def _oid(data: bytes) -> bytes:
    return VALUE + long_bytes(int.from_bytes(data, "big"))


def _bool(data: bytes) -> bytes:
    return BOOLS[data]


def _float(data: bytes) -> bytes:
    (number,) = _BIG_FLOAT.unpack(data)
    return _FLOAT.pack(VALUE, number) if number == number else NAN_FLOAT


def _double(data: bytes) -> bytes:
    (number,) = _BIG_DOUBLE.unpack(data)
    return _DOUBLE.pack(VALUE, number) if number == number else NAN_DOUBLE


def _date(data: bytes) -> bytes | None:
    (days,) = _INT32.unpack(data)
    return VALUE + long_bytes(days + TO_1970_DAYS) if FIRST_DAY <= days < END_DAY else None


def _timestamp(data: bytes) -> bytes | None:
    (at_us,) = _INT64.unpack(data)
    return VALUE + long_bytes(at_us + TO_1970_US) if FIRST_US <= at_us < END_US else None


def _map(data: bytes) -> bytes:
    entries = [
        bytes_value(key) + (NULL if value is None else encode_text(value)) for key, value in pairs_of_hstore(data)
    ]
    block = long_bytes(len(entries)) + b"".join(entries) if entries else b""
    return VALUE + block + b"\x00"


def _vector_of(code: str) -> Encoder:
    def encode_vector(data: bytes) -> bytes:
        numbers = floats_of_vector(data, code)
        return VALUE + long_bytes(len(numbers)) + struct.pack(f"<{len(numbers)}f", *numbers) + b"\x00"

    return encode_vector


def decimal_encoder(scale: int) -> Encoder:
    """numeric(p,s) of up to 38 digits. NaN and infinities are exceptional."""

    def encode_decimal(data: bytes) -> bytes | None:
        count, weight, sign, shown = _NUMERIC.unpack_from(data)
        if sign >= _SPECIAL:
            return None
        if shown != scale:
            raise ValueError("another scale than the column's")
        number: int = 0
        for group in _GROUPS[count].unpack(data[8:]):
            number = number * 10_000 + group
        shift = 4 * (weight - count + 1) + scale
        if shift >= 0:
            number *= _POWERS[shift]
        else:
            number, lost = divmod(number, _POWERS[-shift])
            if lost:
                raise ValueError("more decimals than the column's")
        if sign:
            number = -number
        size: int = (number.bit_length() + 8) >> 3
        return VALUE_OF_LENGTH[size] + number.to_bytes(size, "big", signed=True)

    return encode_decimal


_ENCODERS: dict[tuple[str, str], Encoder] = {
    ("int", "int2send"): _integer,
    ("int", "int4send"): _integer,
    ("int", "int8send"): _integer,
    ("int", "oidsend"): _oid,
    ("bool", "boolsend"): _bool,
    ("float", "float4send"): _float,
    ("double", "float8send"): _double,
    ("bytes", "byteasend"): encode_text,
    ("date", "date_send"): _date,
    ("timestamp", "timestamp_send"): _timestamp,
    ("timestamptz", "timestamptz_send"): _timestamp,
    ("map", "hstore_send"): _map,
    ("vector", "vector_send"): _vector_of("f"),
    ("vector", "halfvec_send"): _vector_of("e"),
}
"""By codec and send function: the facts say already that the function is the one that is meant."""


def binary_encoder_of(column_type: ColumnType, facts: BinaryFacts, readers: TypeReaders) -> Encoder:
    """The encoder of a column's type, or of its array's elements."""
    send = facts.send[1] if facts.send else ""
    if (column_type.codec, send) == ("decimal", "numeric_send"):
        return decimal_encoder(column_type.scale)
    if column_type.codec == "array" and send == "array_send":
        return _array_encoder(column_type, facts, readers)
    known = _ENCODERS.get((column_type.codec, send))
    return known or _by_text(encoder_of(column_type), readers[facts.oid])


def _by_text(encode: Callable[[bytes], bytes | None], read: Reader) -> Encoder:
    def encode_by_text(data: bytes) -> bytes | None:
        return encode(read(data))

    return encode_by_text


def _array_encoder(column_type: ColumnType, facts: BinaryFacts, readers: TypeReaders) -> Encoder:
    """A list whose elements the item type can hold; another shape is exceptional."""
    assert column_type.item is not None
    assert facts.element is not None
    element = facts.element
    encode_item = binary_encoder_of(column_type.item, readers.under(element), readers)
    encode_otherwise = _by_text(encoder_of(column_type), readers[facts.oid])

    def encode_array(data: bytes) -> bytes | None:
        array = read_array(data)
        if not array.is_plain:
            return None
        if array.element_type != element:
            return encode_otherwise(data)
        encoded = [NULL if item is None else encode_item(item) for item in array.elements]
        present = [piece for piece in encoded if piece is not None]
        if len(present) < len(encoded):
            return None
        block = long_bytes(len(present)) + b"".join(present) if present else b""
        return VALUE + block + b"\x00"

    return encode_array
