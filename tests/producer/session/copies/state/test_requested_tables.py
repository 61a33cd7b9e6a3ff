"""What operators ask of tables, in one session: taken once, and in progress until it is done (I4, I7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pytest

from tests.producer.copied_session import (
    COPIED,
    LATE,
    LATER,
    Copied,
    announcement,
    copied,
    copying,
    found,
    published,
    shown,
)
from tests.producer.copied_session import insert as inserted
from walbridge.producer.copying.troubles import AGAIN_MAX
from walbridge.producer.kafka.table_requests import RequestsRead, TableRequests
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Failed,
    TablesFound,
    TablesWanted,
    TableWanted,
    WholeRead,
)
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.control.progress_record import lost_option
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.control.table_request import (
    ALL_TABLES,
    COPY,
    FORGET,
    TableRequest,
    read_until,
    to_copy,
    to_copy_option,
)
from walbridge.schemas.errors import OperatorError, RetryableError, StreamLost
from walbridge.schemas.position import Lsn

CURRENT = TableProgress(LATE, "current", "p.public.late", "one-13", "of its own", Lsn(150), None, None, "public.late")
STALE = replace(CURRENT, state="stale", why="its topic is gone", name=None)


class Requests:
    """Stands for the topic's reader."""

    def __init__(self) -> None:
        self.read: RequestsRead | None = None

    def take(self) -> RequestsRead | None:
        read, self.read = self.read, None
        return read


class Asked:
    """A session that somebody asks for something."""

    def __init__(self, session: Copied) -> None:
        self.session, self.requests = session, Requests()
        session.copies._reading.requested._requests = cast(TableRequests, self.requests)

    def ask(self, *requests: TableRequest, next_offset: int = 8) -> None:
        self.requests.read = RequestsRead(requests, next_offset)
        self.session.step()

    def ask_for_copy(self) -> None:
        """Up to the description of the table."""
        self.ask(TableRequest(COPY, LATE))
        assert self.session.reader.wanted == TablesWanted()
        assert self.session.answer(TablesFound((published(),))) == TableWanted(published())


@contextmanager
def asked(standing: TableProgress = CURRENT) -> Iterator[Asked]:
    with copied({**COPIED.tables, LATE: standing}) as session:
        session.transaction(announcement(), inserted(1, "one"))
        session.rest()
        yield Asked(session)


def test_followed_table_is_copied_again_and_its_changes_go_on_all_the_while() -> None:
    with asked() as there:
        session = there.session
        there.ask_for_copy()
        session.transaction(inserted(2, "two"))
        session.answer(found(lsn=session.kept_stream.received))
        session.transaction(inserted(3, "three"))
        session.rest()
        assert session.told() == [("c", 1, "one"), ("c", 2, "two"), ("m", None, None), ("c", 3, "three")]
        assert session.table().state == "copying"


def test_request_is_in_progress_until_the_copy_begins_with_the_same_record() -> None:
    with asked() as there:
        session = there.session
        there.ask_for_copy()
        session.transaction(inserted(2, "two"))
        session.rest()
        assert to_copy(session.last.progress) == {LATE}
        assert read_until(session.last.progress) == 8
        session.answer(found(lsn=session.kept_stream.received))
        assert (to_copy(session.last.progress), session.table().state) == (frozenset(), "copying")


def test_table_that_cannot_be_read_now_stays_current_and_is_tried_again() -> None:
    """I8: what the lake has of it is right."""
    with asked() as there:
        there.ask_for_copy()
        there.session.answer(Failed(RetryableError("it is being altered")))
        assert there.session.tracker.progress.tables[LATE] == CURRENT
        assert there.session.pass_s(1) == TablesWanted()


def test_table_that_is_refused_stays_current_and_its_record_says_why() -> None:
    with asked() as there:
        session = there.session
        there.ask_for_copy()
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        progress = session.tracker.progress
        assert progress.tables[LATE] == replace(CURRENT, why="not copied again: the role may not read it")
        assert to_copy(progress) == frozenset()
        assert session.pass_s(1000) is None


