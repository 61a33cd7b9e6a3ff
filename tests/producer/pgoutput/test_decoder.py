"""Messages: bytes written out by hand, their values beside them."""

import re
import tracemalloc
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.pgoutput.decoder import DECODERS, PLAIN_TAGS, decode_message, decode_tuple
from producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
    Commit,
    CommitPrepared,
    Delete,
    Field,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RelationColumn,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Unsent,
    Update,
)
from schemas.errors import ProtocolError
from schemas.position import Lsn
from tests.producer.pgoutput.encoder import encode_message, tuple_data
from tests.producer.strategies import MESSAGES, TUPLES

# 0x0002a0b1c2d3e4f5 microseconds after 2000-01-01.
TIME, TIME_US = "0002a0b1c2d3e4f5", 0x0002A0B1C2D3E4F5 + 946_684_800_000_000
NULL, UNCHANGED = Unsent.NULL, Unsent.UNCHANGED_TOAST
ONE_AND_NULL = bytes.fromhex("0002 74 00000001 31 6e")  # the text 1, then null
TOASTED = bytes.fromhex("0001 75")

WRITTEN_OUT: dict[str, tuple[bytes, Message]] = {
    "Begin": (
        bytes.fromhex(f"42 00000001ffffffff {TIME} ffffffff"),
        Begin(Lsn(0x1FFFFFFFF), TIME_US, 2**32 - 1),
    ),
    "Begin before 2000": (
        bytes.fromhex("42 0000000000000010 ffffffffffffffff 00000001"),
        Begin(Lsn(16), 946_684_799_999_999, 1),
    ),
    "Commit": (
        bytes.fromhex(f"43 00 8000000000000000 8000000000000030 {TIME}"),
        Commit(Lsn(2**63), Lsn(2**63 + 0x30), TIME_US),
    ),
    "Origin": (bytes.fromhex("4f 00000000000000ff") + "Ünit\0".encode(), Origin(Lsn(255), "Ünit")),
    "Relation": (
        b"R" + bytes.fromhex("00004001") + b"public\0orders\0d" + bytes.fromhex("0002")
        + b"\1id\0" + bytes.fromhex("00000017 ffffffff")
        + b'\0a "b"\0' + bytes.fromhex("00000413 00000018"),
        Relation(16385, "public", "orders", "d", (
            RelationColumn(True, "id", 23, -1), RelationColumn(False, 'a "b"', 1043, 24),
        )),
    ),
    "Relation of pg_catalog without columns": (
        b"R" + bytes.fromhex("fffffffe") + b"\0t\0n" + bytes.fromhex("0000"),
        Relation(2**32 - 2, "pg_catalog", "t", "n", ()),
    ),
    "Type": (b"Y" + bytes.fromhex("00004002") + b"public\0mood\0", Type(16386, "public", "mood")),
    "Type of pg_catalog": (b"Y" + bytes.fromhex("00004002") + b"\0int4\0", Type(16386, "pg_catalog", "int4")),
    "Insert": (b"I" + bytes.fromhex("00004001") + b"N" + ONE_AND_NULL, Insert(16385, ONE_AND_NULL)),
    "Update": (b"U" + bytes.fromhex("00004001") + b"N" + TOASTED, Update(16385, None, None, TOASTED)),
    "Update with key": (
        b"U" + bytes.fromhex("00004001") + b"K" + ONE_AND_NULL + b"N" + TOASTED,
        Update(16385, ONE_AND_NULL, None, TOASTED),
    ),
    "Update with old row": (
        b"U" + bytes.fromhex("00004001") + b"O" + ONE_AND_NULL + b"N" + TOASTED,
        Update(16385, None, ONE_AND_NULL, TOASTED),
    ),
    "Delete with key": (b"D" + bytes.fromhex("00004001") + b"K" + ONE_AND_NULL, Delete(16385, ONE_AND_NULL, None)),
    "Delete with old row": (
        b"D" + bytes.fromhex("00004001") + b"O" + ONE_AND_NULL,
        Delete(16385, None, ONE_AND_NULL),
    ),
    "Truncate": (bytes.fromhex("54 00000002 00 00004001 ffffffff"), Truncate(False, False, (16385, 2**32 - 1))),
    "Truncate cascade": (bytes.fromhex("54 00000001 01 00004001"), Truncate(True, False, (16385,))),
    "Truncate restart identity": (bytes.fromhex("54 00000001 02 00004001"), Truncate(False, True, (16385,))),
    "Message": (
        bytes.fromhex("4d 01 0000000100000010") + "prefix é\0".encode() + bytes.fromhex("00000003 00ff6e"),
        LogicalMessage(True, Lsn(0x100000010), "prefix é", b"\0\xffn"),
    ),
    "Message that is not transactional, of nothing": (
        bytes.fromhex("4d 00 0000000000000001 00 00000000"), LogicalMessage(False, Lsn(1), "", b""),
    ),
    "Stream Start, first": (bytes.fromhex("53 00000300 01"), StreamStart(0x300, True)),
    "Stream Start, later": (bytes.fromhex("53 ffffffff 00"), StreamStart(2**32 - 1, False)),
    "Stream Stop": (b"E", StreamStop()),
    "Stream Commit": (
        bytes.fromhex(f"63 00000300 00 8000000000000000 8000000000000030 {TIME}"),
        StreamCommit(0x300, Lsn(2**63), Lsn(2**63 + 0x30), TIME_US),
    ),
    "Stream Abort": (bytes.fromhex("41 00000300 00000301"), StreamAbort(0x300, 0x301)),
    "Stream Abort of streaming = parallel": (
        bytes.fromhex(f"41 00000300 00000301 0000000100000010 {TIME}"),
        StreamAbort(0x300, 0x301, Lsn(0x100000010), TIME_US),
    ),
    "Stream Abort after a crash of the server": (
        bytes.fromhex(f"41 00000300 00000300 0000000000000000 {TIME}"),
        StreamAbort(0x300, 0x300, Lsn(0), TIME_US),
    ),
    "Begin Prepare": (
        bytes.fromhex(f"62 0000000000000010 0000000000000020 {TIME} 00000300") + "gid é\0".encode(),
        BeginPrepare(Lsn(0x10), Lsn(0x20), TIME_US, 0x300, "gid é"),
    ),
    "Prepare": (
        bytes.fromhex(f"50 00 0000000000000010 0000000000000020 {TIME} 00000300") + b"\0",
        Prepare(Lsn(0x10), Lsn(0x20), TIME_US, 0x300, ""),
    ),
    "Commit Prepared": (
        bytes.fromhex(f"4b 00 0000000000000030 0000000000000040 {TIME} 00000300") + b"gid\0",
        CommitPrepared(Lsn(0x30), Lsn(0x40), TIME_US, 0x300, "gid"),
    ),
    "Rollback Prepared": (
        bytes.fromhex(f"72 00 0000000000000020 0000000000000050 ffffffffffffffff {TIME} 00000300") + b"gid\0",
        RollbackPrepared(Lsn(0x20), Lsn(0x50), 946_684_799_999_999, TIME_US, 0x300, "gid"),
    ),
    "Stream Prepare": (
        bytes.fromhex(f"70 00 0000000000000010 0000000000000020 {TIME} ffffffff") + b"gid\0",
        StreamPrepare(Lsn(0x10), Lsn(0x20), TIME_US, 2**32 - 1, "gid"),
    ),
}  # fmt: skip
PARTS = {"Stream Abort of streaming = parallel", "Stream Abort after a crash of the server"}
"""Their beginning is a message too."""
WHOLE = sorted({*WRITTEN_OUT} - PARTS)
TUPLES_WRITTEN_OUT: dict[str, tuple[str, tuple[Field, ...]]] = {
    "no columns": ("0000", ()),
    "null is no empty text": ("0002 6e 74 00000000", (NULL, b"")),
    "unchanged is no null": ("0002 75 6e", (UNCHANGED, NULL)),
    "text of tag bytes": ("0001 74 00000003 6e7574", (b"nut",)),
    "binary is no text": ("0002 62 00000001 31 74 00000001 31", (Binary(b"1"), b"1")),
    "binary of nothing": ("0001 62 00000000", (Binary(b""),)),
}


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
