"""Tables that are altered, renamed, dropped or let go while chunks of them are read (I3, I8)."""

from __future__ import annotations

from dataclasses import replace

from tests.producer.copied_session import (
    LATE,
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
from tests.producer.kept import ORDERS
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.session.copies.told import BEGIN, KEYLESS, TRUNCATE
from walbridge.producer.pgoutput.messages import Insert
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkAltered,
    Failed,
    TablesFound,
    TablesWanted,
    TableWanted,
    WholeWanted,
)
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.session.copies.state.tables_to_copy import AGAIN_S
from walbridge.schemas.errors import RetryableError


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
        assert isinstance(session.whole_reader.wanted, WholeWanted)
        assert [op for op, _, _ in session.told()] == ["m", "c", "c", "m"]
        assert session.kinds[-2:] == ["dropped", "copy_begin"]


def test_altered_answer_with_a_void_window_is_a_new_description() -> None:
    with copied() as session:
        session.begin()
        session.transaction(announcement(), TRUNCATE)
        assert session.answer(ChunkAltered()) == TableWanted(published())


def test_first_rows_of_a_session_have_their_shape() -> None:
    """I3: who reads them knows by which version."""
    with copied(copying("1")) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        session.chunk((2, "two"))
        session.chunk((3, "three"))
        assert session.kinds == ["shape"]


def test_rows_of_a_table_that_is_dropped_while_they_are_read_do_not_enter() -> None:
    with copied() as session:
        session.begin()
        session.answer(shown(), read((1, "one"), lsn=900))
        session.kept_watch.leaving = {LATE: 800}
        session.hear(850)
        session.session._cuts.idle_cut(is_requested=True)
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
        session.copies.forget(LATE)
        session.answer(shown(), read((1, "one"), lsn=0))
        assert session.told() == [BEGIN]
