"""When the copy of a table begins beside the stream, and when not: nothing of it is called current before (I7, I8)."""

from __future__ import annotations

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
    shown,
)
from tests.producer.kept import ORDERS
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.streaming_progress import SPLIT
from walbridge.producer.pgoutput.messages import Insert
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    ChunkAltered,
    ChunkWanted,
    Failed,
    TablesFound,
    TablesWanted,
    TableWanted,
)
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS, TableProgress
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.position import Lsn

LISTED = [TablesWanted(), TableWanted(published())]
WAITING = TableProgress(LATE, "stale", name="public.late", why=FIRST_COPY_WAITS)


def test_nothing_is_asked_for_while_no_table_has_come() -> None:
    with copied() as session:
        session.transaction()
        assert session.step() is None
        assert session.copies.is_at_rest


def test_table_whose_change_comes_is_looked_for_in_the_publication() -> None:
    """I7: the change itself is left out, and told; its row is read with all others."""
    with copied() as session:
        lsn = session.transaction(announcement(), insert(1, "one"))
        assert session.reader.asked == [TablesWanted()]
        session.answer(TablesFound((published(LATER), published())))
        assert session.reader.asked == LISTED
        session.answer(found(lsn=lsn + 40))
        assert session.told() == [("m", None, None)]
        assert session.table().state == "copying"


def test_table_that_is_followed_does_not_come() -> None:
    with copied() as session:
        session.kept_watch.appeared = {ORDERS}
        assert session.step() is None


def test_table_that_is_not_in_the_publication_any_more_is_forgotten() -> None:
    """Those that come and go inside of a migration cost one question."""
    with copied() as session:
        session.kept_watch.appeared = {LATE}
        session.step()
        session.answer(TablesFound(()))
        assert session.copies.is_at_rest
        assert session.pass_s(1_000) is None


def test_publication_that_cannot_be_listed_is_asked_for_again_a_second_later() -> None:
    with copied() as session:
        session.kept_watch.appeared = {LATE}
        session.step()
        session.answer(Failed(RetryableError("a published table is being altered")))
        assert session.pass_s(0.9) is None
        assert session.pass_s(0.2) == TablesWanted()
        session.answer(TablesFound((published(),)))
        assert session.reader.wanted == TableWanted(published())


def test_copy_begins_when_everything_before_the_table_was_described_is_received() -> None:
    """Changes of it that came before may miss in its topic: they are in every snapshot that is taken from here on."""
    with copied() as session:
        session.find(LATE)
        session.answer(found(lsn=600))
        session.transaction(announcement(), insert(1, "before"), at=300)
        session.hear(599)
        session.step()
        assert LATE not in session.tracker.progress.relation_ids
        session.hear(600)
        session.step()
        assert session.told() == [("m", None, None)]
        assert (session.copy().begun_lsn, session.last.progress.end_lsn) == (600, 600)


def test_what_a_server_without_commits_has_not_flushed_is_asked_for_by_a_transaction() -> None:
    with copied() as session:
        session.find(LATE)
        session.answer(found(lsn=600))
        assert "xid" not in session.happened
        session.pass_s(0.6)
        assert session.happened.count("xid") == 1
        session.pass_s(0.4)
        assert session.happened.count("xid") == 1
        session.pass_s(0.2)
        assert session.happened.count("xid") == 2


def test_changes_are_published_from_the_beginning_on_whatever_is_read() -> None:
    with copied() as session:
        session.begin()
        lsn = session.transaction(announcement(), insert(1, "one"), insert(2, "two"))
        session.rest()
        assert session.events[-2:] == [("late", "c", 1, lsn, 0), ("late", "c", 2, lsn, 1)]


def test_changes_of_a_table_that_was_left_out_are_published_from_the_beginning_on() -> None:
    with copied() as session:
        session.transaction(announcement(), insert(1, "one"))
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=session.kept_stream.received))
        session.transaction(insert(2, "two"))
        session.rest()
        assert session.told() == [("m", None, None), ("c", 2, "two")]


def test_what_was_received_before_goes_into_a_batch_of_its_own() -> None:
    """I4: a replay brings neither of both again, and each event is below the marker behind it."""
    with copied() as session:
        session.find(LATE)
        session.reader.tell(found(lsn=0))
        lsn = session.transaction(insert(7, "other", ORDERS))
        events = session.events
        assert events == [("orders", "c", 7, lsn, 0), ("late", "m", None, lsn + 40, -1)]
        assert [len(batch.rows) for batch in session.kafka.batches] == [1, 1]


def test_nothing_begins_inside_of_a_transaction_that_is_split() -> None:
    """I4, I5: a cut inside of it would hold half of it."""
    with copied() as session:
        session.find(LATE)
        session.reader.tell(found(lsn=0))
        split = replace(COPIED, split=SPLIT)
        session.tracker.progress = split
        assert session.step() == TableWanted(published())
        assert session.told() == []


