"""Chunks of a copy beside the stream: each enters as the source's rows at E, or not at all (I1, I4).

What a window makes of changes is shown by ``copying/test_window.py``; here, that each change and each answer reaches
it in its time, and that progress says what the topic holds.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import replace

import pytest

from tests.producer.copied_session import (
    COPIED,
    LATE,
    LATER,
    XID,
    announcement,
    copied,
    copying,
    found,
    insert,
    published,
    read,
    row,
    shown,
)
from tests.producer.kept import ITEMS, ORDERS
from tests.producer.session.copies.told import BEGIN, END
from walbridge.producer.copying.visibility import Before
from walbridge.producer.guards.doubts.rewrites import from_text
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.pgoutput.messages import Begin, Commit
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkWanted, Failed, TablesFound, TableWanted
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.control.table_progress import QUARANTINED
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Producer


def test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row() -> None:
    """I1: with each step Kafka holds how far the copy is."""
    with copied() as session:
        assert session.begin().after is None
        wanted = session.chunk((1, "one"), (2, "two"))
        assert isinstance(wanted, ChunkWanted)
        assert wanted.after == Bound(("2",))
        assert (session.copy().bound, session.copy().rows, session.copy().chunks) == (("2",), 2, 1)
        session.chunk((3, "three"), is_last=True)
        assert session.told() == [BEGIN, ("r", 1, "one"), ("r", 2, "two"), ("r", 3, "three"), END]
        assert session.kinds == ["copy_begin", "copy_end"]
        assert (session.table().state, session.table().copy) == ("current", None)
        assert session.copies.is_at_rest
        assert [len(batch.rows) for batch in session.kafka.batches] == [1, 2, 1, 1]


def test_time_that_a_copy_takes_makes_no_trouble_older() -> None:
    """Else a table whose copies take hours, and do not help, would be copied for ever."""
    long_ago, now_s = int(time.time()) - 10_000, int(time.time())
    begun = copying("7")
    with copied({**begun, LATE: replace(begun[LATE], troubles=(long_ago - 5, long_ago))}) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        session.chunk((8, "eight"), is_last=True)
        first, last = session.table().troubles
        assert (session.table().state, last - first) == ("current", 5)
        assert last >= now_s


def test_no_step_of_a_copy_names_a_transaction_and_each_cut_of_changes_does() -> None:
    """I8: the lake passes over what stands in the cuts that name none."""
    with copied() as session:
        session.begin()
        session.transaction(announcement(), insert(2, "two"))
        session.chunk((1, "one"), (3, "three"), is_last=True)
        session.transaction(insert(4, "four"))
        session.rest()
        cuts = [batch.cut for batch in session.kafka.batches if batch.cut is not None]
        rows = [[event["op"] for _, event in session.read_of(batch)] for batch in session.kafka.batches]
        assert rows == [["m"], ["c"], ["r", "r"], ["m"], ["c"]]
        assert [each.commit_lsn is None for each in cuts] == [True, False, True, True, False]


def test_row_that_is_too_large_for_kafka_ends_the_copy_and_its_table_waits_for_its_operator() -> None:
    """I7, I8: it is not copied again by itself, as the row is met again; nothing of it is current."""
    with copied(row_bytes_max=1024) as session:
        session.begin()
        session.chunk((1, "one"), (2, "x" * 10**6), (3, "three"), is_last=True)
        session.transaction(insert(4, "left out"), insert(5, "other", ITEMS))
        session.rest()
        assert session.told() == [BEGIN, ("r", 1, "one")]
        assert session.kinds == ["copy_begin", "dropped"]
        assert (session.table().state, session.table().copy) == (QUARANTINED, None)
        assert "a row of table public.late (key: id) takes 1,000," in str(session.table().why)
        assert session.copies.is_at_rest
        assert session.events[-1][:3] == ("items", "c", 5)


def test_change_that_is_too_large_for_kafka_ends_the_copy_of_its_table() -> None:
    with copied(row_bytes_max=1024) as session:
        session.begin()
        session.transaction(announcement(), insert(2, "x" * 10**6), insert(3, "left out"))
        session.chunk((1, "one"), is_last=True)
        session.rest()
        assert session.told() == [BEGIN]
        assert session.kinds == ["copy_begin", "dropped"]
        assert session.table().state == QUARANTINED
        assert session.copies.is_at_rest


def test_labels_of_the_snapshot_are_remembered_with_its_rows() -> None:
    """I8: one that came after the copy had begun, and is renamed before a look, shows by that."""
    labels = frozenset({"600001-a", "600001-b"})
    with copied() as session:
        session.begin()
        session.answer(replace(shown(), labels=labels), read((1, "one"), lsn=session.kept_stream.received))
        assert session.told() == [BEGIN, ("r", 1, "one")]
        assert from_text(session.table().storage or "").labels == labels


def test_table_without_rows_is_copied() -> None:
    with copied() as session:
        session.begin()
        session.chunk(is_last=True)
        assert session.table().state == "current"


def test_table_that_is_copied_is_asked_for_nothing_more() -> None:
    with copied() as session:
        session.begin()
        session.chunk(is_last=True)
        session.transaction(announcement(), insert(1, "one"))
        assert session.pass_s(1_000) is None
        session.rest()
        assert session.told()[-1] == ("c", 1, "one")


def test_chunk_waits_until_all_that_its_rows_show_is_received() -> None:
    """I4: else the stream would bring again, behind them, what they are younger than."""
    with copied() as session:
        session.begin()
        session.answer(shown(), read((1, "new"), lsn=800))
        session.transaction(announcement(), insert(1, "old"))
        assert session.reader.wanted is not None
        session.hear(799)
        session.step()
        session.rest()
        assert session.told() == [BEGIN, ("c", 1, "old")]
        session.hear(800)
        session.step()
        assert session.told() == [BEGIN, ("c", 1, "old"), ("r", 1, "new")]
        assert session.events[-1] == ("late", "r", 1, 800, -1)


def test_chunk_does_not_enter_before_its_rows_are_read() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown())
        session.hear(900)
        session.step()
        assert session.told() == [BEGIN]


def test_rows_that_the_reader_encoded_enter_as_if_the_writer_had() -> None:
    """I4: at E, like all others."""
    with copied() as session:
        wanted = session.begin()
        rows = (1, "one"), (2, "two")
        session.answer(shown(), read(*rows, row_format=wanted.row_format))
        session.answer(shown(), read((3, "three")))
        assert session.told() == [BEGIN, ("r", 1, "one"), ("r", 2, "two"), ("r", 3, "three")]
        assert session.events[-3:] == [("late", "r", id_, session.kept_stream.received, -1) for id_ in (1, 2, 3)]
        assert {event["source"]["snapshot"] for _, event in session._read()} >= {"incremental"}
        assert session.copy().rows == 3


def test_next_chunk_is_read_while_one_waits_and_a_third_is_not() -> None:
    with copied() as session:
        session.begin()
        second = session.answer(shown(), read((1, "one"), lsn=800))
        assert isinstance(second, ChunkWanted)
        assert second.after == Bound(("1",))
        assert session.answer(shown(), read((2, "two"), lsn=800)) is None
        session.hear(800)
        third = session.step()
        assert session.told() == [BEGIN, ("r", 1, "one")]
        assert isinstance(third, ChunkWanted)
        assert third.after == Bound(("2",))
        session.step()
        assert session.told() == [BEGIN, ("r", 1, "one"), ("r", 2, "two")]


def test_rows_of_the_open_batch_are_committed_before_a_chunk() -> None:
    """I4: each step has a batch of its own, so a replay makes the same."""
    with copied() as session:
        session.begin()
        session.reader.tell(shown(), read((1, "one"), lsn=0))
        session.transaction(insert(7, "other", ORDERS))
        assert [[each.topic for each in batch.rows] for batch in session.kafka.batches] == [
            ["p.public.late"], ["p.public.orders"], ["p.public.late"],
        ]  # fmt: skip


def test_chunk_that_cannot_be_read_is_asked_for_again_and_left_nothing() -> None:
    with copied() as session:
        session.begin()
        session.chunk((1, "one"))
        assert session.answer(shown(), Failed(RetryableError("the connection ended"))) is None
        assert session.told() == [BEGIN, ("r", 1, "one")]
        session.pass_s(1.1)
        session.answer(TablesFound((published(),)))
        assert session.chunk_wanted().after == Bound(("1",))
        session.chunk((2, "two"), is_last=True)
        assert session.table().state == "current"


def test_other_tables_go_on_while_a_chunk_is_read() -> None:
    with copied() as session:
        session.begin()
        session.transaction(insert(1, "one", ORDERS), insert(2, "two", ITEMS))
        session.rest()
        assert [event[:3] for event in session.events[1:]] == [("orders", "c", 1), ("items", "c", 2)]


def test_one_table_is_read_to_its_end_before_the_next_begins() -> None:
    with copied() as session:
        assert session.find(LATE, LATER) == TableWanted(published())
        session.answer(found(lsn=0))
        session.chunk((1, "one"))
        session.chunk((2, "two"), is_last=True)
        assert session.reader.wanted == TableWanted(published(LATER))
        session.answer(found(LATER, lsn=0))
        session.chunk((1, "eins"), is_last=True)
        assert session.told(LATER) == [BEGIN, ("r", 1, "eins"), END]
        assert session.told()[-1] == END
        assert session.copies.is_at_rest


def test_rows_that_kafka_does_not_take_are_read_again_by_the_next_session() -> None:
    """I1: progress and rows are one Kafka transaction."""
    with copied() as session:
        session.begin()
        session.kafka.refuses = True
        with pytest.raises(BatchAborted):
            session.chunk((1, "one"))
        assert session.copy().bound is None
        tables = session.last.progress.tables
    with copied({**COPIED.tables, **tables}) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        assert session.chunk_wanted().after is None


def test_nothing_enters_while_a_transaction_is_open() -> None:
    """I5: a cut inside of it would be at no LSN of the source."""
    with copied() as session:
        session.begin()
        session.reader.tell(shown(), read((1, "one"), lsn=0))
        session.feed(Begin(Lsn(500), 7, XID + 1), announcement(), insert(2, "two"))
        assert session.told() == [BEGIN]
        session.feed(Commit(Lsn(500), Lsn(540), 7))
        assert session.told() == [BEGIN, ("c", 2, "two"), ("r", 1, "one")]


def test_chunks_are_asked_for_no_faster_than_the_limit_says() -> None:
    """From question to question: what a chunk took counts."""
    with copied() as session:
        session.begin()
        session.copies._reading.bytes_per_s = len(row(1, "one"))
        session.pass_s(0.25)
        assert session.chunk((1, "one")) is None
        assert session.pass_s(0.5) is None
        assert isinstance(session.pass_s(0.25), ChunkWanted)


def test_chunk_holds_no_more_than_the_limit_lets_pass_in_a_quarter_of_a_second() -> None:
    """The others wait while it enters."""
    with copied() as session:
        session.begin()
        table = session.copies._reading.copied[LATE]
        limits = Producer(copy_bytes_per_s=1_000_000)
        assert table.open_chunk(Before(XID, array("I")), limits).bytes_max == 250_000
