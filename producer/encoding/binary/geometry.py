"""Geometric types: binary format to the text that Postgres prints. Source: PostgreSQL ``geo_ops.c``."""

from struct import Struct, iter_unpack

from walbridge.producer.encoding.binary.floats import double_text
from walbridge.producer.pgoutput.wire import WireReader

_POINT_BYTES = 16


def text_of_point(data: bytes) -> bytes:
    return _points(data, 1)


def text_of_lseg(data: bytes) -> bytes:
    return b"[" + _points(data, 2) + b"]"


def text_of_box(data: bytes) -> bytes:
    return _points(data, 2)


def text_of_path(data: bytes) -> bytes:
    """A closed path is printed in parentheses, an open one in brackets."""
    wire = WireReader(data)
    is_closed, count = wire.byte(), wire.int32()
    points = _points(wire.rest(), count)
    return b"(" + points + b")" if is_closed else b"[" + points + b"]"


def text_of_polygon(data: bytes) -> bytes:
    wire = WireReader(data)
    count = wire.int32()
    return b"(" + _points(wire.rest(), count) + b")"


def text_of_line(data: bytes) -> bytes:
    """The three coefficients of the line's equation."""
    return b"{" + b",".join(map(double_text, Struct(">ddd").unpack(data))) + b"}"


def text_of_circle(data: bytes) -> bytes:
    x, y, radius = map(double_text, Struct(">ddd").unpack(data))
    return b"<(" + x + b"," + y + b")," + radius + b">"


def _points(data: bytes, count: int) -> bytes:
    if len(data) != count * _POINT_BYTES:
        raise ValueError("another number of points")
    return b",".join(b"(" + double_text(x) + b"," + double_text(y) + b")" for x, y in iter_unpack(">dd", data))
