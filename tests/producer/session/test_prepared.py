"""Prepared transactions: held until they are committed, and what is refused where their changes did not come."""

from __future__ import annotations

import pytest

from tests.producer.session.pending_messages import PREPARED, insert, prepare
from tests.producer.uncommitted_session import DONE, FAULTY, Session
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    CommitPrepared,
    Message,
    Prepare,
    RollbackPrepared,
    StreamStart,
)
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings


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


def test_commit_without_prepare_passes_where_the_session_leaves_out_what_was_replicated(spool: Spool) -> None:
    """With origin = "none" the server leaves out a prepare that has an origin, and not its end by hand, which has none:
    it is told of in this session and in a later one, and holds nothing back."""
    session = Session(spool, asks_for_no_origin=True)
    session.receive(commit_prepared())
    prepare(session, b"1", xid=8, gid="here", lsn=210)
    session.receive(commit_prepared(9, "pg_gid_16400_9", lsn=230))
    assert session.pending.oldest_prepared_lsn == 210
    session.receive(commit_prepared(8, "here", lsn=250))

    assert session.committed == [(7, []), (9, []), (8, [(1, 1, b"1")])]


def test_table_announced_in_a_transaction_that_is_rolled_back_is_known_if_it_was_prepared(session: Session) -> None:
    """The server keeps it in mind at the prepare, but not what came in a block."""
    prepare(session, b"1")
    session.receive(RollbackPrepared(Lsn(158), Lsn(190), 5, 6, 7, ""))
    session.receive(Begin(Lsn(300), 5, 9))
    session.receive(insert(b"2"))

    assert session.committed == [(9, [(1, 1, b"2")])]
