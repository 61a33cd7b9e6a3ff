"""Work and memory grow with the bytes that came, not faster, and not with what they claim (I9).

Work is counted, not timed: lines of Python and calls of C, as the interpreter tells them. What C
does inside of one call is seen by the memory it takes and, for regular expressions, by none of the
two: ``make bench`` looks at the clock (tests/benchmarks/test_expressions.py).
"""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest

from tests import work
from tests.fuzz import targets
from tests.fuzz.typed_writers import typed_writers
from walbridge.schemas.avro.codec import CONTROL_RECORDS, long_bytes
from walbridge.schemas.avro.framing import SINGLE_OBJECT
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges, encode_cut
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn, Position

SIZE, GROWTH = 200, 10


def of_type(codec: str, item: str | None = None) -> bytes:
    """The byte that chooses a type of this codec."""
    for at, (writer, _) in enumerate(typed_writers()):
        known = writer.relation.table.columns[0].column_type
        if known.codec == codec and (known.item.codec if known.item else None) == item:
            return bytes([at])
    raise LookupError(codec)


def _session(payload: bytes, count: int) -> bytes:
    return (len(payload).to_bytes(2, "big") + payload) * count


def _cut(size: int) -> bytes:
    epoch, at = Epoch("7", 1, "s", 1), Position(Lsn(1), 1)
    tables = tuple(TableChanges(n, f"t{n}", ("00" * 8,), 1, (Barrier("shape", at, "00" * 8),)) for n in range(size))
    ranges = tuple(PartitionRange(f"t{n}", 0, n, n + 1, 1) for n in range(size))
    encoded = encode_cut(Cut(epoch, 1, 1, 2, None, None, 1, True, 0, ranges, tables))
    return bytes([CONTROL_RECORDS.index("Cut")]) + encoded[SINGLE_OBJECT.body_at :]


Input = Callable[[int], bytes]
LARGE: dict[str, tuple[str, Input]] = {
    "COPY of many escapes": ("copy_line", lambda size: b"\1" + b"a\\t\\\\\\101\\x41" * size + b"\n"),
    "COPY of many values too many": ("copy_line", lambda size: b"\2" + b"a\t" * size + b"\n"),
    "COPY without an end": ("copy_line", lambda size: b"\1" + b"a\\" * size),
    "text": ("value", lambda size: of_type("string") + b"x" * size * 50),
    "bytea": ("value", lambda size: of_type("bytes") + b"\\x" + b"ff" * size),
    "decimal": ("value", lambda size: of_type("decimal") + b"9" * size + b".00"),
    "array of numbers": ("value", lambda size: of_type("array", "int") + b"{" + b"1," * size + b"1}"),
    "array of quoted texts": (
        "value", lambda size: of_type("array", "string") + b"{" + b'"a\\"b\\\\",' * size + b"NULL}"
    ),
    "array of one long text": ("value", lambda size: of_type("array", "string") + b'{"' + b"\\\\\\a" * size + b'"}'),
    "array of a text without an end": ("value", lambda size: of_type("array", "string") + b'{"' + b'\\"' * size + b"}"),
    "array of many dimensions": ("value", lambda size: of_type("array", "int") + b"{" * size + b"1" + b"}" * size),
    "map": ("value", lambda size: of_type("map") + b", ".join(b'"k%d"=>"\\"v"' % n for n in range(size))),
    "map without an end": ("value", lambda size: of_type("map") + b'"a"=>"1", ' * size),
    "map with a key without an end": ("value", lambda size: of_type("map") + b'"a' + b"\\\\" * size),
    "vector": ("value", lambda size: of_type("vector", "float") + b"[" + b"1.5," * size + b"1]"),
    "session of many messages": ("stream", lambda size: _session(b"O" + bytes(8) + b"o\0", size)),
    "session of many refusals": ("stream", lambda size: _session(b"?", size)),
    "cut of many tables": ("control_record", _cut),
    "cut of many tables, torn": ("control_record", lambda size: _cut(size)[:-1]),
}  # fmt: skip


def work_of(name: str, data: bytes) -> int:
    """Lines and calls that an input takes."""
    return work.counted(lambda: _run(name, data))


def _run(name: str, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        targets.TARGETS[name].run(data)


def _peak_bytes(name: str, data: bytes) -> int:
    tracemalloc.start()
    try:
        _run(name, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", LARGE)
def test_work_grows_no_faster_than_the_input(case: str) -> None:
    name, made = LARGE[case]
    small, large = made(SIZE), made(SIZE * GROWTH)
    _run(name, large)  # what is made once is made

    assert work_of(name, large) <= work_of(name, small) * len(large) / len(small) * 1.2 + 100


@pytest.mark.parametrize("case", LARGE)
def test_memory_grows_no_faster_than_the_input(case: str) -> None:
    name, made = LARGE[case]
    small, large = made(SIZE), made(SIZE * GROWTH)
    _run(name, large)

    assert _peak_bytes(name, large) <= _peak_bytes(name, small) * len(large) / len(small) * 1.5 + 20_000


CLAIMED = 1 << 50
CLAIMS: dict[str, tuple[str, bytes]] = {
    "a text of so many bytes": ("event", b"\0" * 2 + b"\2" + long_bytes(CLAIMED)),
    "an array of so many items": ("event", b"\2" + long_bytes(CLAIMED)),
    "a cut of so many partitions": ("control_record", _cut(0)[:-3] + long_bytes(CLAIMED)),
    "a tuple of so many fields": ("message", b"I\0\0\0\1N\x7f\xff"),
    "a field of so many bytes": ("message", b"I\0\0\0\1N\0\1t\x7f\xff\xff\xff"),
    "so many relations": ("message", b"T\x7f\xff\xff\xff\0"),
    "a message of so many bytes": ("message", b"M\0" + bytes(8) + b"p\0\x7f\xff\xff\xff"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_bytes_claim_takes_neither_work_nor_memory(claim: str) -> None:
    name, data = CLAIMS[claim]
    for first in (data, *(bytes([at]) + data for at in range(len(typed_writers())) if name == "event")):
        _run(name, first)
        assert work_of(name, first) < 2_000
        assert _peak_bytes(name, first) < 200_000
