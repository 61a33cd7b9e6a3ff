"""Where a session ends its batches, and where it cuts a transaction in two: at its limits and nowhere else (I9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.producer.kept import ITEMS, ORDERS
from tests.producer.kept_session import BEGIN, COMMIT, Streamed, insert, streamed
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.batch.batch_limits import BARRIERS_SPLIT
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.pgoutput.messages import (
    Begin,
    Commit,
    Insert,
    LogicalMessage,
    Message,
    StreamStart,
    StreamStop,
    Truncate,
    Unsent,
)
from walbridge.producer.session.loop import UNPUBLISHED_MAX
from walbridge.producer.waits import PATIENCE_S
from walbridge.schemas.control.table_progress import CURRENT, STALE
from walbridge.schemas.position import Lsn

STALLED_S = 75.0
"""A quarter of what Kafka gives a transaction."""


def transaction(lsn: int, *changes: Message) -> list[Message]:
    """Whose commit record begins there."""
    return [Begin(Lsn(lsn), 7, lsn), *changes, Commit(Lsn(lsn), Lsn(lsn + 40), 7)]


def large(id_: int) -> Insert:
    """Of some 600 bytes."""
    return Insert(ORDERS, tuple_data(b"%d" % id_, b"x" * 500))


def cuts_of(session: Streamed) -> list[tuple[bool, int]]:
    """Of each committed batch: whether its cut is complete, and its rows."""
    return [(batch.cut.complete, len(batch.rows)) for batch in session.kafka.batches if batch.cut is not None]


def test_batch_that_is_full_ends_with_the_transaction_that_filled_it() -> None:
    with streamed(rows_max=2) as session:
        for lsn in (500, 540, 580):
            session.feed(*transaction(lsn, insert(lsn)))

        assert cuts_of(session) == [(True, 2)]


@pytest.mark.parametrize(("limit", "row"), [("rows_max", insert), ("bytes_max", large)])
def test_transaction_that_fits_a_batch_alone_is_not_cut_where_others_were_before_it(
    limit: str, row: Callable[[int], Insert]
) -> None:
    with streamed(**{limit: {"rows_max": 3, "bytes_max": 1500}[limit]}) as session:  # type: ignore[arg-type]
        session.feed(*transaction(500, row(1), row(2)), *transaction(540, row(3), row(4)))
        session.rest()

    assert cuts_of(session) == [(True, 4)]


def test_part_of_a_transaction_holds_no_more_than_a_batch_may() -> None:
    with streamed(rows_max=2) as session:
        session.feed(*transaction(500, insert(1)), *transaction(540, *(insert(n) for n in range(2, 9))))
        session.rest()

    assert cuts_of(session) == [(False, 3), (False, 2), (False, 2), (True, 1)]


def test_every_part_of_a_transaction_names_its_commit() -> None:
    with streamed(rows_max=2) as session:
        session.feed(*transaction(500, *map(insert, range(5))))
        session.rest()

    assert [batch.cut.commit_lsn for batch in session.kafka.batches if batch.cut] == [500, 500, 500]


def test_table_of_which_a_row_holds_no_label_is_left_where_its_transaction_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I8: a restart goes on behind it, so that nobody would read that row again."""
    monkeypatch.setattr(NewLabels, "look_up", lambda _: {ORDERS})
    with streamed(rows_max=2) as session:
        session.feed(*transaction(500, insert(1), insert(2, ITEMS), insert(3), insert(4, ITEMS)))
        session.rest()

    first = session.kafka.batches[0]
    assert first.progress.split is not None
    assert (first.progress.tables[ORDERS].state, first.progress.tables[ITEMS].state) == (STALE, CURRENT)
    assert [event[2] for event in session.events] == [1, 2, 4]


def test_transaction_of_many_truncates_is_cut_before_its_cut_has_too_many_barriers() -> None:
    """The job has a bounded number of segments a plan."""
    truncate = Truncate(False, False, (ORDERS,))
    with streamed() as session:
        session.feed(*transaction(500, *[truncate] * 40))
        session.rest()

    barriers = [len(t.barriers) for b in session.kafka.batches if b.cut is not None for t in b.cut.tables]
    assert max(barriers) == BARRIERS_SPLIT
    assert sum(barriers) == 41


def test_whole_transactions_do_not_wait_for_one_of_which_nothing_comes() -> None:
    """I8: Kafka would abort their batch. While it holds nothing of the open transaction, a complete cut is right."""
    with streamed() as session:
        session.feed(*transaction(500, insert(1)), Begin(Lsn(540), 7, 77))
        session.stall(STALLED_S, insert(2), Commit(Lsn(540), Lsn(580), 7))

    assert cuts_of(session) == [(True, 1), (True, 1)]
    assert [event[3:] for event in session.events] == [(500, 0), (540, 0)]


