"""COPY's text format: a row as a line of fields between tabs.

In: lines as the server sends them. Out: TupleData as pgoutput would send it, or the fields' values.
Source: PostgreSQL manual, COPY, "Text Format".
"""

import re

from walbridge.schemas.errors import ProtocolError

_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_NULL = rb"\N"
_SHORT_HEADS = [b"t" + length.to_bytes(4, "big") for length in range(256)]
"""Kind and length of fields, by length: most need no more."""
_CONTROL = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def tuple_of_line(line: bytes, column_count: int) -> bytes:
    """One line of COPY's text format as TupleData.

    Raises:
        ProtocolError: another number of columns, or no line end.
    """
    if not line.endswith(b"\n"):
        raise ProtocolError("a COPY line without its end")
    head = column_count.to_bytes(2, "big")
    if column_count == 0:
        if line != b"\n":
            raise ProtocolError("a COPY line with values for a table without columns")
        return head
    values = line[:-1].split(b"\t")
    if len(values) != column_count:
        raise ProtocolError(f"a COPY line of {len(values)} values for {column_count} columns")
    if len(line) < len(_SHORT_HEADS) and line.count(b"\\") == values.count(_NULL):
        return head + b"".join([b"n" if value == _NULL else _SHORT_HEADS[len(value)] + value for value in values])
    return head + b"".join(map(_field, values))


def line_size(line: bytes, column_count: int) -> int:
    """What a line takes at most as TupleData."""
    return 2 + 4 * column_count + len(line)


def unescaped(values: list[bytes]) -> list[bytes | None]:
    """Fields of a line as the values that they stand for; None for a null."""
    return [
        None if value == _NULL else value if b"\\" not in value else _ESCAPE.sub(_unescape, value) for value in values
    ]


def _field(value: bytes) -> bytes:
    if value == _NULL:
        return b"n"
    if b"\\" in value:
        value = _ESCAPE.sub(_unescape, value)
    return b"t" + len(value).to_bytes(4, "big") + value


def _unescape(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    if escaped[:1].isdigit() and escaped[0] < 0x38:
        return bytes((int(escaped, 8) & 0xFF,))
    if len(escaped) > 1:
        return bytes((int(escaped[1:], 16),))
    return _CONTROL.get(escaped, escaped)
