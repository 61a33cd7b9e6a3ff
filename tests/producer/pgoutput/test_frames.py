"""Frames: the outermost layer of the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import keepalive, xlog_data
from tests.producer.pgoutput.frames import XLogData, decode_frame
from tests.producer.strategies import LSNS
from walbridge.producer.pgoutput.frames import PrimaryKeepalive, encode_standby_status
from walbridge.schemas.errors import ProtocolError


def test_xlog_data_holds_its_positions_and_the_payload() -> None:
    frame = b"w" + bytes.fromhex("0000000000000010 00000001000000ff 0002a0b1c2d3e4f5") + b"Bpayload"

    assert XLogData(0x10, 0x1000000FF, b"Bpayload") == decode_frame(frame)  # type: ignore[arg-type]


@pytest.mark.parametrize(("flag", "reply_requested"), [(b"\0", False), (b"\1", True)])
def test_keepalive_holds_its_position_and_whether_a_reply_is_wanted(flag: bytes, reply_requested: bool) -> None:
    frame = b"k" + bytes.fromhex("ffffffffffffffff 0002a0b1c2d3e4f5") + flag

    assert PrimaryKeepalive(2**64 - 1, reply_requested) == decode_frame(frame)  # type: ignore[arg-type]


def test_frame_truncated_in_its_header_is_refused_at_every_length() -> None:
    for frame in (xlog_data(b""), keepalive(7)):
        for length in range(len(frame)):
            with pytest.raises(ProtocolError):
                decode_frame(frame[:length])


def test_keepalive_with_bytes_left_over_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_frame(keepalive(7) + b"\0")


@given(st.binary(max_size=40))
def test_garbage_is_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except ProtocolError:
        return
    assert isinstance(frame, XLogData | PrimaryKeepalive)


@given(LSNS, LSNS, st.binary(max_size=20), st.booleans())
def test_frames_decode_to_what_was_encoded(start: int, end: int, payload: bytes, reply: bool) -> None:
    assert XLogData(start, end, payload) == decode_frame(xlog_data(payload, start, end))  # type: ignore[arg-type]
    assert PrimaryKeepalive(end, reply) == decode_frame(keepalive(end, reply_requested=reply))  # type: ignore[arg-type]


def test_standby_status_is_34_bytes_that_count_time_from_2000() -> None:
    status = encode_standby_status(0x20, 0x10, 946_684_800_000_001, reply_requested=True)

    expected = "72 0000000000000020 0000000000000010 0000000000000010 0000000000000001 01"
    assert bytes.fromhex(expected) == status


def test_received_lsn_is_never_sent_as_flushed() -> None:
    """I1: only the second number moves the slot."""
    status = encode_standby_status(received=2**64 - 1, confirmed=5, now_us=0)

    assert (5).to_bytes(8, "big") == status[9:17]
