"""Streamed blocks: the xid is there between Stream Start and Stream Stop, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import encode_message, encode_streamed
from tests.producer.pgoutput.stream_decoder import StreamDecoder, decode_streamed
from tests.producer.pgoutput.written_out import WRITTEN_OUT
from tests.producer.strategies import MESSAGES, OIDS, PREFIXED
from walbridge.producer.pgoutput.decoder import DECODERS, decode_message
from walbridge.producer.pgoutput.messages import (
    Begin,
    Insert,
    Message,
    Origin,
    StreamAbort,
    StreamStart,
    StreamStop,
    Type,
)
from walbridge.producer.pgoutput.streamed import split_xid
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

PREFIXED_TAGS = frozenset(b"MRYIUDT")
TOP, SUB = 0x300, 0x301
NO_COLUMNS = b"\0\0"
IN_BLOCK = PREFIXED_TAGS | frozenset(b"OE")


def decoder_in_block() -> StreamDecoder:
    decoder = StreamDecoder()
    decoder.decode(encode_message(StreamStart(TOP, True)))
    return decoder


def test_change_in_a_block_carries_the_xid_of_its_subtransaction() -> None:
    payload = bytes.fromhex("49 00000301 00004001 4e 0000")

    assert (SUB, Insert(16385, NO_COLUMNS)) == decoder_in_block().decode(payload)


def test_same_bytes_outside_a_block_carry_no_xid() -> None:
    payload = bytes.fromhex("59 00000301 40 00 01 00")

    assert (None, Type(SUB, "@", "\1")) == StreamDecoder().decode(payload)


def test_origin_in_a_block_has_no_xid_of_its_own() -> None:
    payload = bytes.fromhex("4f 0000000000000000") + b"elsewhere\0"

    assert (TOP, Origin(Lsn(0), "elsewhere")) == decoder_in_block().decode(payload)


def test_change_after_the_block_carries_no_xid() -> None:
    decoder = decoder_in_block()

    assert (TOP, StreamStop()) == decoder.decode(b"E")
    assert (None, Insert(16385, NO_COLUMNS)) == decoder.decode(bytes.fromhex("49 00004001 4e 0000"))


@pytest.mark.parametrize("name", sorted(name for name, (data, _) in WRITTEN_OUT.items() if data[0] not in IN_BLOCK))
def test_message_that_ends_or_begins_a_transaction_is_refused_in_a_block(name: str) -> None:
    """I7: blocks never nest, and hold changes only."""
    payload, message = WRITTEN_OUT[name]

    with pytest.raises(ProtocolError, match=f"{type(message).__name__} inside a streamed block"):
        decoder_in_block().decode(payload)


def test_stop_without_a_block_is_refused() -> None:
    with pytest.raises(ProtocolError):
        StreamDecoder().decode(b"E")


@pytest.mark.parametrize("payload", [b"", b"I", b"I\0\0\0", b"I\0\0\0\1", b"I\0\0\3\1\0\0\0\1N"[:-1]])
def test_change_too_short_for_its_xid_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decoder_in_block().decode(payload)


@given(OIDS, PREFIXED)
def test_streamed_message_is_the_plain_one_and_its_xid(xid: int, message: Message) -> None:
    """What a spool keeps is what would have come unstreamed."""
    assert (xid, encode_message(message)) == split_xid(encode_streamed(xid, message))
    assert (xid, message) == decode_streamed(encode_streamed(xid, message))


@given(st.lists(st.tuples(OIDS, st.lists(st.tuples(OIDS, PREFIXED), max_size=4), MESSAGES), max_size=4))
def test_any_blocks_and_what_comes_between_decode_to_what_was_encoded(
    blocks: list[tuple[int, list[tuple[int, Message]], Message]],
) -> None:
    decoder = StreamDecoder()
    for top, changes, between in blocks:
        if not isinstance(between, StreamStart | StreamStop):
            assert (None, between) == decoder.decode(encode_message(between))
        assert (None, StreamStart(top, False)) == decoder.decode(encode_message(StreamStart(top, False)))
        for xid, change in changes:
            assert (xid, change) == decoder.decode(encode_streamed(xid, change))
        assert (top, StreamStop()) == decoder.decode(encode_message(StreamStop()))


@given(st.lists(st.binary(max_size=40) | MESSAGES.map(encode_message), max_size=10))
def test_garbage_in_any_order_is_decoded_or_refused(payloads: list[bytes]) -> None:
    decoder = StreamDecoder()
    for payload in payloads:
        try:
            _, message = decoder.decode(payload)
        except ProtocolError:
            continue
        assert isinstance(message, Message)


@pytest.mark.parametrize("tag", sorted(PREFIXED_TAGS))
def test_every_length_of_a_streamed_message_is_decoded_as_the_plain_one_or_refused_as_it(tag: int) -> None:
    for payload, _ in WRITTEN_OUT.values():
        if payload[0] != tag:
            continue
        for length in range(1, len(payload)):
            cut = payload[:length]
            assert _outcome(cut) == _outcome_streamed(cut[:1] + b"\0\0\3\1" + cut[1:])


def _outcome(payload: bytes) -> Message | None:
    try:
        return decode_message(payload, DECODERS)
    except ProtocolError:
        return None


def _outcome_streamed(payload: bytes) -> Message | None:
    try:
        return decoder_in_block().decode(payload)[1]
    except ProtocolError:
        return None


def test_refused_message_leaves_the_block_open() -> None:
    decoder = decoder_in_block()
    with pytest.raises(ProtocolError):
        decoder.decode(encode_message(Begin(Lsn(1), 0, TOP)))

    assert decoder.block == StreamStart(TOP, True)


def test_abort_between_blocks_names_the_subtransaction() -> None:
    decoder = decoder_in_block()
    decoder.decode(b"E")

    assert (None, StreamAbort(TOP, SUB)) == decoder.decode(bytes.fromhex("41 00000300 00000301"))
