"""The order in which a batch ends: the look at the source, the commit, the word to Postgres."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.producer.kept import ITEMS, ORDERS, XID, AtCut, Kept, catalogue, relation
from tests.producer.streaming_progress import SPLIT, STREAMING, current
from walbridge.producer.batch import cut_maker
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.pgoutput.messages import Begin
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, Position

NEVER_MS, AT_ONCE_MS = 10**9, 0


@dataclass
class Held:
    """Prepared transactions without an end."""

    oldest_prepared_lsn: Lsn | None


class Cuts(Kept):
    """A cut maker between kept peers; ``dropped``: relation ids that it told of."""

    def __init__(
        self,
        progress: Progress = STREAMING,
        idle_ms: int = AT_ONCE_MS,
        oldest_prepared_lsn: Lsn | None = None,
    ) -> None:
        super().__init__(progress=replace(progress, tables=current(ORDERS, ITEMS)))
        self.dropped: list[int] = []
        prepared = Held(oldest_prepared_lsn)
        self.maker = CutMaker(idle_ms, self.stream, self.tables, self.out, self.watch, prepared, AtCut(self.dropped))
        self.kept_stream.received = Lsn(300)

    def announce(self, *relation_ids: int) -> None:
        with catalogue():
            for relation_id in relation_ids:
                self.tables.receive(relation(relation_id), (relation_id,), XID)

    def fill(self, end_lsn: int = 300) -> None:
        self.out.open()
        self.out.batch.end_lsn = Lsn(end_lsn)


def test_nothing_is_confirmed_before_its_batch_is_committed() -> None:
    """I1"""
    cuts = Cuts()
    cuts.fill()

    cuts.maker.close()

    assert cuts.happened == ["begin", "commit", "confirm 300"]


def test_batch_that_kafka_refuses_confirms_nothing() -> None:
    """I1"""
    cuts = Cuts()
    cuts.fill()
    cuts.kafka.refuses = True

    with pytest.raises(BatchAborted):
        cuts.maker.close()

    assert cuts.happened == ["begin"]
    assert cuts.tracker.progress.cut_id == STREAMING.cut_id


def test_without_an_open_batch_there_is_nothing_to_end() -> None:
    cuts = Cuts()

    cuts.maker.close()

    assert cuts.happened == []


def test_batch_that_ends_inside_a_transaction_confirms_nothing() -> None:
    """I1"""
    cuts = Cuts()
    cuts.fill(280)

    cuts.maker.split(Begin(SPLIT.commit_lsn, 7, SPLIT.xid), SPLIT)

    assert cuts.happened == ["begin", "commit"]
    assert cuts.last.cut is not None
    assert (cuts.last.cut.complete, cuts.last.progress.split) == (False, SPLIT)


@pytest.mark.parametrize(("held", "floor"), [(None, 290), (250, 250), (295, 290)])
def test_floor_is_before_what_is_held_and_before_what_was_not_decoded_yet(held: int | None, floor: int) -> None:
    """I1: a batch may end behind what the server says it has decoded, and a prepared transaction has no end yet."""
    check_floor(held, floor, is_idle=False)


def check_floor(held: int | None, floor: int, *, is_idle: bool) -> None:
    """The floor after a cut while the server has decoded up to 290, or to 300 where nothing happens."""
    cuts = Cuts(oldest_prepared_lsn=None if held is None else Lsn(held))
    if is_idle:
        cuts.maker.idle_cut()
    else:
        cuts.kept_stream.received = Lsn(290)
        cuts.fill(300)
        cuts.maker.close()

    assert (cuts.last.progress.floor, cuts.last.progress.done) == (floor, 300)
    assert cuts.happened[-1] == f"confirm {floor}"


@pytest.mark.parametrize(("held", "floor"), [(None, 300), (250, 250)])
def test_floor_of_an_idle_cut_is_before_what_is_held(held: int | None, floor: int) -> None:
    """I1: a prepared transaction comes again, however long nothing else happens."""
    check_floor(held, floor, is_idle=True)


def test_idle_cut_looks_at_the_publication_before_it_says_that_nothing_came() -> None:
    """I7: without a publication the stream is silent, and the cut would confirm what never came."""
    cuts = Cuts()
    cuts.kept_watch.fault = OperatorError("the publication is gone", remedy="none")

    with pytest.raises(OperatorError):
        cuts.maker.idle_cut()

    assert cuts.happened == ["look"]


def test_idle_cut_moves_on_to_what_the_server_has_decoded() -> None:
    cuts = Cuts()

    cuts.maker.idle_cut()

    assert cuts.happened == ["look", "begin", "commit", "confirm 300"]
    assert cuts.last.cut is not None
    assert (cuts.last.cut.complete, cuts.last.cut.previous_end_lsn, cuts.last.cut.end_lsn) == (True, 200, 300)


def test_idle_cut_is_made_when_it_is_due_or_asked_for() -> None:
    cuts = Cuts(idle_ms=NEVER_MS)
    cuts.maker.idle_cut()
    assert cuts.happened == []

    cuts.maker.idle_cut(is_requested=True)
    assert cuts.happened[-1] == "confirm 300"


def test_no_idle_cut_inside_a_transaction_of_which_a_part_is_published() -> None:
    """I8, I4: it would be complete with half a transaction, and forget how much of it to skip."""
    cuts = Cuts(replace(STREAMING, split=SPLIT))

    cuts.maker.idle_cut()

    assert cuts.happened == []


def test_no_idle_cut_where_the_server_has_decoded_nothing_new() -> None:
    cuts = Cuts()
    cuts.kept_stream.received = STREAMING.end_lsn

    cuts.maker.idle_cut()

    assert cuts.happened == []


@pytest.mark.parametrize(("received", "cuts_made"), [(0, 0), (199, 0), (200, 1)])
def test_table_in_doubt_is_told_by_an_idle_cut_once_the_server_has_reported_what_was_published(
    received: int, cuts_made: int
) -> None:
    """I1: a session begins with a server that has reported nothing yet, and no cut ends before the last one."""
    cuts = Cuts()
    cuts.kept_stream.received = Lsn(received)
    cuts.kept_watch.doubts.add({ORDERS: OperatorError("its topic is gone", remedy="")})
    cuts.maker.idle_cut()

    assert len(cuts.kafka.batches) == cuts_made


def test_no_idle_cut_while_a_batch_is_open() -> None:
    """I8: it would end with the batch's rows at an LSN that is not theirs."""
    cuts = Cuts()
    cuts.fill(250)

    cuts.maker.idle_cut()

    assert cuts.happened == ["begin"]


