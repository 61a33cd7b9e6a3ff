"""Chunks of a copy beside the stream: each enters as the source's rows at E, or not at all (I1, I4).

What a window makes of changes is shown by ``copying/test_window.py``; here, that each change and each answer reaches
it in its time, and that progress says what the topic holds.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from tests.producer.copied_session import (
    COPIED,
    KEPT,
    LATE,
    LATER,
    XID,
    announcement,
    copied,
    copying,
    found,
    insert,
    moved,
    published,
    read,
    row,
    shown,
)
from tests.producer.kept import ITEMS, ORDERS
from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.copying import copy_state
from walbridge.producer.copying.visibility import Before
from walbridge.producer.kafka.publisher import BatchAborted
from walbridge.producer.pgoutput.messages import Begin, Commit, Delete, Insert, Truncate, Unsent
from walbridge.producer.postgres.copy_reader import (
    ChunkAltered,
    ChunkShown,
    ChunkWanted,
    Failed,
    TablesFound,
    TablesWanted,
    TableWanted,
    WholeWanted,
)
from walbridge.producer.postgres.key_order import Bound
from walbridge.producer.session.copies.tables_to_copy import AGAIN_S
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Producer
from walbridge.schemas.table_progress import QUARANTINED

BEGIN, END = ("m", None, None), ("m", None, None)
TRUNCATE = Truncate(False, False, (LATE,))
KEYLESS = replace(
    announcement(), columns=tuple(replace(each, in_replica_identity=False) for each in announcement().columns)
)


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


def test_change_that_the_snapshot_lacks_is_laid_over_the_rows() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1))
        session.transaction(announcement(), Delete(LATE, tuple_data(b"1", Unsent.NULL), None), xid=XID + 1)
        session.answer(read((1, "gone"), (2, "two")))
        assert session.told() == [BEGIN, ("d", 1, None), ("r", 2, "two")]


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


def test_change_that_the_snapshot_lacks_is_laid_over_rows_that_the_reader_encoded() -> None:
    with copied() as session:
        row_format = session.begin().row_format
        session.answer(shown(XID + 1))
        session.transaction(announcement(), Delete(LATE, tuple_data(b"1", Unsent.NULL), None), xid=XID + 1)
        session.answer(read((1, "gone"), (2, "two"), row_format=row_format))
        assert session.told() == [BEGIN, ("d", 1, None), ("r", 2, "two")]


def test_row_that_moves_in_to_encoded_rows_is_sent_whole() -> None:
    with copied() as session:
        row_format = session.begin().row_format
        session.answer(shown(XID + 1))
        session.transaction(announcement(), moved(2, 3, KEPT), xid=XID + 1)
        session.answer(read((1, "one"), (2, "two"), lsn=0, is_last=True, row_format=row_format))
        assert session.told()[-3:] == [("r", 1, "one"), ("r", 3, "two"), END]


def test_rows_that_were_encoded_before_a_rename_enter_under_the_new_name() -> None:
    """I3: behind the barrier of a version all rows are of that version."""
    with copied() as session:
        row_format = session.begin().row_format
        session.answer(shown())
        session.transaction(replace(announcement(), name="called"), insert(2, "two"))
        session.answer(read((1, "one"), lsn=0, is_last=True, row_format=row_format))
        session.step()
        assert [op for op, _, _ in session.told()] == ["m", "c", "r", "m"]
        assert len(set(session.schema_ids[1:])) == 1


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


def test_change_while_two_chunks_are_open_is_laid_over_each_that_lacks_it() -> None:
    """Each snapshot tells for itself what its rows have."""
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1), read((1, "gone"), (2, "old"), lsn=400))
        session.transaction(
            announcement(),
            Delete(LATE, tuple_data(b"1", Unsent.NULL), None),
            Delete(LATE, tuple_data(b"3", Unsent.NULL), None),
            insert(3, "again"),
            xid=XID + 1,
            at=300,
        )
        session.answer(shown(XID + 2), read((3, "again"), (4, "four"), lsn=400, is_last=True))
        session.hear(400)
        session.step()
        session.step()
        assert session.told()[4:] == [("r", 2, "old"), ("r", 3, "again"), ("r", 4, "four"), END]


def test_row_that_moves_from_one_open_chunk_into_the_other_is_sent_by_the_one_that_read_it() -> None:
    """Its values are those of its old key's row, which only the first chunk has; the second one's snapshot lacks it."""
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1), read((1, "one"), (2, "two"), lsn=400))
        session.answer(shown(XID + 1))
        session.transaction(announcement(), moved(2, 5, KEPT), xid=XID + 1, at=300)
        session.answer(read((4, "four"), lsn=400, is_last=True))
        session.hear(400)
        session.step()
        session.step()
        assert session.told()[3:6] == [("r", 1, "one"), ("r", 5, "two"), ("r", 4, "four")]
        session.chunk((5, "two"), asked=True)  # the second window could not know
        assert session.told()[6:] == [("r", 5, "two"), END]


def test_chunk_behind_one_that_is_void_is_read_again_too() -> None:
    """Where it began was where that one ended."""
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1), read((1, "one"), lsn=900))
        session.answer(shown(XID + 2), read((2, "two"), lsn=900))
        session.transaction(announcement(), TRUNCATE, xid=XID + 1)
        session.hear(900)
        assert session.chunk_wanted().after is None
        session.chunk((9, "nine"), is_last=True)
        assert session.told() == [BEGIN, ("t", None, None), ("r", 9, "nine"), END]


def test_chunk_that_is_void_leaves_the_one_before_it() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(), read((1, "one"), lsn=800))
        session.answer(ChunkShown(shown(XID - 1).snapshot, is_read=False))
        session.hear(800)
        session.step()
        assert session.told() == [BEGIN, ("r", 1, "one")]
        assert isinstance(session.pass_s(AGAIN_S), ChunkWanted)
        assert session.chunk_wanted().after == Bound(("1",))


def test_nothing_is_read_on_while_listed_keys_wait_to_enter() -> None:
    """What is listed then is what the topic lacks."""
    with copied(copying("9", has_all_ranges=True, listed={b"key": row(3, Unsent.NULL)})) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        assert session.answer(shown(), read((3, "three"), lsn=800, asked=True)) is None


def test_change_that_the_snapshot_has_is_not_laid_over_the_rows() -> None:
    """Its row was deleted, and came again, both before the snapshot: the change would take away the newer one."""
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 2))
        session.transaction(announcement(), Delete(LATE, tuple_data(b"1", Unsent.NULL), None), xid=XID + 1)
        session.answer(read((1, "again")))
        assert session.told() == [BEGIN, ("d", 1, None), ("r", 1, "again")]


def test_change_before_the_snapshot_is_told_is_judged_by_it() -> None:
    with copied() as session:
        session.begin()
        session.transaction(announcement(), Delete(LATE, tuple_data(b"1", Unsent.NULL), None), xid=XID + 1)
        session.answer(shown(XID + 1), read((1, "gone"), (2, "two")))
        assert session.told() == [BEGIN, ("d", 1, None), ("r", 2, "two")]


def test_rows_of_the_open_batch_are_committed_before_a_chunk() -> None:
    """I4: each step has a batch of its own, so a replay makes the same."""
    with copied() as session:
        session.begin()
        session.reader.tell(shown(), read((1, "one"), lsn=0))
        session.transaction(insert(7, "other", ORDERS))
        assert [[each.topic for each in batch.rows] for batch in session.kafka.batches] == [
            ["p.public.late"], ["p.public.orders"], ["p.public.late"],
        ]  # fmt: skip


def test_commit_that_is_received_and_not_visible_voids_the_chunk() -> None:
    """Its commit waits for a standby: its change is in the topic, in no window, and in no rows that are read now."""
    with copied() as session:
        session.begin()
        session.answer(Failed(RetryableError("for the window to be opened later")))
        session.transaction(announcement(), insert(2, "waits"), xid=XID + 1)
        assert session.pass_s(1.1) == TablesWanted()
        session.answer(TablesFound((published(),)))
        assert list(session.chunk_wanted().before.received) == [XID + 1]
        session.answer(ChunkShown(shown(XID + 1, XID + 1, xmax=XID + 5).snapshot, is_read=False))
        session.rest()
        assert session.pass_s(0.9) is None
        assert session.told() == [BEGIN, ("c", 2, "waits")]
        session.pass_s(0.2)
        session.chunk((2, "waits"))
        assert session.told()[-1] == ("r", 2, "waits")


def test_chunk_while_a_transaction_runs_that_is_older_than_the_session_is_read_again() -> None:
    """What it did before the table was published is in no stream."""
    with copied() as session:
        session.begin()
        session.answer(ChunkShown(shown(XID - 1).snapshot, is_read=False))
        assert session.pass_s(0.9) is None
        session.pass_s(0.2)
        assert isinstance(session.reader.wanted, ChunkWanted)
        assert session.told() == [BEGIN]


def test_transactions_that_began_before_a_table_was_described_hold_up_its_rows_alone() -> None:
    """Those of a table that was described before them are in its windows."""
    with copied() as session:
        session.begin()
        session.pass_s(0.5)
        session.answer(ChunkShown(shown(XID - 1).snapshot, is_read=False))
        session.kept_watch.xid = XID + 100
        session.pass_s(0.5)
        session.find(LATER)
        session.answer(found(LATER, lsn=0))
        assert session.chunk_wanted().table == published(LATER)
        assert session.chunk_wanted().before.begun == XID + 100
        session.answer(ChunkShown(shown(XID + 50).snapshot, is_read=False))
        session.pass_s(0.6)
        wanted = session.chunk_wanted()
        assert (wanted.table, wanted.before.begun) == (published(LATE), XID)


def test_chunk_of_a_table_that_is_emptied_meanwhile_is_read_again_from_where_it_was() -> None:
    with copied() as session:
        session.begin()
        session.chunk((1, "one"))
        session.answer(shown(XID + 1))
        session.transaction(announcement(), TRUNCATE, insert(9, "nine"), xid=XID + 1)
        wanted = session.chunk_wanted()
        assert wanted.after == Bound(("1",))
        session.chunk((9, "nine"), is_last=True)
        assert session.told() == [BEGIN, ("r", 1, "one"), ("t", None, None), ("c", 9, "nine"), ("r", 9, "nine"), END]


def test_window_that_grows_too_large_is_opened_again_for_fewer_rows() -> None:
    with copied(copying("1")) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        first = session.chunk_wanted()
        session.answer(shown(XID + 1))
        large = "x" * 2**19
        for n in range(65):
            session.transaction(*([announcement()] if n == 0 else []), insert(100 + n, large), xid=XID + 1 + n)
        again = session.chunk_wanted()
        assert session.copy().bound == ("1",)
        assert again is not first
        session.answer(shown(XID + 100), read((2, "two"), lsn=0))
        assert session.copy().bound == ("2",)


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


def test_new_version_in_the_stream_voids_the_chunk_and_the_copy_begins_again() -> None:
    """I3: rows of the old shape do not follow its barrier."""
    with copied() as session:
        session.begin()
        session.transaction(announcement(), insert(1, "one"))
        session.answer(shown())
        session.facts[LATE] = found(more=["more"]).facts
        session.transaction(announcement(LATE, "more"), Insert(LATE, tuple_data(b"2", b"two", b"m")))
        session.answer(read((1, "one"), lsn=0))
        assert session.reader.wanted == TableWanted(published())
        session.answer(found(lsn=session.kept_stream.received, shape="second", more=["more"]))
        assert session.chunk_wanted().shape == "second"
        assert session.kinds == ["copy_begin", "shape", "copy_begin"]
        assert [op for op, _, _ in session.told()] == ["m", "c", "c", "m"]


def test_table_that_is_altered_when_its_last_row_is_read_begins_again() -> None:
    """I3, I8: what is called current is the table as its changes are now."""
    with copied() as session:
        session.begin()
        session.transaction(announcement(), moved(8, 3))
        session.chunk((5, "five"), is_last=True)
        session.facts[LATE] = found(more=["more"]).facts
        new = Insert(LATE, tuple_data(b"2", b"two", b"m"))
        session.transaction(TRUNCATE, announcement(LATE, "more"), new)
        assert session.reader.wanted == TableWanted(published())
        assert session.kinds == ["copy_begin"]
        session.answer(found(lsn=0, shape="second", more=["more"]))
        assert session.table().state == "copying"


def test_table_that_is_renamed_while_a_chunk_is_read_is_copied_on() -> None:
    """I8: under its new name, from where it was; its rows are in the topic that they were in."""
    with copied() as session:
        session.begin()
        session.transaction(announcement(), insert(1, "one"))
        session.answer(shown())
        session.transaction(replace(announcement(), name="called"), insert(2, "two"))
        session.answer(read((1, "one"), lsn=0, is_last=True))
        session.step()
        assert session.kinds == ["copy_begin", "shape", "copy_end"]
        assert [op for op, _, _ in session.told()] == ["m", "c", "c", "r", "m"]
        assert session.table().state == "current"


def test_table_whose_chunk_cannot_be_read_under_its_old_name_is_described_again_and_copied_on() -> None:
    with copied() as session:
        session.begin()
        session.chunk((1, "one"))
        called = replace(found(lsn=0), table=replace(published(), name="called"))
        session.answer(Failed(RetryableError("relation does not exist")))
        assert session.pass_s(AGAIN_S) == TablesWanted()
        assert session.answer(TablesFound((called.table,))) == TableWanted(called.table)
        session.answer(called)
        assert session.chunk_wanted().table == called.table
        assert session.chunk_wanted().after == Bound(("1",))


def test_table_that_loses_its_key_meanwhile_is_published_on_until_it_is_copied_in_one_piece() -> None:
    """I8: copying, not current."""
    with copied() as session:
        session.begin()
        session.facts[LATE] = found(key_names=None).facts
        session.transaction(KEYLESS, insert(1, "one"), insert(2, "two"))
        session.answer(found(lsn=session.kept_stream.received, shape="second", key_names=None))
        assert session.table().state == "copying"
        assert isinstance(session.reader.wanted, WholeWanted)
        assert [op for op, _, _ in session.told()] == ["m", "c", "c", "m"]
        assert session.kinds[-2:] == ["dropped", "copy_begin"]


def test_altered_answer_with_a_void_window_is_a_new_description() -> None:
    with copied() as session:
        session.begin()
        session.transaction(announcement(), TRUNCATE)
        assert session.answer(ChunkAltered()) == TableWanted(published())


def test_key_whose_row_the_topic_lacks_is_read_by_itself_before_the_end() -> None:
    """Its row came from a range that was not copied, with values that only the source has."""
    with copied() as session:
        session.begin()
        session.chunk((5, "five"))
        session.answer(Failed(RetryableError("between two windows")))
        session.transaction(announcement(), moved(8, 3))
        session.rest()
        session.pass_s(1.1)
        session.answer(TablesFound((published(),)))
        assert len(session.copy().listed) == 1
        session.chunk((9, "nine"), is_last=True)
        wanted = session.chunk_wanted()
        assert (wanted.asked, session.table().state) == ((Bound(("3",)),), "copying")
        session.chunk((3, "eight"), asked=True)
        assert session.told()[-2:] == [("r", 3, "eight"), END]
        assert session.table().state == "current"


def test_many_listed_keys_are_read_before_the_next_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress stays small; the range goes on where it was."""
    monkeypatch.setattr(copy_state, "LISTED_BYTES_READ", 1)
    with copied() as session:
        session.begin()
        session.chunk((5, "five"))
        session.transaction(announcement(), moved(8, 3))
        session.chunk((6, "six"))
        assert session.chunk_wanted().asked == (Bound(("3",)),)
        session.chunk((3, "three"), asked=True)
        wanted = session.chunk_wanted()
        assert (wanted.after, wanted.asked) == (Bound(("6",)), None)


