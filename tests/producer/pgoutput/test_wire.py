"""The one place where bounds are checked."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.producer.pgoutput.wire import WireReader
from walbridge.schemas.errors import ProtocolError

Read = Callable[[WireReader], object]

NUMBERS: dict[str, tuple[Read, str, int]] = {
    "byte": (WireReader.byte, "ff", 255),
    "int16": (WireReader.int16, "fffe", -2),
    "int32": (WireReader.int32, "80000000", -(2**31)),
    "uint32": (WireReader.uint32, "ffffffff", 2**32 - 1),
    "int64": (WireReader.int64, "8000000000000000", -(2**63)),
    "uint64": (WireReader.uint64, "ffffffffffffffff", 2**64 - 1),
}


@pytest.mark.parametrize(("read", "data", "value"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_big_endian(read: Read, data: str, value: int) -> None:
    assert value == read(WireReader(bytes.fromhex(data)))


@pytest.mark.parametrize(("read", "data", "value"), NUMBERS.values(), ids=NUMBERS)
def test_number_cut_short_is_refused(read: Read, data: str, value: int) -> None:
    with pytest.raises(ProtocolError):
        read(WireReader(bytes.fromhex(data)[:-1]))


def test_string_ends_at_its_nul_and_the_next_field_begins_behind_it() -> None:
    wire = WireReader("é\0x".encode())

    assert ("é", ord("x")) == (wire.string(), wire.byte())


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff\xfe\0"], ids=["empty", "without NUL", "not UTF-8"])
def test_string_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        WireReader(data).string()


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1, -(2**31)])
def test_take_of_more_or_fewer_bytes_than_there_can_be_is_refused(count: int) -> None:
    with pytest.raises(ProtocolError):
        WireReader(b"ab").take(count)


def test_bytes_left_over_are_refused() -> None:
    wire = WireReader(b"ab")
    wire.byte()

    with pytest.raises(ProtocolError):
        wire.expect_end()


@given(st.binary(max_size=30), st.lists(st.sampled_from([*NUMBERS.values()]), max_size=10))
def test_cursor_never_passes_the_end(data: bytes, reads: list[tuple[Read, str, int]]) -> None:
    wire = WireReader(data)
    for read, _, _ in reads:
        try:
            read(wire)
        except ProtocolError:
            break
    assert 0 <= wire.at <= len(data)
    assert data[wire.at :] == wire.rest()