def dropped_of(leaving: dict[int, int]) -> Cuts:
    """After an idle cut at 300, while these tables leave from these LSNs on."""
    cuts = Cuts()
    cuts.announce(ORDERS, ITEMS)
    cuts.kept_watch.leaving = leaving
    cuts.maker.idle_cut()
    return cuts


def test_table_that_left_is_said_to_be_dropped_in_the_cut_and_leaves_progress() -> None:
    """I8: the lake calls it stale from there on."""
    cuts = dropped_of({ORDERS: 300})

    assert cuts.last.cut is not None
    (changes,) = cuts.last.cut.tables
    assert (changes.relation_id, changes.barriers) == (ORDERS, (Barrier("dropped", Position(Lsn(300), 0)),))
    assert cuts.last.progress.relation_ids == (ITEMS,)


def test_table_that_left_is_told_and_its_writer_forgotten() -> None:
    """I7: should changes of it come, they are those of a table without a copy."""
    cuts = dropped_of({ORDERS: 300})

    assert cuts.dropped == [ORDERS]
    assert cuts.tables.writers.of(ITEMS).topic == "p.public.items"
    with pytest.raises(OperatorError):
        cuts.tables.writers.of(ORDERS)


def test_table_whose_changes_may_still_come_is_not_said_to_be_dropped() -> None:
    """I7: those of a transaction that is open when it leaves."""
    cuts = dropped_of({ORDERS: 301})

    assert cuts.last.cut is not None
    assert (cuts.last.cut.tables, cuts.dropped) == ((), [])
    assert cuts.last.progress.relation_ids == (ORDERS, ITEMS)


def filled_while_leaving(since: int) -> Cuts:
    """A batch that ends at 300 while the server has decoded up to 350, and a table that leaves from ``since`` on."""
    cuts = Cuts()
    cuts.announce(ORDERS, ITEMS)
    cuts.kept_watch.leaving = {ORDERS: since}
    cuts.kept_stream.received = Lsn(350)
    cuts.fill(300)
    return cuts


