"""Messages to positioned changes: what is skipped after a restart, and what may never be."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import xlog_data
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.messages import Begin, Commit, Origin
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.control.progress_record import Split
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn

NOWHERE = Lsn(0)
BEGIN = Begin(Lsn(1000), 5, 77)
COMMIT = Commit(Lsn(1000), Lsn(1040), 5)


def publish(tracker: TransactionTracker, bodies: list[bytes], ordinals: int = 1) -> list[bytes]:
    """Feed changes, each of so many events; those that were to be published."""
    published = []
    for body in bodies:
        if tracker.receive_change(body):
            assert tracker.open is not None
            tracker.open.ordinal += ordinals
            published.append(body)
    return published


def split_after(bodies: list[bytes], ordinals: int = 1) -> Split:
    """The split of a transaction of which these changes are published."""
    tracker = TransactionTracker(NOWHERE, None)
    tracker.begin(BEGIN)
    publish(tracker, bodies, ordinals)
    return tracker.split()


def bodies(count: int) -> list[bytes]:
    return [b"change %d" % n for n in range(count)]


@pytest.mark.parametrize(
    ("done", "skipped"),
    [(999, False), (1000, False), (1001, True), (1040, True)],
    ids=["before", "exactly at its commit record", "one byte behind it", "at its end"],
)
def test_whole_transaction_is_skipped_exactly_when_its_commit_record_is_below_done(done: int, skipped: bool) -> None:
    """I4: done is the end of a transaction, and the next commit record may begin right there."""
    tracker = TransactionTracker(Lsn(done), None)

    assert tracker.begin(BEGIN).skipped is skipped
    assert publish(tracker, [b"x"]) == ([] if skipped else [b"x"])
    assert tracker.commit(COMMIT).skipped is skipped


def test_positions_count_from_0_in_each_transaction() -> None:
    """I4"""
    tracker = TransactionTracker(NOWHERE, None)
    ordinals = []
    for _ in range(2):
        tracker.begin(BEGIN)
        publish(tracker, bodies(3))
        ordinals.append(tracker.commit(COMMIT).ordinal)
    assert ordinals == [3, 3]


def test_message_outside_a_transaction_is_refused() -> None:
    tracker = TransactionTracker(NOWHERE, None)

    for call in (
        lambda: tracker.receive_change(b"x"),
        lambda: tracker.commit(COMMIT),
        lambda: tracker.receive_origin(Origin(Lsn(1), "o")),
        tracker.split,
    ):
        with pytest.raises(ProtocolError):
            call()


def test_begin_inside_a_transaction_is_refused() -> None:
    tracker = TransactionTracker(NOWHERE, None)
    tracker.begin(BEGIN)

    with pytest.raises(ProtocolError):
        tracker.begin(BEGIN)


def test_commit_of_another_transaction_is_refused() -> None:
    tracker = TransactionTracker(NOWHERE, None)
    tracker.begin(BEGIN)

    with pytest.raises(ProtocolError):
        tracker.commit(Commit(Lsn(1001), Lsn(1040), 5))


def test_origin_is_kept_for_its_transaction() -> None:
    tracker = TransactionTracker(NOWHERE, None)
    tracker.begin(BEGIN)
    tracker.receive_origin(Origin(Lsn(9), "elsewhere"))

    own = TransactionSource.of(BEGIN.final_lsn, BEGIN.commit_time_us, BEGIN.xid, None)
    replicated = TransactionSource.of(BEGIN.final_lsn, BEGIN.commit_time_us, BEGIN.xid, "elsewhere", 9)
    assert tracker.commit(COMMIT).source == replicated != own
    assert tracker.begin(BEGIN).source == own


def test_resume_publishes_what_was_not_and_goes_on_counting() -> None:
    """I4"""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(3), ordinals=2))
    tracker.begin(BEGIN)

    assert publish(tracker, bodies(5)) == bodies(5)[3:]
    assert tracker.commit(COMMIT).ordinal == 3 * 2 + 2


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=30), st.data())
def test_resume_at_any_place_publishes_each_change_once(changes: list[bytes], data: st.DataObject) -> None:
    done = data.draw(st.integers(1, len(changes)))
    tracker = TransactionTracker(NOWHERE, split_after(changes[:done]))
    tracker.begin(BEGIN)

    assert publish(tracker, changes) == changes[done:]
    tracker.commit(COMMIT)


@given(st.lists(st.binary(max_size=3), min_size=2, max_size=30), st.data())
def test_split_of_a_resumed_transaction_is_that_of_one_that_was_not(changes: list[bytes], data: st.DataObject) -> None:
    """Killed twice in one transaction: the hash goes on over what was skipped."""
    first = data.draw(st.integers(1, len(changes) - 1))
    tracker = TransactionTracker(NOWHERE, split_after(changes[:first]))
    tracker.begin(BEGIN)
    publish(tracker, changes)

    assert tracker.split() == split_after(changes)


def test_long_resume_holds_few_bodies_and_hashes_alike() -> None:
    """I9"""
    changes = bodies(2_500)
    tracker = TransactionTracker(NOWHERE, split_after(changes[:2_400]))
    tracker.begin(BEGIN)

    assert publish(tracker, changes) == changes[2_400:]
    assert tracker.split() == split_after(changes)


@pytest.mark.parametrize(
    "changes",
    [
        [b"change 0", b"changed", b"change 2", b"change 3"],
        [b"change 1", b"change 0", b"change 2", b"change 3"],
        [b"change 0change 1", b"", b"change 2", b"change 3"],
    ],
    ids=["other", "order", "boundary"],
)
def test_resume_over_other_changes_than_were_published_stops(changes: list[bytes]) -> None:
    """I7"""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(3)))
    tracker.begin(BEGIN)

    with pytest.raises(OperatorError, match="reads otherwise"):
        publish(tracker, changes)


def test_resume_of_a_transaction_that_became_shorter_stops() -> None:
    """I7"""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(3)))
    tracker.begin(BEGIN)
    publish(tracker, bodies(2))

    with pytest.raises(OperatorError, match="ends before"):
        tracker.commit(COMMIT)


@pytest.mark.parametrize("begin", [Begin(Lsn(1000), 5, 78), Begin(Lsn(1001), 5, 77)], ids=["xid", "LSN"])
def test_another_transaction_in_place_of_the_split_one_stops(begin: Begin) -> None:
    """I7"""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(3)))

    with pytest.raises(OperatorError, match="half published"):
        tracker.begin(begin)


def test_whole_transactions_before_the_split_one_are_skipped_first() -> None:
    """They were in the same batch: done is their end, and the stream begins at the floor before them."""
    tracker = TransactionTracker(Lsn(840), split_after(bodies(1)))
    assert tracker.begin(Begin(Lsn(800), 5, 76)).skipped
    publish(tracker, [b"other"])
    tracker.commit(Commit(Lsn(800), Lsn(840), 5))

    tracker.begin(BEGIN)
    assert publish(tracker, bodies(2)) == bodies(2)[1:]


def test_empty_transaction_before_the_split_one_is_let_through() -> None:
    """Before Postgres 15 transactions without published changes come too, and no cut counts them."""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(1)))
    tracker.begin(Begin(Lsn(800), 5, 76))
    tracker.commit(Commit(Lsn(800), Lsn(840), 5))

    tracker.begin(BEGIN)
    assert publish(tracker, bodies(2)) == bodies(2)[1:]


def test_change_before_the_split_transaction_that_was_not_published_stops() -> None:
    """I7"""
    tracker = TransactionTracker(NOWHERE, split_after(bodies(1)))
    tracker.begin(Begin(Lsn(800), 5, 76))

    with pytest.raises(OperatorError, match="half published"):
        tracker.receive_change(b"other")


def test_transaction_after_the_resumed_one_is_published_whole() -> None:
    tracker = TransactionTracker(NOWHERE, split_after(bodies(2)))
    tracker.begin(BEGIN)
    publish(tracker, bodies(2))
    tracker.commit(COMMIT)

    tracker.begin(Begin(Lsn(1040), 6, 78))
    assert publish(tracker, bodies(2)) == bodies(2)
    assert tracker.split().messages_done == 2


def framed(*made: bytes) -> list[bytes]:
    """Behind a header that differs each time a frame is sent."""
    return [b"%4d" % n + body for n, body in enumerate(made, start=next(SENT))]


SENT = count(step=100)


def test_hash_of_a_transaction_is_of_its_bodies_alone() -> None:
    """I4: neither what came before it, nor the headers of its frames, come again."""
    tracker = TransactionTracker(NOWHERE, None, body_at=4)
    splits = []
    for begin in (Begin(Lsn(900), 5, 76), BEGIN, BEGIN):
        tracker.begin(begin)
        publish(tracker, framed(*bodies(3)))
        splits.append(tracker.split())
        tracker.commit(Commit(begin.final_lsn, Lsn(begin.final_lsn + 40), 5))

    assert splits[1] == splits[2]
    assert splits[0].hash == splits[1].hash


def test_change_that_was_not_hashed_yet_is_of_its_transaction_alone() -> None:
    """I4"""
    tracker = TransactionTracker(NOWHERE, None)
    tracker.begin(Begin(Lsn(900), 5, 76))
    publish(tracker, [b"of the first"])
    tracker.commit(Commit(Lsn(900), Lsn(940), 5))
    tracker.begin(BEGIN)
    publish(tracker, bodies(2))

    assert tracker.split() == split_after(bodies(2))


def test_events_that_tell_their_sequence_have_the_commit_before_theirs_and_their_own_place() -> None:
    """Where a session begins, how far the one before had come stands for the commit."""
    tracker = TransactionTracker(Lsn(600), None, XLOG_DATA_HEADER_BYTES, with_sequence=True)
    found = []
    for begin, places in ((BEGIN, (700, 710)), (replace(BEGIN, final_lsn=Lsn(1200)), (1100,))):
        transaction = tracker.begin(begin)
        for place in places:
            assert tracker.receive_change(xlog_data(b"x", Lsn(place)))
            at = transaction.source.sequence_at
            found.append(transaction.source_of(16_384).encoded[at + 2 : -len(transaction.source.encoded[at + 1 :])])
        tracker.commit(Commit(begin.final_lsn, Lsn(begin.final_lsn + 40), 5))

    assert found == [b'["600","700"]', b'["600","710"]', b'["1040","1100"]']
