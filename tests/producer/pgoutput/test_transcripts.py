"""What servers of every version sent, recorded: each message is decoded to what is written beside it."""

from pathlib import Path
from typing import get_args

import pytest

from tests.postgres_versions import MAJORS
from tests.producer.pgoutput.encoder import encode_message, encode_streamed
from tests.producer.pgoutput.record import scenarios_of
from tests.producer.pgoutput.stream_decoder import StreamDecoder
from tests.producer.pgoutput.transcripts import FOLDER, described, load, masked, paths
from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.messages import (
    Begin,
    Commit,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    StreamAbort,
    StreamStart,
    StreamStop,
)
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

# Written from the manuals: the oldest server that sends what protocol 1 did not have.
SENT_SINCE = {
    "LogicalMessage": 14, "StreamStart": 14, "StreamStop": 14, "StreamCommit": 14, "StreamAbort": 14,
    "BeginPrepare": 15, "Prepare": 15, "CommitPrepared": 15, "RollbackPrepared": 15, "StreamPrepare": 15,
}  # fmt: skip
KINDS = {kind.__name__ for kind in get_args(Message)}


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", paths(), ids=_name)
def test_recorded_bytes_are_decoded_to_their_golden_result(path: Path) -> None:
    lines = load(path)

    assert [message for _, message in lines] == described(payload for payload, _ in lines)


@pytest.mark.parametrize("path", paths(), ids=_name)
def test_encoder_of_the_tests_writes_what_the_server_sent(path: Path) -> None:
    decoder = StreamDecoder()
    for payload, _ in load(path):
        xid, message = decoder.decode(payload)
        if xid is None or isinstance(message, StreamStop | Origin):
            assert payload == encode_message(message)
        else:
            assert payload == encode_streamed(xid, message)


@pytest.mark.parametrize("path", [path for path in paths() if path.stem in ("plain", "aborted")], ids=_name)
def test_what_a_server_sends_unasked_is_decoded_by_a_session_without_options(path: Path) -> None:
    assert all(isinstance(decode_message(payload), Message) for payload, _ in load(path))


@pytest.mark.parametrize("major", MAJORS)
def test_every_message_that_a_server_can_send_was_recorded_of_it(major: int) -> None:
    recorded = {path.stem: load(path) for path in paths() if path.parent.name == str(major)}

    assert set(scenarios_of(major)) == set(recorded)
    kinds = {message["kind"] for lines in recorded.values() for _, message in lines}
    assert {kind for kind in KINDS if major >= SENT_SINCE.get(kind, 12)} == kinds


def _in_blocks(path: Path) -> set[str]:
    return {message["kind"] for _, message in load(path) if "block_xid" in message}


@pytest.mark.parametrize("major", [major for major in MAJORS if major >= 14])
def test_every_message_that_may_be_in_a_block_was_recorded_in_one(major: int) -> None:
    expected = {"Relation", "Type", "Insert", "Update", "Delete", "Truncate", "LogicalMessage", "Origin", "StreamStop"}

    assert expected == _in_blocks(FOLDER / str(major) / "streamed.jsonl")


@pytest.mark.parametrize("major", [major for major in MAJORS if major >= 16])
def test_stream_abort_tells_where_and_when_only_with_parallel(major: int) -> None:
    """What decides is the option, not the protocol's version."""
    assert {None} == {abort.abort_lsn for abort in _aborts(major, "streamed")}
    assert None not in {abort.abort_lsn for abort in _aborts(major, "parallel")}
    assert [(abort.xid == abort.subxid) for abort in _aborts(major, "parallel")] == [False, True]


def _aborts(major: int, name: str) -> list[StreamAbort]:
    decoder = StreamDecoder()
    messages = [decoder.decode(payload)[1] for payload, _ in load(FOLDER / str(major) / f"{name}.jsonl")]
    return [message for message in messages if isinstance(message, StreamAbort)]


@pytest.mark.parametrize("major", [major for major in MAJORS if major >= 14])
def test_change_of_a_savepoint_carries_the_xid_that_its_abort_names(major: int) -> None:
    decoder = StreamDecoder()
    xids: dict[bytes, int] = {}
    aborted: list[StreamAbort] = []
    for payload, _ in load(FOLDER / str(major) / "streamed.jsonl"):
        xid, message = decoder.decode(payload)
        if isinstance(message, Insert) and xid is not None:
            xids[message.new] = xid
        elif isinstance(message, StreamAbort):
            aborted.append(message)
    (rolled_back,) = [xid for new, xid in xids.items() if b"rolled back" in new]

    assert rolled_back == aborted[0].subxid != aborted[0].xid


@pytest.mark.parametrize("path", [path for path in paths() if path.stem == "streamed"], ids=_name)
def test_streamed_bytes_read_as_if_in_no_block_are_refused_or_other_messages(path: Path) -> None:
    """The prefix is told by the state of the session alone: nothing in the bytes shows it."""
    for payload, message in load(path):
        if "block_xid" not in message or message["kind"] in ("Origin", "StreamStop"):
            continue
        try:
            (found,) = described([payload])
        except ProtocolError:
            continue
        assert found != message


def test_masked_messages_are_equal_when_only_what_differs_from_run_to_run_does() -> None:
    first, second = (
        described([encode_message(StreamStart(xid, True)), encode_streamed(xid + 1, Insert(oid, b"\0\0"))])
        for xid, oid in ((700, 16385), (900, 20000))
    )

    assert first != second
    assert masked(first) == masked(second)


def test_masked_messages_differ_when_an_xid_is_another_one() -> None:
    same, other = (
        described([encode_message(StreamStart(700, True)), encode_streamed(xid, Insert(16385, b"\0\0"))])
        for xid in (700, 701)
    )

    assert masked(same) != masked(other)


def test_masked_messages_differ_when_a_commit_ends_another_transaction() -> None:
    begun = encode_message(Begin(Lsn(0x10), 0, 700))
    same, other = (
        described([begun, encode_message(Commit(Lsn(commit_lsn), Lsn(0x20), 0))]) for commit_lsn in (0x10, 0x11)
    )

    assert masked(same) != masked(other)


def test_masked_messages_are_equal_whether_or_not_a_record_begins_where_another_ends() -> None:
    first, second = (
        described([encode_message(LogicalMessage(False, Lsn(0x10), "", b"")), encode_message(Begin(Lsn(at), 0, 700))])
        for at in (0x10, 0x28)
    )

    assert masked(first) == masked(second)
