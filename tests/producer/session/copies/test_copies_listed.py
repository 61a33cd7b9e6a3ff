"""Keys whose rows the topic lacks: they are listed in progress, and read by themselves (I1, I8)."""

from __future__ import annotations

import pytest

from tests.producer.copied_session import XID, announcement, copied, copying, found, moved, published, read, row, shown
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.session.copies.told import END, TRUNCATE
from walbridge.producer.copying import copy_state
from walbridge.producer.pgoutput.messages import Binary, Unsent
from walbridge.producer.postgres.copy_beside.copy_protocol import Failed, TablesFound
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.errors import RetryableError


def test_nothing_is_read_on_while_listed_keys_wait_to_enter() -> None:
    """What is listed then is what the topic lacks."""
    with copied(copying("9", has_all_ranges=True, listed={b"key": row(3, Unsent.NULL)})) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        assert session.answer(shown(), read((3, "three"), lsn=800, asked=True)) is None


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


def test_listed_key_in_binary_is_read_with_all_rows_from_the_first_one_on() -> None:
    """I8: it is a text that rows are read by. Behind the last chunk's bound its row would not be read."""
    listed = {b"key": tuple_data(Binary(b"\0\0\0\3"), Unsent.NULL)}
    with copied(copying("9", has_all_ranges=True, listed=listed)) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        wanted = session.chunk_wanted()
        assert (wanted.after, wanted.asked) == (None, None)
        session.chunk((3, "three"), (9, "nine"), is_last=True)
        assert session.table().state == "current"


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