def test_first_rows_of_a_session_have_their_shape() -> None:
    """I3: who reads them knows by which version."""
    with copied(copying("1")) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        session.chunk((2, "two"))
        session.chunk((3, "three"))
        assert session.kinds == ["shape"]


def test_listed_keys_are_in_progress_of_the_cut_that_brought_them() -> None:
    """I1: a restart does not see their change again."""
    with copied() as session:
        session.begin()
        session.transaction(announcement(), moved(8, 3))
        session.rest()
        assert list(session.copy().listed.values()) == [row(3, Unsent.NULL)]


def test_listed_key_of_an_earlier_session_is_read() -> None:
    with copied(copying("9", has_all_ranges=True, listed={b"key": row(3, Unsent.NULL)})) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        assert session.chunk_wanted().asked == (Bound(("3",)),)
        session.chunk((3, "three"), asked=True)
        assert session.table().state == "current"


def test_row_that_moves_in_while_its_old_row_is_read_is_sent_whole() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1))
        session.transaction(announcement(), moved(2, 3, KEPT), xid=XID + 1)
        session.answer(read((1, "one"), (2, "two"), lsn=0, is_last=True))
        assert session.told()[-3:] == [("r", 1, "one"), ("r", 3, "two"), END]


def test_truncate_while_listed_keys_are_read_leaves_none_to_be_read() -> None:
    with copied(copying("9", has_all_ranges=True, listed={b"key": row(3, Unsent.NULL)})) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        session.answer(shown(XID + 1))
        session.transaction(announcement(), TRUNCATE, xid=XID + 1)
        assert session.told() == [("t", None, None), END]


