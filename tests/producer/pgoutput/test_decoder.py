"""Messages and tuples, one by one: read as the manual lays them out, or refused."""

import re
import tracemalloc
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import encode_message, tuple_data
from tests.producer.pgoutput.written_out import TUPLES_WRITTEN_OUT, WRITTEN_OUT
from tests.producer.strategies import MESSAGES, TUPLES
from walbridge.producer.pgoutput.decoder import DECODERS, PLAIN_TAGS, decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Field, Message, StreamAbort
from walbridge.schemas.errors import ProtocolError

PARTS = {"Stream Abort of streaming = parallel", "Stream Abort after a crash of the server"}
"""Their beginning is a message too."""
WHOLE = sorted({*WRITTEN_OUT} - PARTS)


@pytest.mark.parametrize(("payload", "message"), WRITTEN_OUT.values(), ids=WRITTEN_OUT)
def test_message_is_read_as_the_manual_lays_it_out(payload: bytes, message: Message) -> None:
    assert message == decode_message(payload, DECODERS)


@pytest.mark.parametrize(("payload", "message"), WRITTEN_OUT.values(), ids=WRITTEN_OUT)
def test_encoder_of_the_tests_writes_the_same_bytes(payload: bytes, message: Message) -> None:
    assert payload == encode_message(message)


def test_every_message_is_written_out() -> None:
    assert set(DECODERS) == {payload[0] for payload, _ in WRITTEN_OUT.values()}
    assert {*get_args(Message)} == {type(message) for _, message in WRITTEN_OUT.values()}


@pytest.mark.parametrize(("payload", "message"), WRITTEN_OUT.values(), ids=WRITTEN_OUT)
def test_session_without_options_gets_messages_of_none_and_refuses_others_by_name(
    payload: bytes, message: Message
) -> None:
    """I7: what the producer did not ask for it would not know how to publish."""
    if payload[0] in PLAIN_TAGS:
        assert message == decode_message(payload)
        return
    name = re.sub("(?<!^)([A-Z])", "_\\1", type(message).__name__).lower().removeprefix("logical_")
    with pytest.raises(ProtocolError, match=f"not asked for: {name} b'{payload[:1].decode()}'"):
        decode_message(payload)


def _read_whole(payload: bytes) -> Message:
    message = decode_message(payload, DECODERS)
    for name in ("new", "key", "old"):
        if (data := getattr(message, name, None)) is not None:
            decode_tuple(data)
    return message


@pytest.mark.parametrize("name", WHOLE)
def test_truncated_message_is_refused_at_every_length(name: str) -> None:
    payload, _ = WRITTEN_OUT[name]
    for length in range(len(payload)):
        with pytest.raises(ProtocolError):
            _read_whole(payload[:length])


def test_stream_abort_is_cut_only_where_its_second_half_begins() -> None:
    payload, _ = WRITTEN_OUT["Stream Abort of streaming = parallel"]
    for length in {*range(len(payload))} - {9}:
        with pytest.raises(ProtocolError):
            decode_message(payload[:length])


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_message_with_bytes_left_over_is_refused(name: str) -> None:
    payload, _ = WRITTEN_OUT[name]
    for more in (b"\0", b"n", b"N", payload):
        with pytest.raises(ProtocolError):
            _read_whole(payload + more)