def test_nothing_begins_before_what_was_done_is_received_again() -> None:
    """The session before published it: a window could not tell what of it a snapshot shows."""
    with copied() as session:
        session.tracker.progress = replace(session.tracker.progress, done=Lsn(900))
        session.kept_watch.appeared = {LATE}
        assert session.step() is None
        session.hear(900)
        assert session.step() == TablesWanted()


def test_table_that_cannot_be_read_now_is_stale_and_tried_again_a_second_later() -> None:
    """I8."""
    with copied() as session:
        session.find(LATE)
        assert session.answer(Failed(RetryableError("it is being altered"))) is None
        stale = session.tracker.progress.tables.get(LATE)
        assert stale is not None
        assert (stale.state, stale.name, stale.why, stale.since) == ("stale", "public.late", "it is being altered", 220)
        session.transaction(announcement(), insert(1, "one"))
        assert session.reader.wanted is None
        assert session.pass_s(1) == TablesWanted()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=session.kept_stream.received))
        assert session.told() == [("m", None, None)]


def test_version_that_the_stream_told_after_the_table_was_described_is_not_taken_back() -> None:
    """I3: the table may have been altered between; the server tells a version once."""
    with copied() as session:
        session.find(LATE)
        lsn = session.transaction(announcement(LATE, "more"), Insert(LATE, tuple_data(b"1", b"one", b"m")))
        assert session.answer(found(lsn=lsn)) is None
        assert session.told() == []
        assert session.pass_s(1) == TablesWanted()
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=lsn + 1, shape="second", more=["more"]))
        assert session.kinds == ["copy_begin"]


def test_table_that_could_not_be_copied_and_is_gone_is_stale_no_more() -> None:
    """I8: as one that was dropped when its copy was there."""
    with copied() as session:
        session.find(LATE)
        session.answer(Failed(RetryableError("it is being altered")))
        assert session.pass_s(1) == TablesWanted()
        session.answer(TablesFound(()))
        gone = session.tracker.progress.tables[LATE]
        assert (gone.state, gone.name, gone.why) == ("dropped", "public.late", None)
        assert session.copies.is_at_rest


def test_table_that_is_refused_is_tried_again_ever_later() -> None:
    refusal = OperatorError("the role may not read it", remedy="GRANT SELECT")
    with copied() as session:
        session.find(LATE)
        for pause_s in (10, 20, 40, 80, 160, 300, 300):
            session.answer(Failed(refusal))
            assert session.pass_s(pause_s - 0.1) is None
            assert session.pass_s(0.2) == TablesWanted()
            assert session.answer(TablesFound((published(),))) == TableWanted(published())


def test_table_that_stays_refused_is_stale_since_its_first_refusal() -> None:
    """Progress is not written again with each try."""
    with copied() as session:
        session.find(LATE)
        session.answer(Failed(OperatorError("first", remedy="")))
        first = session.tracker.progress.tables
        session.transaction()
        session.pass_s(10)
        session.answer(TablesFound((published(),)))
        session.answer(Failed(OperatorError("first", remedy="")))
        assert session.tracker.progress.tables is first
        session.pass_s(20)
        session.answer(TablesFound((published(),)))
        session.answer(Failed(OperatorError("second", remedy="")))
        stale = session.tracker.progress.tables[LATE]
        assert (stale.since, stale.why) == (220, "second")


def test_table_that_was_refused_and_cannot_be_read_for_a_moment_stays_stale_for_what_has_a_remedy() -> None:
    """I8"""
    with copied() as session:
        session.find(LATE)
        session.answer(Failed(OperatorError("first", remedy="")))
        refused = session.tracker.progress.tables
        session.pass_s(10)
        session.answer(TablesFound((published(),)))
        session.answer(Failed(RetryableError("it is being altered")))
        assert session.tracker.progress.tables is refused
        assert session.pass_s(1) == TablesWanted()


def test_table_whose_changes_could_not_be_published_does_not_begin() -> None:
    with copied() as session:
        session.kept_watch.unfit = OperatorError("its updates come without keys", remedy="")
        session.find(LATE)
        assert session.answer(found(lsn=0)) is None
        assert session.tracker.progress.tables[LATE].why == "its updates come without keys"
        assert session.kafka.batches == []


def test_table_that_waits_for_its_first_copy_is_read_without_a_change_of_it() -> None:
    with copied({**COPIED.tables, LATE: WAITING}) as session:
        assert session.step() == TablesWanted()
        session.transaction(announcement(), insert(1, "one"))
        assert session.tracker.progress.tables[LATE] == WAITING
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=session.kept_stream.received))
        assert session.told() == [("m", None, None)]
        assert (session.table().state, session.table().why) == ("copying", None)


