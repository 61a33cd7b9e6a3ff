"""Work and memory of decoding grow with the bytes that were sent, not with what they claim (I9)."""

import tracemalloc
from collections.abc import Callable
from struct import pack

import pytest

from tests.producer.pgoutput.stream_decoder import decode_streamed
from tests.work import counted
from walbridge.producer.pgoutput.decoder import DECODERS, decode_message, decode_tuple
from walbridge.schemas.errors import ProtocolError

SIZE, GROWTH = 300, 10

LARGE: dict[str, Callable[[int], bytes]] = {
    "Insert of many fields": lambda size: b"I\0\0\0\1N" + pack(">h", size) + b"n" * size,
    "Update with a key of many fields": lambda size: (
        b"U\0\0\0\1" + b"K" + pack(">h", size) + b"n" * size + b"N" + pack(">h", size) + b"u" * size
    ),
    "Delete of many binary fields": lambda size: b"D\0\0\0\1O" + pack(">h", size) + b"b\0\0\0\1x" * size,
    "Relation of many columns": lambda size: b"R\0\0\0\1s\0t\0d" + pack(">h", size) + (b"\0c\0" + b"\0" * 8) * size,
    "Truncate of many relations": lambda size: b"T" + pack(">ib", size, 0) + b"\0\0\0\1" * size,
    "Message of many bytes": lambda size: b"M\0" + b"\0" * 8 + b"p" * size + b"\0" + pack(">i", size) + b"c" * size,
    "gid of many bytes": lambda size: b"b" + b"\0" * 28 + b"g" * size + b"\0",
    "gid without an end": lambda size: b"b" + b"\0" * 28 + b"g" * size,
}


def decode_whole(payload: bytes) -> None:
    """Plain and streamed, tuples included."""
    try:
        message = decode_message(payload, DECODERS)
        decode_streamed(payload[:1] + b"\0\0\3\1" + payload[1:])
        for name in ("new", "key", "old"):
            if (data := getattr(message, name, None)) is not None:
                decode_tuple(data)
    except ProtocolError:
        return


@pytest.mark.parametrize("name", LARGE)
def test_work_grows_with_the_bytes_sent(name: str) -> None:
    small, large = (LARGE[name](size) for size in (SIZE, SIZE * GROWTH))

    assert counted(lambda: decode_whole(large)) <= GROWTH * counted(lambda: decode_whole(small)) * 1.2 + 100


@pytest.mark.parametrize("name", LARGE)
def test_memory_grows_with_the_bytes_sent(name: str) -> None:
    payload = LARGE[name](SIZE * GROWTH)
    tracemalloc.start()
    try:
        decode_whole(payload)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A field of one byte is an object of some 60 where fields are asked for.
    assert peak_bytes < 100 * len(payload)