def test_stale_table_is_copied_when_it_is_asked_for() -> None:
    with copied({**COPIED.tables, LATE: STALE}) as session:
        assert session.pass_s(1000) is None
        there = Asked(session)
        there.ask_for_copy()
        session.answer(found(lsn=session.kept_stream.received))
        assert session.table().state == "copying"


def describe(session: Copied, key_names: tuple[str, ...] | None = ("id",)) -> None:
    """From the list of the publication to what the table is."""
    session.step()
    if isinstance(session.reader.wanted, TablesWanted):
        session.answer(TablesFound((published(),)))
    assert session.reader.wanted == TableWanted(published())
    session.answer(found(lsn=session.kept_stream.received, key_names=key_names))


def test_table_that_is_being_copied_is_copied_again_behind_that() -> None:
    """I7: the lake may have lost what was sent of this copy, and asks once."""
    with copied(copying("7")) as session:
        session.transaction(announcement(), inserted(1, "one"))
        Asked(session).ask(TableRequest(COPY, LATE))
        describe(session)
        assert session.chunk_wanted().after == Bound(("7",))
        session.chunk((8, "eight"), is_last=True)
        assert session.kinds[-1] == "copy_end"
        assert (to_copy(session.last.progress), session.table().state) == (frozenset({LATE}), "current")
        session.pass_s(1)
        describe(session)
        assert session.chunk_wanted().after is None
        assert (to_copy(session.last.progress), session.table().state) == (frozenset(), "copying")
        session.chunk((8, "eight"), is_last=True)
        assert session.kinds[-3:] == ["copy_end", "copy_begin", "copy_end"]
        assert session.copies.is_at_rest


@pytest.mark.parametrize("standing", [copying("7")[LATE], CURRENT])
def test_copy_asked_for_while_the_table_was_copied_is_made_by_the_next_session(standing: TableProgress) -> None:
    """Whether the copy had ended by then or not."""
    with copied({**COPIED.tables, LATE: standing}, options=to_copy_option([LATE])) as session:
        session.transaction(announcement(), inserted(1, "one"))
        if standing.state == "copying":
            describe(session)
            session.chunk((8, "eight"), is_last=True)
            session.pass_s(1)
        describe(session)
        assert session.chunk_wanted().after is None
        assert session.kinds[-1] == "copy_begin"
        assert to_copy(session.last.progress) == frozenset()


def test_table_without_a_key_that_is_being_copied_is_copied_again_behind_that() -> None:
    with copied() as session:
        session.facts[LATE] = found(key_names=None).facts
        session.find(LATE)
        session.answer(found(lsn=session.kept_stream.received, key_names=None))
        Asked(session).ask(TableRequest(COPY, LATE))
        session.answer(shown(), WholeRead(session.kept_stream.received))
        session.step()
        assert session.kinds == ["copy_begin", "copy_end"]
        session.pass_s(1)
        describe(session, None)
        assert session.kinds[-1] == "copy_begin"
        assert to_copy(session.last.progress) == frozenset()


def test_copy_that_begins_anew_is_the_one_that_was_asked_for() -> None:
    """The lake is told of its beginning once more."""
    with copied(copying("7", shape="another")) as session:
        session.transaction(announcement(), inserted(1, "one"))
        Asked(session).ask(TableRequest(COPY, LATE))
        describe(session)
        assert session.kinds[-1] == "copy_begin"
        assert to_copy(session.last.progress) == frozenset()


def test_copy_of_all_tables_leaves_those_that_are_being_copied() -> None:
    with copied(copying("7")) as session:
        Asked(session).ask(TableRequest(COPY, ALL_TABLES))
        assert LATE not in to_copy(session.tracker.progress)


def test_table_that_is_not_published_is_asked_for_no_more() -> None:
    with asked() as there:
        there.ask(TableRequest(COPY, LATER))
        assert there.session.answer(TablesFound((published(),))) is None
        assert to_copy(there.session.tracker.progress) == frozenset()


QUARANTINED = replace(STALE, state="quarantined", name="public.late")


