"""A session to which transactions come before their commit: what is published of them, and when it is confirmed."""

from __future__ import annotations

from dataclasses import replace

from tests.producer.kept import ORDERS, relation
from tests.producer.kept_session import BEGIN, COMMIT, insert, streamed
from tests.producer.pgoutput.encoder import encode_streamed, tuple_data
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Insert,
    Message,
    Prepare,
    Relation,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from walbridge.schemas.position import Lsn


def block(*messages: Message, xid: int = 90) -> list[Message | bytes]:
    return [StreamStart(xid, True), *(encode_streamed(xid, each) for each in messages), StreamStop()]


WIDER = relation(ORDERS, replace(relation().columns[1], name="more"))
WIDE_ROW = Insert(ORDERS, tuple_data(b"2", b"note", b"more"))


def test_streamed_transaction_is_published_at_its_commit_like_any_other() -> None:
    with streamed() as session:
        session.feed(*block(insert(1), insert(2)), BEGIN, insert(3), COMMIT)
        session.feed(StreamCommit(90, Lsn(540), Lsn(580), 7))
        session.rest()
        assert session.spool.byte_count == 0

    assert session.events == [("orders", "c", 3, 500, 0), ("orders", "c", 1, 540, 0), ("orders", "c", 2, 540, 1)]
    assert session.cut.end_lsn == 580


def test_table_that_a_streamed_transaction_announced_is_known_after_its_commit() -> None:
    with streamed() as session:
        session.feed(*block(WIDER, WIDE_ROW), StreamCommit(90, Lsn(500), Lsn(540), 7))
        session.feed(Begin(Lsn(540), 7, 78), WIDE_ROW, Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert [event[2] for event in session.events] == [2, 2]


def test_table_that_a_streamed_and_prepared_transaction_announced_is_announced_again() -> None:
    """Until then changes are read by what was known before."""
    with streamed() as session:
        prepare = StreamPrepare(Lsn(400), Lsn(408), 7, 90, "g")
        session.feed(*block(WIDER, WIDE_ROW), prepare, CommitPrepared(Lsn(500), Lsn(540), 7, 90, "g"))
        session.feed(Begin(Lsn(540), 7, 78), insert(3), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert [event[2] for event in session.events] == [2, 3]


def prepared(relations: list[Relation], change: Insert) -> list[Message]:
    return [BeginPrepare(Lsn(400), Lsn(408), 7, 91, "g"), *relations, change, Prepare(Lsn(400), Lsn(408), 7, 91, "g")]


def test_prepared_transaction_is_read_by_the_tables_of_its_time_and_leaves_those_of_now() -> None:
    """An ordinary transaction announced another version between its prepare and its commit."""
    with streamed() as session:
        session.feed(*prepared([], insert(1)), BEGIN, WIDER, WIDE_ROW, COMMIT)
        session.feed(CommitPrepared(Lsn(540), Lsn(580), 7, 91, "g"))
        session.feed(Begin(Lsn(580), 7, 78), WIDE_ROW, Commit(Lsn(580), Lsn(620), 7))
        session.rest()

    assert [event[2] for event in session.events] == [2, 1, 2]


def test_prepared_transaction_holds_what_is_confirmed_before_its_prepare() -> None:
    """I1"""
    with streamed() as session:
        session.feed(*prepared([], insert(1)), BEGIN, insert(2), COMMIT)
        session.rest()
        assert session.happened[-1] == "confirm 400"
        session.feed(CommitPrepared(Lsn(540), Lsn(580), 7, 91, "g"))
        session.rest()

    assert session.happened[-1] == "confirm 580"