def test_table_that_left_is_said_to_be_dropped_where_a_batch_ends() -> None:
    """I8: under load there is no idle cut. Its position is behind all its events: they commit before the end."""
    cuts = filled_while_leaving(300)

    cuts.maker.close()

    assert cuts.last.cut is not None
    (changes,) = cuts.last.cut.tables
    assert (changes.relation_id, changes.barriers) == (ORDERS, (Barrier("dropped", Position(Lsn(300), 0)),))
    assert (cuts.last.progress.relation_ids, cuts.dropped) == ((ITEMS,), [ORDERS])


def test_table_whose_changes_may_come_after_a_batch_is_not_dropped_by_it() -> None:
    """I7: what is decoded may lie beyond what is in the batch."""
    cuts = filled_while_leaving(301)

    cuts.maker.close()

    assert (cuts.last.progress.relation_ids, cuts.dropped) == ((ORDERS, ITEMS), [])


def test_table_that_left_is_not_dropped_where_a_batch_ends_in_messages_inside_a_transaction() -> None:
    """I8: such a batch ends no LSN."""
    cuts = filled_while_leaving(300)
    cuts.out.batch.end_lsn = None

    cuts.maker.close()

    assert (cuts.last.progress.relation_ids, cuts.dropped) == ((ORDERS, ITEMS), [])


def test_table_that_left_is_not_dropped_by_a_split() -> None:
    """I4, I8: the cut is incomplete, and the next complete one tells."""
    cuts = filled_while_leaving(300)

    cuts.maker.split(Begin(SPLIT.commit_lsn, 7, SPLIT.xid), SPLIT)
    assert (cuts.last.progress.relation_ids, cuts.dropped) == ((ORDERS, ITEMS), [])

    cuts.fill(330)
    cuts.maker.close()
    assert (cuts.last.progress.relation_ids, cuts.dropped) == ((ITEMS,), [ORDERS])


def test_cut_in_a_pause_waits_for_what_may_keep_a_table_current() -> None:
    """I8: a cut that cannot wait calls the table stale."""
    cuts = Cuts()
    cuts.fill()
    cuts.kept_watch.awaits = True
    cuts.maker.close(may_wait=True)
    cuts.maker.idle_cut()
    assert (cuts.happened, cuts.out.is_open) == (["begin"], True)
    cuts.maker.close()
    assert cuts.happened == ["begin", "commit", "confirm 300"]


def test_full_batch_waits_too_unless_it_holds_twice_as_much() -> None:
    """I9"""
    cuts = Cuts()
    cuts.fill()
    cuts.kept_watch.awaits = True
    rows_max = cuts.settings.producer.batch_rows_max
    for rows, is_open in [(rows_max, True), (2 * rows_max - 1, True), (2 * rows_max, False)]:
        cuts.out.batch.row_count = rows
        cuts.maker.close(may_wait=True)
        assert cuts.out.is_open == is_open


def test_batch_waits_no_longer_than_kafka_does(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = Cuts()
    cuts.fill()
    cuts.kept_watch.awaits = True
    monkeypatch.setattr(cuts.out.limits, "age_max_s", 0.0)
    cuts.maker.close(may_wait=True)
    assert not cuts.out.is_open


def test_step_of_a_copy_waits_as_a_batch_does_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cut ends where the stream is. A source that empties tables all the time would hold it up without an end."""
    cuts = Cuts()
    assert cuts.maker.prepare_step()
    cuts.kept_watch.awaits = True
    cuts.fill()
    assert not cuts.maker.prepare_step()
    assert cuts.out.is_open
    cuts.maker.close()
    assert not cuts.maker.prepare_step()
    monkeypatch.setattr(cut_maker, "WAIT_S", 0.0)
    assert cuts.maker.prepare_step()
    monkeypatch.undo()
    assert not cuts.maker.prepare_step(), "each step waits"


def test_step_of_a_copy_ends_what_is_open() -> None:
    cuts = Cuts()
    cuts.fill()
    assert cuts.maker.prepare_step()
    assert cuts.happened == ["begin", "commit", "confirm 300"]


def test_idle_cut_waits_for_what_may_keep_a_table_current() -> None:
    cuts = Cuts()
    cuts.kept_watch.awaits = True
    cuts.maker.idle_cut()
    assert cuts.happened == ["look"]
    cuts.kept_watch.awaits = False
    cuts.maker.idle_cut()
    assert cuts.happened[1:] == ["look", "begin", "commit", "confirm 300"]
