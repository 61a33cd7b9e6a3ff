"""Streamed and prepared transactions: what is let out at their commit, and what may never be."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import encode_message, encode_streamed, tuple_data, xlog_data
from tests.producer.uncommitted_server import TABLES, Server
from tests.producer.uncommitted_session import DONE, FAULTY, Session
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    CommitPrepared,
    Insert,
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
)
from walbridge.producer.session.transaction_spool import Spool
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Producer, Settings


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(Settings(producer=Producer(spool_dir=str(tmp_path))))
    made.open()
    yield made
    made.close()


@pytest.fixture
def session(spool: Spool) -> Session:
    return Session(spool)


_tables = st.lists(st.sampled_from(TABLES), max_size=3)
_place = st.integers(0, 5)
_ends = st.sampled_from(("commit", "commit", "abort", "prepare"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("transaction"), _tables),
        st.tuples(st.just("begin")),
        st.tuples(st.just("block"), _place, _tables),
        st.tuples(st.just("block"), _place, _tables),
        st.tuples(st.just("savepoint"), _place),
        st.tuples(st.just("release"), _place),
        st.tuples(st.just("roll_back_to"), _place),
        st.tuples(st.just("end"), _place, _ends),
        st.tuples(st.just("prepare"), _tables),
        st.tuples(st.just("end_prepared"), _place, _ends),
        st.tuples(st.just("reshape")),
    ),
    max_size=40,
)


def played(steps: list[tuple[object, ...]]) -> Server:
    """A server that did this."""
    server = Server()
    for name, *arguments in steps:
        step: Callable[..., None] = getattr(server, str(name))
        step(*arguments)
    return server


NEWER_BETWEEN = [("begin",), ("block", 0, [1]), ("reshape",), ("transaction", [1]), ("end", 0, "commit")]
KNOWN_BEFORE = [("transaction", [1]), ("prepare", [1]), ("reshape",), ("transaction", [1])]

SAVEPOINT = [("savepoint", 0), ("block", 0, [1, 2]), ("roll_back_to", 0)]
ROLLED_BACK = [("begin",), ("block", 0, [1]), *SAVEPOINT, ("block", 0, [1])]


@given(steps=STEPS)
@example(steps=[*NEWER_BETWEEN, ("transaction", [1])])  # the block's columns are older than what is known
@example(steps=[*KNOWN_BEFORE, ("end_prepared", 0, "commit"), ("transaction", [1])])  # announced before the prepare
@example(steps=[("begin",), ("block", 0, [1]), ("reshape",), ("block", 0, [1]), ("end", 0, "commit")])
@example(steps=[*ROLLED_BACK, ("end", 0, "commit"), ("transaction", [1])])
@example(steps=[*ROLLED_BACK, ("end", 0, "prepare"), ("end_prepared", 0, "commit")])
@settings(max_examples=200, deadline=None)
def test_whatever_comes_in_whatever_order_only_what_is_committed_gets_out(
    steps: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """I4: in the order of commits, with the columns that each change was made with."""
    server = played(steps)
    spool = Spool(Settings(producer=Producer(spool_dir=str(tmp_path_factory.getbasetemp()))))
    session = Session(spool)
    for payload in server.payloads:
        session.receive(payload)

    assert session.committed == server.committed
    assert session.pending.prepared_count == len(server.prepared)
    assert session.pending.oldest_prepared_lsn == min((lsn for _, lsn in server.prepared.values()), default=None)
    spool.clear()
    assert spool.byte_count == 0
    spool.close()


@given(steps=STEPS, data=st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_streams_end_in_words_and_in_nothing_else(
    steps: list[tuple[object, ...]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """I7: messages lost, repeated, out of order, cut or changed: a value, or an error of the protocol."""
    payloads = list(played(steps).payloads)
    for _ in range(data.draw(st.integers(1, 3))):
        if payloads:
            at = data.draw(st.integers(0, len(payloads) - 1))
            damage(payloads, at, data.draw(st.sampled_from("lrsct")), data.draw(st.integers(0, 255)))
    spool = Spool(Settings(producer=Producer(spool_dir=str(tmp_path_factory.getbasetemp()))))
    session = Session(spool)
    with contextlib.suppress(ProtocolError, OperatorError):
        for payload in payloads:
            session.receive(payload)
    spool.close()


def damage(payloads: list[bytes], at: int, kind: str, value: int) -> None:
    payload = payloads[at]
    if kind == "l":
        del payloads[at]
    elif kind == "r":
        payloads.insert(at, payload)
    elif kind == "s":
        payloads.insert(value % len(payloads), payloads.pop(at))
    elif kind == "c":
        payloads[at] = payload[: value % (len(payload) + 1)]
    else:
        place = value % len(payload)
        payloads[at] = payload[:place] + bytes([value]) + payload[place + 1 :]


def insert(value: bytes) -> Insert:
    return Insert(1, tuple_data(value))


def relation(name: str) -> bytes:
    server = Server()
    server.transaction([1])
    return next(payload for payload in server.payloads if payload[:1] == b"R").replace(b"t1", name.encode())


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
PREPARED = (Lsn(150), Lsn(158), 5, 7, "")
"""Position, time, xid and name, which may be empty."""


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


@pytest.mark.parametrize("payload", [Begin(Lsn(1), 0, 9), StreamStart(8, True), b"", b"Z", b"P"], ids=str)
def test_what_is_not_legal_between_prepares_is_refused(session: Session, payload: Message | bytes) -> None:
    session.receive(BeginPrepare(*PREPARED))
    with pytest.raises(ProtocolError):
        session.receive(payload)


@pytest.mark.parametrize(("xid", "gid"), [(8, ""), (7, "another")])
def test_prepare_that_ends_another_transaction_is_refused(session: Session, xid: int, gid: str) -> None:
    session.receive(BeginPrepare(*PREPARED))
    with pytest.raises(ProtocolError, match="another transaction"):
        session.receive(Prepare(*PREPARED[:3], xid, gid))


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


def prepare(session: Session, *values: bytes, xid: int = 7, gid: str = "", lsn: int = 150) -> None:
    session.receive(BeginPrepare(Lsn(lsn), Lsn(lsn + 8), 5, xid, gid))
    session.receive(relation("t1"))
    for value in values:
        session.receive(insert(value))
    session.receive(Prepare(Lsn(lsn), Lsn(lsn + 8), 5, xid, gid))


def commit_prepared(xid: int = 7, gid: str = "", lsn: int = 200) -> CommitPrepared:
    return CommitPrepared(Lsn(lsn), Lsn(lsn + 8), 5, xid, gid)


def test_prepared_transaction_holds_its_prepare_until_it_is_committed(session: Session) -> None:
    """I1"""
    prepare(session, b"1")
    prepare(session, b"2", xid=8, gid="later", lsn=170)
    held = [session.pending.oldest_prepared_lsn]
    for end in (commit_prepared(), RollbackPrepared(Lsn(178), Lsn(220), 5, 6, 8, "later")):
        session.receive(end)
        held.append(session.pending.oldest_prepared_lsn)

    assert held == [150, 170, None]
    assert session.committed == [(7, [(1, 1, b"1")])]


def test_name_that_is_used_again_is_another_transaction(session: Session) -> None:
    """Also while the end of the first is on its way: names are unique only among those prepared at one time."""
    prepare(session, b"1", xid=7, gid="one")
    prepare(session, b"2", xid=8, gid="one", lsn=170)
    session.receive(RollbackPrepared(Lsn(158), Lsn(190), 5, 6, 7, "one"))
    session.receive(commit_prepared(8, "one"))

    assert session.committed == [(8, [(1, 1, b"2")])]


def test_prepare_that_comes_again_is_the_same(session: Session) -> None:
    prepare(session, b"1")
    prepare(session, b"1")
    session.receive(commit_prepared())

    assert session.committed == [(7, [(1, 1, b"1")])]


def test_prepare_without_begin_is_of_a_transaction_that_changed_nothing(session: Session) -> None:
    """18.0 to 18.4"""
    session.receive(Prepare(*PREPARED))
    session.receive(commit_prepared())

    assert session.committed == [(7, [])]


def test_rollback_of_a_prepared_transaction_never_heard_of_is_ignored(session: Session) -> None:
    """It was prepared before two_phase began, or changed nothing."""
    session.receive(RollbackPrepared(Lsn(158), Lsn(190), 5, 6, 7, "one"))

    assert session.pending.prepared_count == 0


def test_commit_of_a_prepared_transaction_whose_changes_did_not_come_is_refused(session: Session) -> None:
    """I7"""
    with pytest.raises(OperatorError, match="its changes did not come"):
        session.receive(commit_prepared())


@pytest.mark.parametrize("version", [190000, 130023], ids=["newer than all that are known", "older"])
def test_commit_without_its_changes_is_refused_on_a_server_of_another_major(spool: Spool, version: int) -> None:
    """I7: only some minors are known to leave out a prepare."""
    with pytest.raises(OperatorError, match="its changes did not come"):
        Session(spool, version=version).receive(commit_prepared())


def test_commit_without_its_changes_exactly_at_what_is_done_is_refused() -> None:
    """I7: a commit record begins right where the last published one ended, and is not published yet."""
    session = Session(Spool(Settings()))
    with pytest.raises(OperatorError, match="its changes did not come"):
        session.receive(commit_prepared(lsn=DONE))


def test_commit_without_prepare_passes_where_it_was_published_before(session: Session) -> None:
    session.receive(commit_prepared(lsn=DONE - 1))

    assert session.committed == [(7, [])]


def test_commit_without_prepare_passes_where_the_server_leaves_out_empty_ones(spool: Spool) -> None:
    """15.0 to 15.18, 16.0 to 16.14, 17.0 to 17.10, 18.0 to 18.4"""
    session = Session(spool, version=FAULTY)
    session.receive(commit_prepared())

    assert session.committed == [(7, [])]


def test_table_announced_in_a_transaction_that_is_rolled_back_is_known_if_it_was_prepared(session: Session) -> None:
    """The server keeps it in mind at the prepare, but not what came in a block."""
    prepare(session, b"1")
    session.receive(RollbackPrepared(Lsn(158), Lsn(190), 5, 6, 7, ""))
    session.receive(Begin(Lsn(300), 5, 9))
    session.receive(insert(b"2"))

    assert session.committed == [(9, [(1, 1, b"2")])]