@pytest.mark.parametrize("standing", [CURRENT, QUARANTINED])
def test_copy_of_a_table_that_is_out_of_the_publication_for_a_moment_is_still_asked_for(
    standing: TableProgress,
) -> None:
    """It is taken out and put back, and the list is read in between."""
    with copied({**COPIED.tables, LATE: standing}) as session:
        there = Asked(session)
        there.ask(TableRequest(COPY, LATE))
        session.answer(TablesFound(()))
        assert to_copy(session.tracker.progress) == {LATE}
        assert session.pass_s(10) == TablesWanted()
        assert session.answer(TablesFound((published(),))) == TableWanted(published())
        session.answer(found(lsn=session.kept_stream.received))
        assert session.table().state == "copying"


@pytest.mark.parametrize("standing", [CURRENT, QUARANTINED])
def test_copy_of_a_table_that_left_for_good_is_asked_for_no_more(standing: TableProgress) -> None:
    with copied({**COPIED.tables, LATE: standing}) as session:
        there = Asked(session)
        there.ask(TableRequest(COPY, LATE))
        session.answer(TablesFound(()))
        if standing is CURRENT:
            session.copies.forget(LATE)  # as the cut does that says so
        else:
            there.ask(TableRequest(FORGET, LATE))
            session.pass_s(10)
            session.answer(TablesFound(()))
        assert to_copy(session.tracker.progress) == frozenset()
        assert session.copies.is_at_rest


def test_copy_goes_on_where_its_table_was_out_of_the_publication_when_that_was_listed() -> None:
    with copied(copying("7")) as session:
        session.step()
        session.answer(TablesFound(()))
        assert session.pass_s(1) == TablesWanted()
        describe(session)
        assert session.chunk_wanted().after == Bound(("7",))


def test_table_that_is_stale_and_refused_is_asked_for_no_more_and_tried_again_by_itself() -> None:
    """Who waits for the copy is told why, instead of waiting until somebody mends that."""
    with copied({**COPIED.tables, LATE: STALE}) as session:
        there = Asked(session)
        there.ask_for_copy()
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        progress = session.tracker.progress
        assert (progress.tables[LATE].state, progress.tables[LATE].why) == ("stale", "the role may not read it")
        assert to_copy(progress) == frozenset()
        assert session.pass_s(10) == TablesWanted()
        session.answer(TablesFound((published(),)))
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        session.clock.now_s += 1
        there.ask_for_copy()
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        assert to_copy(session.tracker.progress) == frozenset()


def test_what_became_of_a_request_is_told_also_where_nobody_writes() -> None:
    """A cut comes only with WAL."""
    with asked() as there:
        session = there.session
        there.ask_for_copy()
        before = session.kept_watch.xid
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        assert session.kept_watch.xid > before


def test_copy_that_has_begun_and_is_refused_says_why_until_it_goes_on() -> None:
    with copied() as session:
        session.begin()
        session.answer(Failed(OperatorError("the role may not read it", remedy="GRANT SELECT")))
        known = session.tracker.progress.tables[LATE]
        assert (known.state, known.why) == ("copying", "the role may not read it")
        session.pass_s(10)
        session.answer(TablesFound((published(),)))
        session.chunk((1, "one"))
        assert (session.table().state, session.table().why) == ("copying", None)


def test_table_that_left_is_forgotten_and_one_that_is_followed_is_not() -> None:
    dropped = replace(CURRENT, relation_id=LATER, state="dropped")
    with copied({**COPIED.tables, LATE: CURRENT, LATER: dropped}) as session:
        there = Asked(session)
        there.ask(TableRequest(FORGET, LATE), TableRequest(FORGET, LATER), TableRequest(FORGET, 7))
        tables = session.tracker.progress.tables
        assert (LATE in tables, LATER in tables) == (True, False)


