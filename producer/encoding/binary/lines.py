"""The binary format of the common types as lines of generated code, without a call per value.

In: a column's type and what its values are in binary. Out: source lines that turn ``data[at:end]``
(of ``size`` bytes) into ``c{i}``: the same bytes that ``encoders.py`` gives, and the text path.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

from walbridge.producer.encoding.binary.encoders import (
    BOOLS,
    END_DAY,
    END_US,
    FIRST_DAY,
    FIRST_US,
    NAN_DOUBLE,
    TO_1970_DAYS,
    TO_1970_US,
    binary_encoder_of,
)
from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.encoding.binary.scalars import text_of_text
from walbridge.producer.encoding.binary.types import TypeReaders
from walbridge.schemas.avro.value_encoders import Encoder
from walbridge.schemas.pg_types import ColumnType
from walbridge.schemas.table_schema import TableSchema

SCOPE: dict[str, Any] = {
    "BINARY_BOOLS": BOOLS,
    "NAN_DOUBLE": NAN_DOUBLE,
    "unpack_double": Struct(">d").unpack_from,
    "unpack_int2": Struct(">h").unpack_from,
    "unpack_int4": Struct(">i").unpack_from,
    "unpack_int8": Struct(">q").unpack_from,
    "unpack_oid": Struct(">I").unpack_from,
}
"""What the lines name beside what the lines for text do, ``binary_{i}`` and ``read_{i}``."""


class BinaryColumn(NamedTuple):
    """``send``: the name of the function that writes its values."""

    send: str
    read: Reader
    encode: Encoder


def binary_columns(table: TableSchema, readers: TypeReaders) -> list[BinaryColumn | None]:
    """By column how its values are read; None for one that comes as text.

    Raises:
        OperatorError: one has a format that is not known.
    """
    columns: list[BinaryColumn | None] = []
    for column, facts in zip(table.columns, readers.of_table(table), strict=True):
        if facts is None or facts.send is None:
            columns.append(None)
        else:
            encode = binary_encoder_of(column.column_type, facts, readers)
            columns.append(BinaryColumn(facts.send[1], readers[facts.oid], encode))
    return columns


_ZIGZAG = """
if 0 <= number < 0x2000:
    {out} = VALUE_SHORT[number << 1]
elif 0 <= number < 0x8000000:
    number <<= 1
    {out} = VALUE_CONTINUED[number & 0x3FFF] + SHORT[number >> 14]
else:
    {out} = VALUE + long_bytes(number)
"""
_INT = (
    """
(number,) = unpack_{kind}(data, at)
if size != {bytes}:
    raise ValueError
""".strip("\n")
    + _ZIGZAG
)
_BOOL = """
{out} = BINARY_BOOLS[data[at:end]]
"""
_DOUBLE = """
(number,) = unpack_double(data, at)
if size != 8:
    raise ValueError
{out} = pack_double(VALUE, number) if number == number else NAN_DOUBLE
"""
_TEXT = """
{out} = (VALUE_OF_LENGTH[size] if size < TEXT_LENGTHS else VALUE + long_bytes(size)) + data[at:end]
"""
_DATE = f"""
(number,) = unpack_int4(data, at)
if size != 4:
    raise ValueError
if {FIRST_DAY} <= number < {END_DAY}:
    number += {TO_1970_DAYS}
    {{out}} = VALUE + long_bytes(number)
else:
    {{exceptional}}
"""
# Numbers below 2^28 have no high groups: two minutes of 1970.
_TIMESTAMP = f"""
(number,) = unpack_int8(data, at)
if size != 8:
    raise ValueError
if {FIRST_US} <= number < {END_US}:
    number += {TO_1970_US}
    number = number << 1 if number >= 0 else ~(number << 1)
    if number >= 0x10000000:
        {{out}} = VALUE_CONTINUED[number & 0x3FFF] + CONTINUED[number >> 14 & 0x3FFF] + HIGH_GROUPS[number >> 28]
    else:
        {{out}} = binary_{{i}}(data[at:end])
else:
    {{exceptional}}
"""
_LINES: dict[tuple[str, str], str] = {
    ("int", "int2send"): _INT.replace("{kind}", "int2").replace("{bytes}", "2"),
    ("int", "int4send"): _INT.replace("{kind}", "int4").replace("{bytes}", "4"),
    ("int", "int8send"): _INT.replace("{kind}", "int8").replace("{bytes}", "8"),
    ("int", "oidsend"): _INT.replace("{kind}", "oid").replace("{bytes}", "4"),
    ("bool", "boolsend"): _BOOL,
    ("double", "float8send"): _DOUBLE,
    ("date", "date_send"): _DATE,
    ("timestamp", "timestamp_send"): _TIMESTAMP,
    ("timestamptz", "timestamptz_send"): _TIMESTAMP,
}


def binary_lines(column_type: ColumnType, column: BinaryColumn, i: int, exceptional_name: str) -> Sequence[str]:
    """Lines for column ``i``; its encoder is ``binary_{i}``, its reader ``read_{i}``."""
    exceptional = [
        f"c{i} = NULL",
        "exceptional = exceptional or {}",
        f"exceptional[{exceptional_name!r}] = read_{i}(data[at:end])",
    ]
    template = _LINES.get((column_type.codec, column.send))
    if column_type.codec == "string" and column.read is text_of_text:
        template = _TEXT
    if template is None:
        lines = [f"c{i} = binary_{i}(data[at:end])"]
        if column_type.may_be_exceptional:
            lines += [f"if c{i} is None:", *("    " + line for line in exceptional)]
        return lines
    lines = []
    for line in template.strip("\n").split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == "{exceptional}":
            lines += [indent + each for each in exceptional]
        else:
            lines.append(line.format(out=f"c{i}", i=i))
    return lines
