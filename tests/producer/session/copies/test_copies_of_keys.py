"""Rows of listed keys are read again, of a table that stays current: each as it is at E, or gone (I1, I4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.producer.copied_session import (
    COPIED,
    LATE,
    XID,
    Copied,
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
from tests.producer.session.copies.state.test_requested_tables import CURRENT, Asked
from tests.producer.session.copies.told import TRUNCATE
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.pgoutput.messages import Delete, Unsent
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkAltered,
    ChunkWanted,
    TablesFound,
    TablesWanted,
    TableWanted,
)
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.control.table_request import (
    COPY,
    KEYS_BYTES_MAX,
    TableRequest,
    key_json,
    read_until,
    to_copy,
    to_copy_option,
)
from walbridge.schemas.position import COPIED_ORDINAL


def keys(*ids: int) -> TableRequest:
    return TableRequest.of_keys(LATE, [key_json({"id": str(each)}) for each in ids])


def delete(id_: int) -> Delete:
    return Delete(LATE, tuple_data(b"%d" % id_, Unsent.NULL), None)


class Corrected(Asked):
    """A session in which somebody asks for rows."""

    def ask_for(self, *ids: int) -> ChunkWanted:
        """Up to the chunk that is asked for."""
        self.ask(keys(*ids))
        return self.described()

    def described(self) -> ChunkWanted:
        assert self.session.reader.wanted == TablesWanted()
        assert self.session.answer(TablesFound((published(),))) == TableWanted(published())
        self.session.answer(found(lsn=self.session.kept_stream.received))
        return self.session.chunk_wanted()


@contextmanager
def correcting(standing: TableProgress = CURRENT) -> Iterator[Corrected]:
    with copied({**COPIED.tables, LATE: standing}) as session:
        session.transaction(announcement(), insert(1, "one"))
        session.rest()
        yield Corrected(session)


def told(session: Copied) -> list[tuple[str, int | None, str | None]]:
    """Without the first insert."""
    return session.told()[1:]


def finish(session: Copied, *rows: tuple[int, str]) -> None:
    session.chunk(*rows, asked=True)
    session.rest()


def test_listed_rows_enter_as_they_are_and_keys_without_a_row_are_deleted() -> None:
    with correcting() as there:
        session = there.session
        wanted = there.ask_for(1, 2, 3)
        assert (wanted.asked, wanted.after) == ((Bound(("1",)), Bound(("2",)), Bound(("3",))), None)
        finish(session, (1, "one"), (3, "three"))
        assert told(session) == [("r", 1, "one"), ("r", 3, "three"), ("d", 2, None)]
        assert [kind for kind in session.kinds if kind != "shape"] == []
        assert session.table() == replace(CURRENT, storage=session.table().storage)
        assert session.copies.is_at_rest


def test_all_of_a_chunk_is_one_kafka_transaction_at_the_position_of_copied_rows() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1, 2)
        finish(session, (1, "one"))
        batch = next(each for each in session.kafka.batches if len(each.rows) == 2)
        assert batch.cut is not None
        sources = [event["source"] for topic, event in session._read() if topic.endswith("late")][1:]
        assert {each["ordinal"] for each in sources} == {COPIED_ORDINAL}
        assert {each["commit_lsn"] for each in sources} == {batch.cut.end_lsn}


def test_request_is_in_progress_until_its_rows_are_in_the_topic() -> None:
    """A session that ends takes it up again."""
    with correcting() as there:
        session = there.session
        there.ask(keys(1, 2))
        session.transaction(insert(9, "nine"))
        session.rest()
        assert read_until(session.last.progress) == 8
        left = session.table()
        assert (left.state, left.copy is not None) == ("current", True)
    with copied({**COPIED.tables, LATE: left}) as session:
        again = Corrected(session)
        session.transaction(announcement(), insert(1, "one"))
        session.step()
        assert again.described().asked == (Bound(("1",)), Bound(("2",)))
        finish(session, (1, "one"), (2, "two"))
        assert session.table().copy is None


def test_changes_go_on_and_those_that_the_snapshot_lacks_are_laid_over_the_rows() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1, 2, 3, 4)
        session.transaction(moved(1, 1, "new"), delete(2), insert(3, "three"), xid=XID + 900)
        lsn = session.kept_stream.received
        session.answer(shown(XID + 500), read((1, "old"), (2, "two"), lsn=lsn, asked=True))
        session.rest()
        of_stream = [each for each in told(session) if each[0] not in ("r",)]
        assert ("r", 1, "new") in told(session)
        assert ("r", 2, "two") not in told(session)
        assert [each for each in of_stream if each[0] == "d"] == [("d", 2, None), ("d", 4, None)]
        assert ("c", 3, "three") in told(session)


def test_row_that_moves_in_with_unknown_values_is_left_to_the_lake() -> None:
    """I6: that holds the row of the old key; the topic need not."""
    with correcting() as there:
        session = there.session
        there.ask_for(2)
        session.transaction(moved(1, 2), xid=XID + 900)
        session.answer(shown(XID + 500), read(lsn=session.kept_stream.received, asked=True))
        session.rest()
        assert told(session) == [("d", 1, None), ("c", 2, None)]
        assert session.table().copy is None
        assert session.copies.is_at_rest


def test_truncate_leaves_no_row_to_be_read() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1, 2)
        session.transaction(TRUNCATE)
        session.answer(shown(), read((1, "one"), lsn=session.kept_stream.received, asked=True))
        session.step()
        session.transaction(insert(9, "nine"))
        session.rest()
        assert told(session) == [("t", None, None), ("c", 9, "nine")]
        assert session.table().copy is None
        assert session.copies.is_at_rest


def test_altered_table_is_described_again_and_its_rows_are_read_then() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1, 2)
        session.answer(ChunkAltered())
        assert isinstance(session.reader.wanted, TableWanted)
        session.answer(found(lsn=session.kept_stream.received, shape="second"))
        session.chunk_wanted()
        finish(session, (1, "one"))
        assert told(session) == [("r", 1, "one"), ("d", 2, None)]
        assert "copy_begin" not in session.kinds


def test_keys_of_another_key_than_the_table_has_are_not_read_and_its_record_says_so() -> None:
    with correcting() as there:
        session = there.session
        there.ask(TableRequest.of_keys(LATE, [key_json({"code": "x"})]))
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=session.kept_stream.received))
        session.transaction(insert(2, "two"))
        session.rest()
        assert session.table().why == "not copied again: the listed keys are not of the key that the table has"
        assert (session.table().state, session.table().copy) == ("current", None)
        assert told(session) == [("c", 2, "two")]


def test_keys_that_the_type_of_the_key_cannot_be_end_the_request_and_not_the_session() -> None:
    """As after ALTER … TYPE, between the request and its rows. The session would end so at each start."""
    with correcting() as there:
        session = there.session
        there.ask(TableRequest.of_keys(LATE, [key_json({"id": "1.50"})]))
        there.described()
        finish(session)
        session.transaction(insert(2, "two"))
        session.rest()
        assert session.table().why == "not copied again: the listed keys are not of the key that the table has"
        assert (session.table().state, session.table().copy) == ("current", None)
        assert told(session) == [("c", 2, "two")]


def test_keys_that_are_listed_meanwhile_are_read_next() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1)
        there.ask(keys(5), next_offset=9)
        session.chunk((1, "one"), asked=True)
        wanted = session.chunk_wanted()
        assert wanted.asked == (Bound(("5",)),)
        finish(session)
        assert told(session) == [("r", 1, "one"), ("d", 5, None)]


def test_copy_of_the_whole_table_takes_the_place_of_single_rows() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1)
        there.ask(TableRequest(COPY, LATE), next_offset=9)
        assert session.step() == TableWanted(published())
        session.answer(found(lsn=session.kept_stream.received))
        assert session.table().state == "copying"
        session.chunk_wanted()
        session.chunk((1, "one"), is_last=True)
        assert (session.table().state, session.table().copy) == ("current", None)
        assert session.kinds[-2:] == ["copy_begin", "copy_end"]


def test_copy_of_the_whole_table_is_made_by_the_next_session_where_single_rows_were_left() -> None:
    """I7: it is in progress, and no row that is read again takes its place."""
    with correcting() as there:
        there.ask(keys(1))
        there.ask(TableRequest(COPY, LATE), next_offset=9)
        there.session.transaction(insert(9, "nine"))
        there.session.rest()
        left = there.session.last.progress
        assert (left.tables[LATE].state, left.tables[LATE].copy is not None) == ("current", True)
        assert to_copy(left) == {LATE}
    with copied({**COPIED.tables, LATE: left.tables[LATE]}, options=to_copy_option([LATE])) as session:
        session.transaction(announcement(), insert(1, "one"))
        copy_whole(session)
        assert session.copies.is_at_rest


@pytest.mark.parametrize("is_copy_first", [False, True])
def test_copy_of_the_whole_table_is_made_where_single_rows_are_asked_for_at_once(*, is_copy_first: bool) -> None:
    """I7: both are read from the topic together."""
    both = [keys(1), TableRequest(COPY, LATE)]
    with correcting() as there:
        there.ask(*(reversed(both) if is_copy_first else both))
        copy_whole(there.session)
        assert there.session.copies.is_at_rest


def copy_whole(session: Copied) -> None:
    """From the list of the publication to the end of the copy."""
    assert session.step() == TablesWanted()
    assert session.answer(TablesFound((published(),))) == TableWanted(published())
    session.answer(found(lsn=session.kept_stream.received))
    assert (session.table().state, to_copy(session.last.progress)) == ("copying", frozenset())
    session.chunk_wanted()
    session.chunk((1, "one"), is_last=True)
    assert session.kinds[-2:] == ["copy_begin", "copy_end"]
    assert (session.table().state, session.table().copy) == ("current", None)


@pytest.mark.parametrize("standing", [copying("7")[LATE], replace(CURRENT, state="stale", name=None)])
def test_keys_of_a_table_that_is_not_current_are_not_listed(standing: TableProgress) -> None:
    with copied({**COPIED.tables, LATE: standing}) as session:
        there = Asked(session)
        there.ask(keys(1))
        assert session.tracker.progress.tables[LATE] == standing
        assert to_copy(session.tracker.progress) == frozenset()


def test_more_keys_than_progress_can_hold_are_refused_in_its_record() -> None:
    with correcting() as there:
        there.ask(TableRequest.of_keys(LATE, [b"x" * (KEYS_BYTES_MAX + 1)]))
        known = there.session.tracker.progress.tables[LATE]
        assert known.why == "not copied again: more keys were listed than progress can hold"
        assert known.copy is None


def test_chunk_that_kafka_did_not_take_is_read_again_by_the_next_session() -> None:
    with correcting() as there:
        session = there.session
        there.ask_for(1)
        session.transaction(insert(2, "two"))
        session.rest()
        before = session.table()
        session.kafka.refuses = True
        with pytest.raises(BatchAborted):
            finish(session, (1, "one"))
        assert session.table() == before
        assert before.copy is not None
