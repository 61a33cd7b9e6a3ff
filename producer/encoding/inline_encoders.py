"""The common shapes of the common types as lines of generated code, without a call per value.

In: a column's type. Out: source lines that turn ``text`` (of ``size`` bytes) into ``{out}``, the
same bytes that its encoder in ``value_encoders`` gives: whatever is not of the common shape is
handed to that encoder, ``encode_{i}``. A call costs as much as what most values need, so these
lines halve the time of a row (``make bench``).
"""

from struct import Struct
from typing import Any

from walbridge.schemas.avro.codec import CONTINUED, SHORT, long_bytes
from walbridge.schemas.avro.value_encoders import (
    BOOLS,
    DATES,
    HIGH_GROUPS,
    SECONDS,
    TEXT_LENGTHS,
    VALUE,
    VALUE_CONTINUED,
    VALUE_OF_LENGTH,
    VALUE_SHORT,
)
from walbridge.schemas.pg_types import ColumnType

SCOPE: dict[str, Any] = {
    "BOOLS": BOOLS,
    "CONTINUED": CONTINUED,
    "HIGH_GROUPS": HIGH_GROUPS,
    "SHORT": SHORT,
    "TEXT_LENGTHS": TEXT_LENGTHS,
    "VALUE": VALUE,
    "VALUE_CONTINUED": VALUE_CONTINUED,
    "VALUE_OF_LENGTH": VALUE_OF_LENGTH,
    "VALUE_SHORT": VALUE_SHORT,
    "cached_date": DATES.get,
    "cached_second": SECONDS.get,
    "long_bytes": long_bytes,
    "pack_double": Struct("<cd").pack,
}
"""What the lines name, beside ``text``, ``size`` and ``encode_{i}``."""

_INT = """
number = int(text)
if 0 <= number < 0x2000:
    {out} = VALUE_SHORT[number << 1]
elif 0 <= number < 0x8000000:
    number <<= 1
    {out} = VALUE_CONTINUED[number & 0x3FFF] + SHORT[number >> 14]
else:
    {out} = encode_{i}(text)
"""
_TEXT = """
{out} = (VALUE_OF_LENGTH[size] if size < TEXT_LENGTHS else VALUE + long_bytes(size)) + text
"""
_BOOL = """
{out} = BOOLS[text]
"""
_DOUBLE = """
{out} = pack_double(VALUE, float(text))
"""
# A point where the scale wants it: no NaN, no infinity.
_DECIMAL = """
if size > {scale} + 1 and text[-{scale} - 1] == 46:
    number = int(text.replace(b".", b"", 1))
    size = (number.bit_length() + 8) >> 3
    {out} = VALUE_OF_LENGTH[size] + number.to_bytes(size, "big", signed=True)
else:
    {slow}
"""
_DATE = """
{out} = cached_date(text)
if {out} is None:
    {slow}
"""
# All six decimals, as clocks give them. Numbers below 2^28 have no high groups: two minutes of 1970.
_TIMESTAMP = """
number = cached_second(text[:20])
micros = text[20:26]
if number is not None and size == {size} and text[26:] == {zone!r} and micros.isdigit():
    number += int(micros)
    number = number << 1 if number >= 0 else ~(number << 1)
    if number >= 0x10000000:
        {out} = VALUE_CONTINUED[number & 0x3FFF] + CONTINUED[number >> 14 & 0x3FFF] + HIGH_GROUPS[number >> 28]
    else:
        {slow}
else:
    {slow}
"""

_LINES = {
    "int": _INT,
    "string": _TEXT,
    "bool": _BOOL,
    "double": _DOUBLE,
    "date": _DATE,
    "timestamp": _TIMESTAMP.replace("{size}", "26").replace("{zone!r}", 'b""'),
    "timestamptz": _TIMESTAMP.replace("{size}", "29").replace("{zone!r}", 'b"+00"'),
}


def inline_lines(column_type: ColumnType, i: int, exceptional_name: str) -> list[str]:
    """Lines for column ``i``; its bytes are ``c{i}``, its encoder ``encode_{i}``.

    Args:
        exceptional_name: where its text is noted when the type cannot hold the value.
    """
    slow = [f"c{i} = encode_{i}(text)"]
    if column_type.may_be_exceptional:
        slow += [
            f"if c{i} is None:",
            f"    c{i} = NULL",
            "    exceptional = exceptional or {}",
            f"    exceptional[{exceptional_name!r}] = text",
        ]
    template = _DECIMAL if column_type.codec == "decimal" and column_type.scale > 0 else _LINES.get(column_type.codec)
    if template is None:
        return slow
    lines: list[str] = []
    for line in template.strip("\n").split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == "{slow}":
            lines += [indent + each for each in slow]
        else:
            lines.append(line.format(out=f"c{i}", i=i, scale=column_type.scale))
    return lines
