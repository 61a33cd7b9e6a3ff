"""A table that no key orders, between kept peers: its rows first, then the changes that they lack (I1, I7, I8, I9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.producer.copied_session import (
    LATE,
    LATER,
    XID,
    Copied,
    announcement,
    copied,
    copying,
    found,
    insert,
    published,
    row,
    shown,
)
from tests.producer.kept import ITEMS
from tests.producer.session.copies.told import KEYLESS, TRUNCATE
from walbridge.producer.guards.doubts.rewrites import from_text
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkAltered,
    Failed,
    RowsRead,
    TablesFound,
    TablesWanted,
    TableWanted,
    WholeRead,
    WholeWanted,
)
from walbridge.producer.session.copies.state import record_queue
from walbridge.schemas.control.table_progress import QUARANTINED
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Topics


@contextmanager
def begun(row_bytes_max: int = 2**24, topics: Topics | None = None) -> Iterator[Copied]:
    """The copy has begun, and its rows are asked for."""
    with copied(row_bytes_max=row_bytes_max, topics=topics) as session:
        session.facts[LATE] = found(key_names=None).facts
        session.find(LATE)
        assert isinstance(describe(session), WholeWanted)
        yield session


def describe(session: Copied) -> object:
    return session.answer(found(lsn=session.kept_stream.received, key_names=None))


def rows(*ids: int, size_bytes: int = 2**20) -> RowsRead:
    """So many that they enter at once, unless told otherwise."""
    return RowsRead(tuple(row(each, "read") for each in ids), size_bytes)


def whole(session: Copied) -> WholeRead:
    return WholeRead(session.kept_stream.received)


def told(session: Copied) -> list[tuple[str, int | None]]:
    return [(op, id_) for op, id_, _ in session.told()]


def test_changes_that_the_rows_lack_follow_them_and_the_others_are_never_published() -> None:
    """I8: and each once."""
    with begun() as session:
        session.transaction(KEYLESS, insert(1, "in the rows"), xid=XID + 1)
        session.transaction(insert(2, "not in the rows"), xid=XID + 2)
        session.answer(shown(XID + 2, xmax=XID + 2))
        session.transaction(insert(3, "later"), xid=XID + 3)
        assert told(session) == [("m", None)]
        session.answer(rows(1, 1, size_bytes=200))
        assert told(session) == [("m", None)]
        session.answer(whole(session))
        assert told(session) == [("m", None), ("r", 1), ("r", 1), ("c", 2), ("c", 3), ("m", None)]
        assert session.kinds == ["copy_begin", "copy_end"]
        assert (session.table().state, session.table().copy) == ("current", None)
        session.transaction(insert(4, "as ever"))
        session.rest()
        assert told(session)[-1] == ("c", 4)
        assert session.whole_reader.given_back == 200


def test_changes_that_wait_for_the_rows_are_not_counted_at_the_end_of_their_transaction() -> None:
    """Some of them come later, others never: who counts would wait for them."""
    with begun(topics=Topics(transaction_topic=True)) as session:
        session.transaction(KEYLESS, insert(1, "waits"), insert(2, "other", ITEMS), insert(3, "waits"), xid=XID + 1)
        session.transaction(insert(4, "waits"), xid=XID + 2)
        session.rest()

    assert [(each["id"].split(":")[0], each["status"]) for each in session.boundaries] == [
        (str(XID + 1), "BEGIN"),
        (str(XID + 1), "END"),
    ]
    assert session.boundaries[1]["data_collections"] == [{"data_collection": "public.items", "event_count": 1}]


def test_a_table_with_a_key_is_copied_while_one_without_is_read() -> None:
    """That may take hours."""
    with begun() as session:
        session.answer(shown(), rows(1))
        session.pass_s(2)
        session.begin(LATER)
        session.chunk((7, "of the other"), is_last=True)
        session.step()
        assert (session.table(LATER).state, session.table().state) == ("current", "copying")
        assert session.told(LATER) == [("m", None, None), ("r", 7, "of the other"), ("m", None, None)]
        session.answer_whole(rows(2), whole(session))
        assert told(session) == [("m", None), ("r", 1), ("r", 2), ("m", None)]
        assert session.table().state == "current"


def test_tables_without_a_key_are_copied_one_after_another() -> None:
    """I9: each read holds vacuum back, and its changes are set aside on disk."""
    with begun() as session:
        session.facts[LATER] = found(LATER, key_names=None).facts
        session.pass_s(2)
        assert isinstance(session.find(LATER), TableWanted)
        session.answer(found(LATER, lsn=session.kept_stream.received, key_names=None))
        asked = len(session.reader.asked)
        session.answer_whole(shown(), rows(1))
        assert LATER not in session.last.progress.relation_ids
        session.pass_s(60)
        assert len(session.reader.asked) == asked
        session.answer_whole(whole(session))
        assert session.table().state == "current"
        assert isinstance(session.step(), TableWanted)
        session.answer(found(LATER, lsn=session.kept_stream.received, key_names=None))
        session.answer_whole(shown(), rows(2), whole(session))
        assert session.table(LATER).state == "current"
        assert session.told(LATER) == [("m", None, None), ("r", 2, "read"), ("m", None, None)]


def test_table_that_is_copied_while_it_is_looked_up_is_not_copied_again() -> None:
    """It was noticed twice; what a list tells that was asked for before its copy ended is old."""
    with begun() as session:
        session.answer(shown())
        session.copies.notice(LATE)
        assert session.pass_s(2) == TablesWanted()
        session.answer_whole(rows(1), whole(session))
        assert session.table().state == "current"
        assert session.answer(TablesFound((published(),))) is None
        assert session.copies.is_at_rest


def test_rows_enter_while_others_are_still_read_and_progress_tells_how_many() -> None:
    with begun() as session:
        session.answer(shown(), rows(1, 2))
        assert (session.copy().rows, session.copy().bound) == (2, ())
        session.answer(rows(3), whole(session))
        assert told(session) == [("m", None), ("r", 1), ("r", 2), ("r", 3), ("m", None)]


@pytest.mark.parametrize("where", ["row", "change"])
def test_row_that_is_too_large_for_kafka_ends_the_copy_and_its_table_waits_for_its_operator(where: str) -> None:
    """I7, I8: it is not copied again by itself, as the row is met again."""
    with begun(row_bytes_max=1024) as session:
        session.answer(shown(), rows(1))
        if where == "row":
            session.answer(RowsRead((row(2, "read"), row(3, "x" * 10**6), row(4, "read")), 2**20))
        else:
            session.transaction(KEYLESS, insert(3, "x" * 10**6), insert(4, "left out"))
            session.step()
        session.transaction(insert(5, "left out"), insert(6, "other", ITEMS))
        session.rest()
        assert told(session) == [("m", None), ("r", 1)] + ([("r", 2)] if where == "row" else [])
        assert session.kinds == ["copy_begin", "dropped"]
        assert (session.table().state, session.table().copy) == (QUARANTINED, None)
        assert "a row of table public.late (key: none) takes 1,000," in str(session.table().why)
        assert session.copies.is_at_rest
        assert session.events[-1][:3] == ("items", "c", 6)


def test_copy_does_not_end_before_all_that_the_rows_show_is_received() -> None:
    """I8: a change that they hold would come after it, and count twice."""
    with begun() as session:
        session.answer(shown(), rows(1), WholeRead(Lsn(session.kept_stream.received + 500)))
        assert session.table().state == "copying"
        session.transaction(KEYLESS, insert(1, "in the rows"), at=session.kept_stream.received + 450)
        session.hear(session.kept_stream.received + 500)
        session.step()
        assert told(session) == [("m", None), ("r", 1), ("m", None)]


def test_rows_wait_until_what_ran_before_the_session_has_ended() -> None:
    """I8: it may have changed the table before that was published. No second copy_begin for it."""
    with begun() as session:
        session.transaction(KEYLESS, insert(1, "of a void window"))
        assert session.answer(shown(XID - 5)) is None
        assert isinstance(session.pass_s(1.1), WholeWanted)
        session.answer(shown(), rows(1), whole(session))
        assert told(session) == [("m", None), ("r", 1), ("m", None)]


def test_labels_of_the_snapshot_are_remembered_with_its_rows() -> None:
    """I8: one that came after the copy had begun, and is renamed before a look, shows by that."""
    labels = frozenset({"600001-a", "600001-b"})
    with begun() as session:
        session.answer(replace(shown(), labels=labels), rows(1))
        assert from_text(session.table().storage or "").labels == labels


@pytest.mark.parametrize("reason", ["truncate", "altered", "version"])
def test_table_that_is_emptied_or_altered_meanwhile_begins_again(reason: str) -> None:
    with begun() as session:
        session.answer(shown(), rows(1))
        if reason == "truncate":
            session.transaction(KEYLESS, TRUNCATE)
        elif reason == "version":
            session.facts[LATE] = found(key_names=None, more=["more"]).facts
            session.transaction(announcement(LATE, "more"), insert(9, "of another version"))
        else:
            session.answer(ChunkAltered())
        session.step()
        assert session.pass_s(1.1) == TablesWanted()
        (table,) = (found(key_names=None).table,)
        assert isinstance(session.answer(TablesFound((table,))), TableWanted)
        assert told(session) == [("m", None), ("r", 1)]


def test_rows_that_cannot_be_read_on_leave_the_table_stale_until_it_is_copied_from_its_beginning() -> None:
    with begun() as session:
        session.answer(shown(), rows(1))
        session.answer(Failed(RetryableError("the connection ended")))
        session.transaction(KEYLESS, insert(2, "left out"))
        session.rest()
        assert session.pass_s(1.1) == TablesWanted()
        session.answer(TablesFound((found(key_names=None).table,)))
        assert isinstance(describe(session), WholeWanted)
        session.answer(shown(), rows(1, 2), whole(session))
        assert told(session) == [("m", None), ("r", 1), ("m", None), ("r", 1), ("r", 2), ("m", None)]
        assert session.table().state == "current"


def test_changes_that_find_no_room_are_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the table is stale, and says what to do."""

    def full(*_: object) -> None:
        raise record_queue.QueueFull(7)

    with begun() as session:
        monkeypatch.setattr(record_queue.RecordQueue, "append", full)
        session.answer(shown(), rows(1))
        session.transaction(KEYLESS, insert(2, "too much"), xid=XID + 700)
        session.step()
        session.transaction(insert(3, "left out"), xid=XID + 701)
        stale = session.tracker.progress.tables[LATE]
        assert (stale.state, stale.copy) == ("stale", None)
        assert "spool_bytes_max" in str(stale.why)
        assert told(session) == [("m", None), ("r", 1)]


def test_copy_of_an_earlier_session_begins_anew_and_nothing_is_published_before() -> None:
    """I8: what was set aside is lost with its session."""
    tables = copying()
    late = tables[LATE]
    assert late.copy is not None
    tables[LATE] = replace(late, copy=replace(late.copy, bound=(), rows=3))
    with copied(tables) as session:
        session.facts[LATE] = found(key_names=None).facts
        session.transaction(KEYLESS, insert(1, "left out"))
        assert session.step() == TablesWanted()
        session.answer(TablesFound((found(key_names=None).table,)))
        assert isinstance(describe(session), WholeWanted)
        assert told(session) == [("m", None)]
        assert session.kinds == ["copy_begin"]
        assert session.copy().rows == 0


def test_table_that_leaves_while_it_is_read_is_copied_no_more() -> None:
    with begun() as session:
        session.answer(shown(), rows(1))
        session.transaction(KEYLESS, insert(2, "waits"), xid=XID + 700)
        session.copies.forget(LATE)
        assert session.copies.whole is None
        assert session.reader.wanted is None
        assert told(session) == [("m", None), ("r", 1)]
