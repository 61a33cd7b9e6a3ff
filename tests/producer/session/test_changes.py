"""A change of which a value is nowhere: its table is refused, or left from there on (I6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.kept import ITEMS, ORDERS
from tests.producer.kept_session import BEGIN, COMMIT, COPIED, insert, streamed
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.streaming_progress import current
from walbridge.producer.encoding.record import UnknownValue
from walbridge.producer.pgoutput.messages import Begin, Commit, Insert, Truncate, Unsent
from walbridge.schemas.cut import Barrier
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_progress import STALE, TableProgress

INCOMPLETE = Insert(ORDERS, tuple_data(b"2", Unsent.UNCHANGED_TOAST))


def test_row_without_a_value_is_refused_unless_its_table_may_be_left() -> None:
    """I6"""
    with streamed() as session, pytest.raises(UnknownValue):
        session.feed(BEGIN, insert(1), INCOMPLETE)


def test_table_is_left_at_the_row_without_a_value_and_nothing_of_it_comes_after() -> None:
    """I6, I8: neither by the short way, nor by a truncate; other tables go on."""
    with streamed(unknown="stale") as session:
        session.feed(BEGIN, insert(1), insert(2), INCOMPLETE, insert(3), insert(4, ITEMS))
        session.feed(Truncate(False, False, (ORDERS, ITEMS)), COMMIT)
        session.rest()

    assert [event[:3] for event in session.events] == [
        ("orders", "c", 1), ("orders", "c", 2), ("items", "c", 4), ("items", "t", None),
    ]  # fmt: skip
    assert [event[4] for event in session.events] == [0, 1, 2, 3]
    assert Barrier("dropped", Position(Lsn(500), 2)) in session.cut.tables[0].barriers
    assert session.last.progress.relation_ids == (ITEMS,)


def test_table_that_was_left_is_left_in_the_next_session_too() -> None:
    """I7: its changes are not those of a table without a copy."""
    left = {ORDERS: TableProgress(ORDERS, STALE)}
    with streamed(replace(COPIED, tables=current(ITEMS) | left), unknown="stale") as session:
        session.feed(BEGIN, insert(1), insert(2, ITEMS), COMMIT)
        session.feed(Begin(Lsn(540), 7, 78), insert(3), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert [event[2] for event in session.events] == [2]


def test_changes_that_are_left_out_are_hashed_like_all_others() -> None:
    """I4: a restart skips as many messages as were received, whichever were published."""
    with streamed(unknown="stale", rows_max=3) as session:
        session.feed(BEGIN, insert(1), INCOMPLETE, insert(2), insert(3, ITEMS), insert(4, ITEMS))

    split = session.last.progress.split
    assert split is not None
    assert (split.messages_done, split.next_ordinal) == (5, 3)