def test_table_that_differs_from_its_source_is_stale_and_copied_again() -> None:
    """I8: it is called current no more from the cut on that says that the doubt was read."""
    with asked() as there:
        session = there.session
        before = read_until(session.tracker.progress)
        there.ask(TableRequest.of_doubt(LATE), next_offset=7)
        there.ask(TableRequest(COPY, LATER))
        assert read_until(session.tracker.progress) == before  # a cut inside a transaction tells no doubt
        session.transaction(inserted(2, "two"))
        session.rest()
        table = session.table()
        assert (table.state, read_until(session.last.progress)) == ("stale", 8)
        assert "was compared with its source, and rows of it differ" in (table.why or "")
        assert session.kinds[-1] == "dropped"


def test_table_that_differs_is_left_alone_where_its_copy_was_asked_for_behind_the_doubt() -> None:
    with asked() as there:
        there.ask(TableRequest.of_doubt(LATE), TableRequest(COPY, LATE))
        assert not there.session.kept_watch.doubts
        assert to_copy(there.session.tracker.progress) == {LATE}


def test_doubt_of_a_table_that_is_not_followed_or_being_copied_says_nothing() -> None:
    with copied(copying("7")) as session:
        there = Asked(session)
        there.ask(TableRequest.of_doubt(LATE), TableRequest.of_doubt(7))
        assert not session.kept_watch.doubts


OF_LAKE = TableRequest(COPY, LATE, by_lake=True)


def test_table_whose_copies_do_not_help_the_lake_is_quarantined_until_an_operator_asks() -> None:
    """Whoever runs the job: each request may come from another process."""
    with asked() as there:
        session = there.session
        for number in range(AGAIN_MAX):
            there.ask(OF_LAKE, next_offset=8 + number)
            assert to_copy(session.tracker.progress) == {LATE}
            session.copies._reading.forget(LATE)  # as if it were copied
        there.ask(OF_LAKE, next_offset=50)
        session.transaction(inserted(2, "two"))
        session.rest()
        table = session.table()
        assert (table.state, to_copy(session.last.progress)) == ("quarantined", frozenset())
        assert "the lake still cannot write it on" in (table.why or "")
        assert (session.kinds[-1], read_until(session.last.progress)) == ("dropped", 50)
        there.ask(OF_LAKE, next_offset=51)
        assert to_copy(session.tracker.progress) == frozenset()
        there.ask(TableRequest(COPY, LATE), next_offset=52)
        assert to_copy(session.tracker.progress) == {LATE}


def test_table_whose_copies_do_not_help_the_lake_is_quarantined_while_it_is_copied() -> None:
    recent = tuple([int(time.time())] * AGAIN_MAX)
    begun = copying("7")
    with copied({**begun, LATE: replace(begun[LATE], troubles=recent)}) as session:
        Asked(session).ask(OF_LAKE)
        session.transaction(announcement(), inserted(9, "nine"))
        session.rest()
        assert session.table().state == "quarantined"


def test_operator_may_ask_as_often_as_they_like() -> None:
    with asked() as there:
        for _ in range(AGAIN_MAX + 1):
            there.ask(TableRequest(COPY, LATE))
        assert not there.session.kept_watch.doubts
        assert there.session.tracker.progress.tables[LATE].troubles == ()


def test_table_that_an_operator_asks_for_too_is_copied_however_often_the_lake_asked() -> None:
    recent = tuple([int(time.time())] * AGAIN_MAX)
    with asked(replace(CURRENT, troubles=recent)) as there:
        there.ask(OF_LAKE, TableRequest(COPY, LATE))
        assert not there.session.kept_watch.doubts
        assert to_copy(there.session.tracker.progress) == {LATE}


def test_copy_of_all_tables_is_left_for_a_new_epoch_where_no_session_came_to_the_end_of_the_wal() -> None:
    """I7: this session would take the request, and end at the same change before any copy does."""
    with asked() as there:
        tracker = there.session.tracker
        tracker.remember_options(lost_option(Lsn(10**9), "cannot be decoded"))
        with pytest.raises(StreamLost, match="cannot be decoded"):
            there.ask(TableRequest(COPY, ALL_TABLES))
        assert read_until(tracker.progress) != 8
        tracker.remember_options(lost_option(tracker.end_lsn, "cannot be decoded"))
        there.ask(TableRequest(COPY, ALL_TABLES))
        assert read_until(tracker.progress) == 8
