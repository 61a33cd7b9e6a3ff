"""Streamed transactions: what of their blocks and savepoints is let out at the commit, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.pgoutput.encoder import encode_message, encode_streamed, tuple_data, xlog_data
from tests.producer.session.pending_messages import PREPARED, insert, relation
from tests.producer.uncommitted_session import Session
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings


def streamed(session: Session, xid: int, *values: bytes, is_first: bool = True) -> None:
    """One block of a transaction."""
    session.receive(StreamStart(xid, is_first))
    payload = relation("t1")
    session.receive(payload[:1] + xid.to_bytes(4, "big") + payload[1:])
    for value in values:
        session.receive(encode_streamed(xid, insert(value)))
    session.receive(StreamStop())


COLUMN = RelationColumn(True, "id", 23, -1)
COMMIT = StreamCommit(7, Lsn(200), Lsn(208), 5)


def test_transaction_of_empty_blocks_is_committed_without_changes(session: Session) -> None:
    for is_first in (True, False):
        session.receive(StreamStart(7, is_first))
        session.receive(StreamStop())
    session.receive(COMMIT)

    assert session.committed == [(7, [])]


def test_origin_in_a_block_is_replayed_in_its_place(session: Session, spool: Spool) -> None:
    """It has no xid there, and its LSN is 0."""
    session.receive(StreamStart(7, True))
    session.receive(Origin(Lsn(0), "node"))
    session.receive(encode_streamed(8, insert(b"1")))
    session.receive(StreamStop())
    (spooled,) = spool._transactions
    first, second = spooled.frames(lambda: None)

    assert first[XLOG_DATA_HEADER_BYTES:] == encode_message(Origin(Lsn(0), "node"))
    assert second == xlog_data(encode_message(insert(b"1")))


@pytest.mark.parametrize(
    "abort", [StreamAbort(99, 99), StreamAbort(99, 98), StreamAbort(99, 98, Lsn(0), 0)], ids=["all", "part", "parallel"]
)
def test_abort_of_a_transaction_never_heard_of_is_ignored(session: Session, abort: StreamAbort) -> None:
    session.receive(abort)

    assert session.committed == []


def in_savepoint(xid: int, subxid: int, value: bytes) -> list[Message | bytes]:
    """One block with a change of a subtransaction."""
    return [StreamStart(xid, False), encode_streamed(subxid, insert(value)), StreamStop()]


def test_changes_of_a_savepoint_that_is_rolled_back_are_void_and_no_others() -> None:
    """I4: changes that never happened would be published, or ones that did would not."""
    session = Session(Spool(Settings()))
    streamed(session, 7, b"1")
    for message in (*in_savepoint(7, 8, b"2"), StreamAbort(7, 8), *in_savepoint(7, 9, b"3"), COMMIT):
        session.receive(message)

    assert session.committed == [(7, [(1, 1, b"1"), (1, 1, b"3")])]


def test_table_announced_in_a_savepoint_that_is_rolled_back_keeps_the_order_of_those_after_it(
    session: Session,
) -> None:
    """The server announces it again: numbers of what is void must not be taken for those of what is not."""
    wide = encode_message(Relation(1, "public", "t1", "d", (COLUMN, replace(COLUMN, name="more"))))
    in_block = wide[:1] + (7).to_bytes(4, "big") + wide[1:]
    void = relation("t1")[:1] + (8).to_bytes(4, "big") + relation("t1")[1:]
    aborted: list[Message | bytes] = [
        StreamStart(7, True),
        void,
        encode_streamed(8, insert(b"1")),
        StreamStop(),
        StreamAbort(7, 8),
    ]
    between: list[Message | bytes] = [Begin(Lsn(120), 5, 6), relation("t1")]
    for payload in (*aborted, *between, StreamStart(7, False), in_block, StreamStop(), COMMIT, Begin(Lsn(300), 5, 9)):
        session.receive(payload)
    session.receive(Insert(1, tuple_data(b"2", b"3")))

    assert session.committed[-1] == (9, [(1, 2, b"2")])


def test_table_announced_in_a_streamed_transaction_is_known_after_its_commit(session: Session) -> None:
    """The server does not announce it again."""
    streamed(session, 7, b"1")
    session.receive(COMMIT)
    session.receive(Begin(Lsn(300), 5, 9))
    session.receive(insert(b"2"))

    assert session.committed[-1] == (9, [(1, 1, b"2")])


def test_first_block_that_comes_again_begins_the_transaction_anew(session: Session) -> None:
    for value in (b"1", b"2"):
        streamed(session, 7, value)
    session.receive(COMMIT)

    assert session.committed == [(7, [(1, 1, b"2")])]


def test_aborted_transaction_leaves_nothing(session: Session, spool: Spool) -> None:
    streamed(session, 7, b"1")
    session.receive(StreamAbort(7, 8))
    session.receive(StreamAbort(7, 7))

    assert spool.byte_count == 0
    assert session.pending.stream_count == 0
    assert session.installed == {}


@pytest.mark.parametrize(
    "message", [COMMIT, StreamPrepare(*PREPARED), StreamStart(7, False), StreamStop()], ids=lambda each: str(each)[:14]
)
def test_end_or_later_block_of_a_stream_that_did_not_begin_is_refused(session: Session, message: Message) -> None:
    """I7: its first changes are missing."""
    with pytest.raises(ProtocolError):
        session.receive(message)


@pytest.mark.parametrize(
    "payload",
    [Begin(Lsn(1), 0, 9), StreamStart(8, True), COMMIT, StreamAbort(7, 7), b"", b"I", b"Z", b"O", b"I\0\0\0"],
    ids=lambda each: str(each)[:14],
)
def test_what_is_not_legal_in_a_block_is_refused(session: Session, payload: Message | bytes) -> None:
    session.receive(StreamStart(7, True))
    with pytest.raises(ProtocolError):
        session.receive(payload)


def test_stream_that_was_committed_or_prepared_is_no_stream_any_more(session: Session) -> None:
    """I7: a second end of it has nothing to publish, and says so."""
    streamed(session, 7, b"1")
    session.receive(COMMIT)
    assert session.pending.stream_count == 0
    with pytest.raises(ProtocolError, match="of which no block came"):
        session.receive(COMMIT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, StreamStart(7, True)),
        ({}, COMMIT),
        ({"streaming": "on"}, BeginPrepare(*PREPARED)),
        ({"two_phase": "true"}, StreamStart(7, True)),
        ({"two_phase": "true"}, StreamPrepare(*PREPARED)),
        ({"streaming": "on"}, StreamPrepare(*PREPARED)),
    ],
    ids=str,
)
def test_what_the_session_did_not_ask_for_is_refused(spool: Spool, options: dict[str, str], message: Message) -> None:
    with pytest.raises(ProtocolError, match="not asked for"):
        Session(spool, options=options).receive(message)


def test_abort_that_was_not_asked_for_is_ignored(spool: Spool) -> None:
    """Postgres 18.0 to 18.6 send it to every session, for a large aborted subtransaction."""
    Session(spool, options={}).receive(StreamAbort(7, 8))
