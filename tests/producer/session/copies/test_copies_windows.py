"""Changes while chunks are open: laid over the rows that lack them, or the chunk is void and read again (I4).

What a window makes of changes is shown by ``copying/test_window.py``; here, that each change reaches it in its time.
"""

from __future__ import annotations

from tests.producer.copied_session import (
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
    shown,
)
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.session.copies.told import BEGIN, END, TRUNCATE
from walbridge.producer.pgoutput.messages import Delete, Unsent
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkShown,
    ChunkWanted,
    Failed,
    TablesFound,
    TablesWanted,
)
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.session.copies.state.tables_to_copy import AGAIN_S
from walbridge.schemas.errors import RetryableError


def test_change_that_the_snapshot_lacks_is_laid_over_the_rows() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1))
        session.transaction(announcement(), Delete(LATE, tuple_data(b"1", Unsent.NULL), None), xid=XID + 1)
        session.answer(read((1, "gone"), (2, "two")))
        assert session.told() == [BEGIN, ("d", 1, None), ("r", 2, "two")]


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


def test_row_that_moves_in_while_its_old_row_is_read_is_sent_whole() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(XID + 1))
        session.transaction(announcement(), moved(2, 3, KEPT), xid=XID + 1)
        session.answer(read((1, "one"), (2, "two"), lsn=0, is_last=True))
        assert session.told()[-3:] == [("r", 1, "one"), ("r", 3, "two"), END]