@pytest.mark.parametrize(("policy", "state"), [("copy", "stale"), ("quarantine", "quarantined")])
def test_table_whose_first_copy_cannot_begin_is_left_as_settings_say(policy: str, state: str) -> None:
    """I8: as where all are copied in one snapshot."""
    with copied({**COPIED.tables, LATE: WAITING}) as session:
        session.copies._answers._policy = policy
        session.step()
        session.answer(TablesFound((published(),)))
        assert session.answer(Failed(RetryableError("it is being altered"))) is None
        assert session.tracker.progress.tables[LATE] == WAITING
        assert session.pass_s(1) == TablesWanted()
        session.answer(TablesFound((published(),)))
        session.answer(Failed(OperatorError("the registry refuses it", remedy="")))
        left = session.tracker.progress.tables[LATE]
        assert (left.state, left.why, left.name) == (state, "the registry refuses it", "public.late")
        assert session.copies.is_at_rest == (state == "quarantined")


def test_table_whose_first_copy_cannot_begin_stops_all_where_settings_say_so() -> None:
    with copied({**COPIED.tables, LATE: WAITING}) as session:
        session.copies._answers._policy = "stop"
        session.step()
        session.answer(TablesFound((published(),)))
        with pytest.raises(OperatorError, match="the registry refuses it"):
            session.answer(Failed(OperatorError("the registry refuses it", remedy="")))


def test_table_that_left_the_publication_meanwhile_does_not_begin() -> None:
    with copied() as session:
        session.kept_watch.strangers = {LATE}
        session.find(LATE)
        session.answer(found(lsn=0))
        assert session.kafka.batches == []
        assert session.pass_s(1) == TablesWanted()


def test_table_made_again_waits_until_the_one_before_it_is_known_to_be_gone() -> None:
    """I4: two tables in one topic at one time would be one to its reader."""
    before = TableProgress(LATER, "current", "p.public.late", "one", "of its own")
    with copied({**COPIED.tables, LATER: before}) as session:
        session.find(LATE)
        assert session.answer(found(lsn=0)) is None
        assert session.kafka.batches == []
        session.tracker.remember_tables({LATER: replace(before, state="dropped")})
        session.pass_s(1)
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=0))
        assert session.kinds == ["copy_begin"]


def test_table_that_is_let_go_while_it_is_described_does_not_begin() -> None:
    with copied() as session:
        session.find(LATE)
        session.reader.tell(found(lsn=600))
        session.step()
        session.copies.forget(LATE)
        session.hear(700)
        assert session.step() is None
        assert session.kafka.batches == []
        assert session.copies.is_at_rest


def test_second_table_begins_while_the_first_waits_for_a_transaction_to_end() -> None:
    with copied() as session:
        session.begin()
        session.pass_s(0.5)
        session.answer(shown(XID - 5))
        session.pass_s(0.5)
        session.find(LATER)
        session.answer(found(LATER, lsn=0))
        assert session.table(LATER).state == session.table(LATE).state == "copying"


def test_table_that_was_left_out_before_this_session_is_copied() -> None:
    stale = TableProgress(LATE, "stale", name="public.late", since=Lsn(150), why="added after the copy")
    with copied({**COPIED.tables, LATE: stale}) as session:
        assert session.step() == TablesWanted()


def test_table_that_is_stale_for_another_reason_is_not_copied() -> None:
    """One of which a value is nowhere was told in a cut: what mends it is a person's to say."""
    with copied({**COPIED.tables, LATE: TableProgress(LATE, "stale", since=Lsn(150))}) as session:
        assert session.step() is None


def test_copy_goes_on_in_the_next_session_behind_its_last_chunk() -> None:
    """I4: without another beginning."""
    with copied(copying("17")) as session:
        assert session.step() == TablesWanted()
        session.answer(TablesFound((published(),)))
        wanted = session.answer(found(lsn=0))
        assert isinstance(wanted, ChunkWanted)
        assert wanted.after == Bound(("17",))
        assert wanted.before.begun == XID
        assert session.kafka.batches == []


def test_copy_of_a_table_that_was_altered_between_two_sessions_begins_again() -> None:
    with copied(copying("17")) as session:
        session.step()
        session.answer(TablesFound((published(),)))
        wanted = session.answer(found(lsn=0, shape="second"))
        assert isinstance(wanted, ChunkWanted)
        assert (wanted.after, wanted.shape) == (None, "second")
        assert session.kinds == ["copy_begin"]
        assert (session.copy().begun_lsn, session.copy().rows) == (220, 0)


def test_copy_of_a_table_whose_reader_finds_another_shape_begins_again() -> None:
    with copied() as session:
        session.begin()
        session.chunk((1, "one"))
        assert session.answer(ChunkAltered()) == TableWanted(published())
        wanted = session.answer(found(lsn=0, shape="second"))
        assert isinstance(wanted, ChunkWanted)
        assert (wanted.after, wanted.shape) == (None, "second")
        assert session.kinds == ["copy_begin", "copy_begin"]
        assert session.copy().rows == 0


def test_copy_of_a_table_that_waits_to_be_described_again_waits_for_that_alone() -> None:
    """No chunk is read meanwhile: it could be of the table as it was."""
    with copied() as session:
        session.begin()
        session.answer(ChunkAltered())
        assert session.answer(Failed(RetryableError("it is being altered"))) is None
        assert session.pass_s(1.1) == TablesWanted()
        assert session.answer(TablesFound((published(),))) == TableWanted(published())
        assert session.table().state == "copying"
