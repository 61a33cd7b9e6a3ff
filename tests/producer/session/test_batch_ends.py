"""Where a session ends its batches, and where it cuts a transaction in two: at its limits and nowhere else (I9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.producer.kept import ORDERS
from tests.producer.kept_session import BEGIN, COMMIT, Streamed, insert, streamed
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.batch.open_batch import BARRIERS_SPLIT
from walbridge.producer.pgoutput.messages import Begin, Commit, Insert, LogicalMessage, Message, Truncate, Unsent
from walbridge.producer.session.loop import UNPUBLISHED_MAX
from walbridge.schemas.position import Lsn


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


def test_transaction_of_many_truncates_is_cut_before_its_cut_has_too_many_barriers() -> None:
    """The job has a bounded number of segments a plan."""
    truncate = Truncate(False, False, (ORDERS,))
    with streamed() as session:
        session.feed(*transaction(500, *[truncate] * 40))
        session.rest()

    barriers = [len(t.barriers) for b in session.kafka.batches if b.cut is not None for t in b.cut.tables]
    assert max(barriers) == BARRIERS_SPLIT
    assert sum(barriers) == 41


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
