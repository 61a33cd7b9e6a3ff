"""Types of extensions: binary format to the text that Postgres prints. Source: ``hstore_io.c``; pgvector."""

import struct

from walbridge.producer.encoding.binary.floats import float_text
from walbridge.producer.pgoutput.wire import WireReader


def text_of_hstore(data: bytes) -> bytes:
    return b", ".join(
        _quoted(key) + b"=>" + (b"NULL" if value is None else _quoted(value)) for key, value in pairs_of_hstore(data)
    )


def pairs_of_hstore(data: bytes) -> list[tuple[bytes, bytes | None]]:
    """Keys and values, in the order in which the server keeps them."""
    wire = WireReader(data)
    pairs = []
    for _ in range(wire.int32()):
        key, size = wire.take(wire.int32()), wire.int32()
        pairs.append((key, None if size < 0 else wire.take(size)))
    wire.expect_end()
    return pairs


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def text_of_vector(data: bytes) -> bytes:
    return _bracketed(floats_of_vector(data, "f"))


def text_of_halfvec(data: bytes) -> bytes:
    return _bracketed(floats_of_vector(data, "e"))


def floats_of_vector(data: bytes, code: str) -> tuple[float, ...]:
    """pgvector's vector (``f``) and halfvec (``e``)."""
    count, unused = struct.unpack_from(">HH", data)
    if unused or not count:
        raise ValueError("a vector of another form")
    return struct.unpack(f">{count}{code}", data[4:])


def _bracketed(numbers: tuple[float, ...]) -> bytes:
    return b"[" + b",".join(map(float_text, numbers)) + b"]"


def text_of_sparsevec(data: bytes) -> bytes:
    """Places count from 1 in text."""
    size, count, unused = struct.unpack_from(">iii", data)
    if unused or not 0 <= count <= len(data):
        raise ValueError("a sparse vector of another form")
    numbers = struct.unpack(f">{count}i{count}f", data[12:])
    pairs = zip(numbers[:count], numbers[count:], strict=True)
    return b"{" + b",".join(b"%d:%s" % (place + 1, float_text(value)) for place, value in pairs) + b"}/%d" % size
