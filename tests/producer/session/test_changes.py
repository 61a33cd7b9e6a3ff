"""A change of which a value is nowhere: its table is refused, or left from there on (I6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.kept import ITEMS, ORDERS, relation
from tests.producer.kept_session import BEGIN, COMMIT, COPIED, Unknown, insert, streamed
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.streaming_progress import current
from walbridge.producer.pgoutput.messages import Begin, Commit, Delete, Insert, Truncate, Unsent, Update
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.table_progress import QUARANTINED, STALE, TableProgress
from walbridge.schemas.position import Lsn, Position

INCOMPLETE = Insert(ORDERS, tuple_data(b"2", Unsent.UNCHANGED_TOAST))


def test_table_is_left_at_the_row_without_a_value_and_nothing_of_it_comes_after() -> None:
    """I6, I8: neither by the short way, nor by a truncate; other tables go on."""
    check_left_at_the_row_without_a_value("stale")


def test_table_of_a_row_without_a_value_is_left_also_where_it_would_be_refused_at_a_start() -> None:
    """It is copied again once its row filter and identity fit each other: no copy begins before."""
    check_left_at_the_row_without_a_value("refuse")


def check_left_at_the_row_without_a_value(unknown: Unknown) -> None:
    with streamed(unknown=unknown) as session:
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


LARGE = Insert(ORDERS, tuple_data(b"2", b"x" * 10**6))
"""Larger than Kafka would take it."""


@pytest.mark.parametrize("change", [LARGE, Update(ORDERS, None, None, LARGE.new), Delete(ORDERS, None, LARGE.new)])
def test_table_is_left_at_the_row_that_is_too_large_and_waits_for_its_operator(
    change: Insert | Update | Delete,
) -> None:
    """I4, I7: no part of the row is there, it takes no ordinal, and a copy would meet it again."""
    with streamed(row_bytes_max=1024) as session:
        session.feed(BEGIN, insert(1), insert(2), change, insert(3), insert(4, ITEMS), COMMIT)
        session.rest()

    assert [event[:3] for event in session.events] == [("orders", "c", 1), ("orders", "c", 2), ("items", "c", 4)]
    assert [event[4] for event in session.events] == [0, 1, 2]
    assert Barrier("dropped", Position(Lsn(500), 2)) in session.cut.tables[0].barriers
    left = session.last.progress.tables[ORDERS]
    assert (left.state, left.since) == (QUARANTINED, 500)
    assert "a row of table public.orders (key: id) takes 1,000," in str(left.why)


def test_key_change_whose_second_half_is_too_large_is_not_there_by_half() -> None:
    """I7"""
    moved = Update(ORDERS, tuple_data(b"1", Unsent.NULL), None, tuple_data(b"2", b"x" * 10**6))
    with streamed(row_bytes_max=1024) as session:
        session.feed(BEGIN, insert(1), moved, insert(4, ITEMS), COMMIT)
        session.rest()

    assert [event[1:3] for event in session.events] == [("c", 1), ("c", 4)]


def test_table_that_was_left_inside_of_a_split_transaction_stays_left_whatever_is_allowed_by_then() -> None:
    """I4: a limit that is raised meanwhile does not number anew what was published."""
    first = BEGIN, insert(1), LARGE, insert(2, ITEMS), insert(3, ITEMS)
    with streamed(row_bytes_max=1024, rows_max=2) as session:
        session.feed(*first)
        published, progress = session.events, session.last.progress
    assert progress.split is not None

    with streamed(progress, row_bytes_max=2**22) as again:
        again.feed(*first, insert(4, ITEMS), insert(5), COMMIT)
        again.rest()

    assert [event[1:5:3] for event in published + again.events] == [("c", 0), ("c", 1), ("c", 2), ("c", 3)]
    assert [event[2] for event in published + again.events] == [1, 2, 3, 4]


def test_row_that_cannot_be_read_is_its_tables_trouble() -> None:
    """I7, I10: what does not fit its type is not told."""
    with streamed() as session:
        session.feed(BEGIN, insert(1), *[Insert(ORDERS, tuple_data(b"seven", b"note"))] * 2, insert(4, ITEMS), COMMIT)
        session.rest()

    assert [event[:3] for event in session.events] == [("orders", "c", 1), ("items", "c", 4)]
    left = session.last.progress.tables[ORDERS]
    assert (left.state, left.why) == (
        QUARANTINED,
        "a row of table public.orders cannot be published, at 0/1F4: malformed tuple of public.orders: ValueError",
    )


def test_table_that_loses_its_key_over_several_partitions_is_left_before_its_next_change() -> None:
    """I3, I8: it begins anew in a topic of one. Announced so, and as it was, it loses nothing."""
    with streamed(partitions={"p.public.orders": 4}) as session:
        session.feed(BEGIN, insert(1), insert(1), insert(2, ITEMS), COMMIT)
        keyless, second = relation(identity="n"), Lsn(600)
        session.feed(Begin(second, 7, 78), keyless, relation(), insert(3), Commit(second, Lsn(640), 7))
        session.feed(Begin(Lsn(700), 7, 79), insert(4), keyless, insert(5), insert(6), insert(7, ITEMS))
        session.feed(Commit(Lsn(700), Lsn(740), 7))
        session.rest()

    assert [event[2] for event in session.events] == [1, 1, 2, 3, 4, 7]
    assert Barrier("dropped", Position(Lsn(700), 1)) in session.cut.tables[0].barriers
    left = session.last.progress.tables[ORDERS]
    assert (left.state, left.since) == (STALE, 700)
    assert "has no key any more, but its topic p.public.orders has 4 partitions" in str(left.why)


def test_changes_that_are_left_out_are_hashed_like_all_others() -> None:
    """I4: a restart skips as many messages as were received, whichever were published."""
    with streamed(unknown="stale", rows_max=3) as session:
        session.feed(BEGIN, insert(1), INCOMPLETE, insert(2), insert(3, ITEMS), insert(4, ITEMS))

    split = session.last.progress.split
    assert split is not None
    assert (split.messages_done, split.next_ordinal) == (5, 3)