@pytest.mark.parametrize("tag", sorted(set(range(256)) - set(DECODERS)))
def test_unknown_tag_is_refused(tag: int) -> None:
    """I7"""
    for decoders in ({}, DECODERS):
        with pytest.raises(ProtocolError, match="unknown message tag"):
            decode_message(bytes([tag]) + b"\0" * 40, decoders)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"C\1" + b"\0" * 24, id="flags of a Commit"),
        pytest.param(b"R\0\0\0\1s\0t\0x\0\0", id="replica identity"),
        pytest.param(b"R\0\0\0\1s\0t\0d\xff\xff", id="negative number of columns"),
        pytest.param(b"R\0\0\0\1s\0\xff\0d\0\0", id="name that is not UTF-8"),
        pytest.param(b"I\0\0\0\1K\0\0", id="Insert of a key"),
        pytest.param(b"U\0\0\0\1K\0\0O\0\0", id="Update with key and old row"),
        pytest.param(b"U\0\0\0\1K\xff\xffN\0\0", id="key of a negative number of fields"),
        pytest.param(b"U\0\0\0\1K\0\1bN\0\0", id="field kind in a key"),
        pytest.param(b"U\0\0\0\1K\0\1t\xff\xff\xff\xffN\0\0", id="negative length in a key"),
        pytest.param(b"D\0\0\0\1N\0\0", id="Delete of a new row"),
        pytest.param(b"T\xff\xff\xff\xff\0", id="negative number of relations"),
        pytest.param(b"M\2" + b"\0" * 13, id="flags of a Message"),
        pytest.param(b"M\0" + b"\0" * 9 + b"\xff\xff\xff\xff", id="negative length of a Message"),
        pytest.param(b"M\0" + b"\0" * 8 + b"\xff\0" + b"\0" * 4, id="prefix that is not UTF-8"),
        pytest.param(b"S\0\0\0\1\2", id="flags of a Stream Start"),
        pytest.param(b"c\0\0\0\1\1" + b"\0" * 24, id="flags of a Stream Commit"),
        pytest.param(b"b" + b"\0" * 28 + b"\xff\0", id="gid that is not UTF-8"),
        pytest.param(b"P\1" + b"\0" * 29, id="flags of a Prepare"),
        pytest.param(b"K\1" + b"\0" * 29, id="flags of a Commit Prepared"),
        pytest.param(b"r\1" + b"\0" * 37, id="flags of a Rollback Prepared"),
        pytest.param(b"p\1" + b"\0" * 29, id="flags of a Stream Prepare"),
    ],
)
def test_value_that_the_protocol_does_not_know_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_message(payload, DECODERS)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"T\x7f\xff\xff\xff\0" + b"\0\0\0\1" * 3, id="Truncate"),
        pytest.param(b"R\0\0\0\1s\0t\0d\x7f\xff", id="Relation"),
        pytest.param(b"U\0\0\0\1K\x7f\xff", id="key of fields"),
        pytest.param(b"U\0\0\0\1K\0\1t\x7f\xff\xff\xff", id="key of a long text"),
        pytest.param(b"U\0\0\0\1K\0\1b\x7f\xff\xff\xff", id="key of a long binary value"),
        pytest.param(b"M\0" + b"\0" * 9 + b"\x7f\xff\xff\xff", id="Message"),
    ],
)
def test_absurd_count_is_refused_before_memory_is_taken_for_it(payload: bytes) -> None:
    """I9"""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_message(payload, DECODERS)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 50_000


@pytest.mark.parametrize(("data", "fields"), TUPLES_WRITTEN_OUT.values(), ids=TUPLES_WRITTEN_OUT)
def test_tuple_is_read_as_the_manual_lays_it_out(data: str, fields: tuple[Field, ...]) -> None:
    assert fields == decode_tuple(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "ffff", "0001", "000162", "000163", "000174", "0001 74 ffffffff", "0001 62 ffffffff", "0000 00", "7fff 6e"])  # fmt: skip  # noqa: E501
def test_tuple_that_is_none_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        decode_tuple(bytes.fromhex(data))


@given(MESSAGES)
def test_any_message_decodes_to_what_was_encoded(message: Message) -> None:
    assert message == decode_message(encode_message(message), DECODERS)


@given(TUPLES)
def test_any_tuple_decodes_to_what_was_encoded(fields: list[Field]) -> None:
    assert tuple(fields) == decode_tuple(tuple_data(*fields))


@given(MESSAGES, st.data())
def test_any_message_cut_short_is_refused(message: Message, data: st.DataObject) -> None:
    payload = encode_message(message)
    lengths = st.integers(0, len(payload) - 1)
    if isinstance(message, StreamAbort):
        lengths = lengths.filter(lambda length: length != 9)  # the shorter form
    length = data.draw(lengths)

    with pytest.raises(ProtocolError):
        _read_whole(payload[:length])


@given(st.sampled_from(sorted(DECODERS)), st.binary(max_size=60))
def test_garbage_behind_a_known_tag_is_a_message_or_refused(tag: int, garbage: bytes) -> None:
    try:
        message = _read_whole(bytes([tag]) + garbage)
    except ProtocolError:
        return
    assert isinstance(message, Message)