def test_more_listed_keys_than_progress_holds_begin_the_reading_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: those that are dropped from the list are behind the bound, and only another reading brings their rows."""
    monkeypatch.setattr(copy_state, "LISTED_BYTES_MAX", 100)
    with copied() as session:
        session.begin()
        session.chunk((5, "five"))
        session.answer(shown(XID + 1))
        session.transaction(announcement(), *(moved(100 + n, n) for n in range(20, 40)), xid=XID + 1)
        wanted = session.chunk_wanted()
        assert (wanted.after, wanted.asked) == (None, None)
        session.rest()
        assert session.copy().bound is None


def test_rows_of_a_table_that_is_dropped_while_they_are_read_do_not_enter() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(), read((1, "one"), lsn=900))
        session.kept_watch.leaving = {LATE: 800}
        session.hear(850)
        session.session._cuts.idle_cut(asked=True)
        session.hear(950)
        assert session.step() is None
        assert session.table().state == "dropped"
        assert session.told() == [BEGIN]
        assert session.copies.is_at_rest


def test_rows_of_a_table_that_the_batch_before_them_drops_do_not_enter() -> None:
    """The last batch before a chunk says that the table is gone: nothing follows that."""
    with copied() as session:
        session.begin()
        session.kept_watch.leaving = {LATE: 250}
        session.reader.tell(shown(), read((1, "one"), lsn=0))
        session.transaction(insert(7, "other", ORDERS), at=300)
        assert session.table().state == "dropped"
        assert session.told() == [BEGIN]


def test_end_of_a_table_that_the_batch_before_it_drops_does_not_come() -> None:
    with copied() as session:
        session.begin()
        session.transaction(announcement(), moved(8, 3))
        session.chunk((5, "five"), is_last=True)
        assert session.chunk_wanted().asked is not None
        session.kept_watch.leaving = {LATE: 280}
        session.transaction(TRUNCATE)
        assert session.table().state == "dropped"
        assert [op for op, _, _ in session.told()] == ["m", "d", "c", "r", "t"]


def test_answer_that_comes_after_its_table_was_let_go_is_heard_by_nobody() -> None:
    with copied() as session:
        session.begin()
        session.copies.let_go(LATE)
        session.answer(shown(), read((1, "one"), lsn=0))
        assert session.told() == [BEGIN]


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


def test_chunk_holds_no_more_than_the_limit_lets_pass_in_a_tenth_of_a_second() -> None:
    """The others wait while it enters."""
    with copied() as session:
        session.begin()
        table = session.copies._reading.copied[LATE]
        limits = Producer(copy_bytes_per_s=1_000_000)
        assert table.open_chunk(Before(XID, array("I")), limits).bytes_max == 100_000