def test_transaction_that_stalls_is_cut_in_two_before_kafka_aborts_its_batch() -> None:
    """I4: what is published of it is counted and hashed, so that a restart goes on behind it."""
    with streamed() as session:
        session.feed(BEGIN, insert(1), insert(2))
        session.stall(STALLED_S, insert(3), COMMIT)

    assert cuts_of(session) == [(False, 2), (True, 1)]
    assert [event[3:] for event in session.events] == [(500, 0), (500, 1), (500, 2)]
    splits = [batch.progress.split for batch in session.kafka.batches]
    assert [split and split.messages_done for split in splits] == [2, None]


def test_transaction_that_stalls_for_a_moment_stays_whole() -> None:
    with streamed() as session:
        session.feed(*transaction(500, insert(1)), Begin(Lsn(540), 7, 77), insert(2))
        session.stall(PATIENCE_S + 1, Commit(Lsn(540), Lsn(580), 7))

    assert cuts_of(session) == [(True, 2)]


def test_stop_does_not_wait_for_a_transaction_that_stalls() -> None:
    with streamed() as session:
        session.feed(BEGIN, insert(1))
        session.stall(PATIENCE_S + 1)
        session.rest()

    assert cuts_of(session) == [(False, 1)]


def test_transaction_is_not_cut_behind_a_message_that_is_no_part_of_it() -> None:
    """I4: a split without a change of its transaction could not be resumed."""
    with streamed(messages=True) as session:
        session.feed(BEGIN, LogicalMessage(False, Lsn(450), "app", b"content"))
        session.stall(STALLED_S, COMMIT)

    assert [batch.progress.split for batch in session.kafka.batches] == [None]


def test_message_in_front_of_a_transaction_that_stalls_without_changes_does_not_wait_for_it() -> None:
    """I8: nothing of that transaction is in the batch, so a complete cut is right, and Kafka aborts nothing."""
    with streamed(messages=True) as session:
        session.feed(BEGIN, LogicalMessage(False, Lsn(450), "app", b"content"))
        session.stall(STALLED_S, insert(1), COMMIT)

    assert cuts_of(session) == [(True, 1), (True, 1)]
    assert [batch.progress.last_message_lsn for batch in session.kafka.batches] == [450, 450]


def test_part_of_a_split_transaction_that_is_skipped_is_not_cut_again_where_it_stalls() -> None:
    """I4, I8: progress says how much of it is published, and may neither forget that nor say less."""
    with streamed(rows_max=2) as first:
        first.feed(BEGIN, insert(1), insert(2))
    with streamed(first.last.progress, messages=True) as session:
        session.feed(BEGIN, insert(1), LogicalMessage(False, Lsn(510), "app", b"content"))
        session.stall(STALLED_S, insert(2), COMMIT)

    splits = [batch.progress.split for batch in session.kafka.batches]
    assert [split and split.messages_done for split in splits] == [2, None]


def test_left_out_changes_do_not_keep_a_batch_open_for_ever() -> None:
    """They come without a pause, so nothing is ever waited for."""
    with streamed(unknown="stale") as session:
        session.feed(BEGIN, insert(1, ITEMS), Insert(ORDERS, tuple_data(b"1", Unsent.UNCHANGED_TOAST)))
        session.out.batch.opened_s -= STALLED_S
        session.feed(*(insert(n) for n in range(UNPUBLISHED_MAX)))

    assert cuts_of(session) == [(False, 1)]


def test_blocks_of_a_streamed_transaction_do_not_keep_a_batch_open_for_ever() -> None:
    """I8: they may come without a pause for hours, and none of it is in the batch."""
    with streamed() as session:
        session.feed(*transaction(500, insert(1)), StreamStart(90, True), StreamStop())
        session.out.batch.opened_s -= session.settings.producer.batch_ms_max
        session.feed(StreamStart(90, False))

    assert cuts_of(session) == [(True, 1)]


def test_message_outside_of_transactions_that_fills_the_batch_does_not_end_the_open_one() -> None:
    """I8: a complete cut would hold half of it."""
    outside = LogicalMessage(False, Lsn(450), "app", b"content")
    with streamed(messages=True, rows_max=2) as session:
        session.feed(BEGIN, insert(1), outside)
        assert cuts_of(session) == []
        session.feed(COMMIT)

        assert cuts_of(session) == [(True, 2)]


def test_message_outside_of_transactions_that_fills_the_batch_ends_it() -> None:
    with streamed(messages=True, rows_max=1) as session:
        session.feed(LogicalMessage(False, Lsn(450), "app", b"content"))

        assert cuts_of(session) == [(True, 1)]


def test_bodies_of_changes_that_are_left_out_do_not_pile_up() -> None:
    with streamed(unknown="stale") as session:
        session.feed(BEGIN, Insert(ORDERS, tuple_data(b"1", Unsent.UNCHANGED_TOAST)))
        session.feed(*(insert(n) for n in range(UNPUBLISHED_MAX + 1)))

        assert len(session.session._transactions.unhashed) <= UNPUBLISHED_MAX
