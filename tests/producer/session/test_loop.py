"""One session frame by frame: which rows, ordinals and LSNs a batch gets, and when it may end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.producer.kept import ITEMS, ORDERS, relation
from tests.producer.kept_session import BEGIN, COMMIT, COPIED, insert, streamed
from tests.producer.pgoutput.encoder import encode_message, tuple_data, xlog_data
from walbridge.producer.batch.progress import Batch as OpenedBatch
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Truncate,
    Unsent,
    Update,
)
from walbridge.producer.session.keepalives import REPLY_INTERVAL_S
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.progress_record import Progress, Split, decode_progress, encode_progress
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings_sections import Topics


def test_batch_goes_to_the_end_of_its_last_transaction_and_its_rows_count_from_0() -> None:
    """I4"""
    with streamed() as session:
        session.feed(BEGIN, insert(1), insert(2), insert(3), COMMIT)
        session.feed(Begin(Lsn(540), 7, 78), insert(4), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert [event[2:] for event in session.events] == [(1, 500, 0), (2, 500, 1), (3, 500, 2), (4, 540, 0)]
    assert (session.cut.end_lsn, session.cut.commit_lsn, session.cut.transactions) == (580, 540, 2)
    assert session.happened[-1] == "confirm 580"


def test_batch_does_not_end_while_a_transaction_is_open() -> None:
    """I8"""
    with streamed() as session:
        session.feed(BEGIN, insert(1))
        session.hear(600)
        session.hear(600, reply_requested=True)
        assert session.kafka.batches == []
        session.feed(insert(2), COMMIT)
        session.rest()

    assert [event[2] for event in session.events] == [1, 2]
    assert (session.cut.complete, session.cut.end_lsn) == (True, 540)


def test_transaction_whose_end_is_long_in_coming_is_not_ended_before_it() -> None:
    """I8: nothing arrives for a while, and a cut there would hold half of it."""
    with streamed() as session:
        session.feed(BEGIN, insert(1))
        session.hear(600)
        session.kept_stream.later.extend(xlog_data(encode_message(each)) for each in (insert(2), COMMIT))
        session.rest()

    assert session.happened[-5:] == ["begin", "wait", "wait", "commit", "confirm 540"]
    assert (session.cut.complete, session.cut.end_lsn) == (True, 540)


def test_stop_waits_for_the_end_of_the_open_batch() -> None:
    """Its rows would come again, but so would a backlog for ever."""
    with streamed() as session:
        session.feed(BEGIN, insert(1), COMMIT)
        session.rest()

    assert session.happened[-2:] == ["commit", "confirm 540"]


def test_transaction_that_is_done_ends_no_lsn_when_it_comes_again() -> None:
    """I4: it may lie behind what its cut ended."""
    with streamed(replace(COPIED, done=Lsn(501), end_lsn=Lsn(501))) as session:
        session.feed(BEGIN, insert(1), COMMIT)
        session.rest()

    assert session.kafka.batches == []


def test_transaction_that_is_done_counts_in_no_cut() -> None:
    """I4: what its cut said of it was said then."""
    with streamed(replace(COPIED, done=Lsn(501), end_lsn=Lsn(501)), messages=True) as session:
        session.feed(message(490, transactional=False), BEGIN, insert(1), COMMIT)
        session.rest()

    assert (session.cut.transactions, session.cut.commit_lsn) == (0, None)


def test_keepalive_that_asks_for_an_answer_ends_batch_and_lsn_between_transactions() -> None:
    with streamed() as session:
        session.feed(BEGIN, insert(1), COMMIT)
        session.hear(600, reply_requested=True)

    assert [event for event in session.happened if event.startswith("confirm")] == ["confirm 540"]
    assert session.cut.end_lsn == 540


def test_keepalive_that_asks_for_no_answer_has_one_soon_all_the_same() -> None:
    """Until 12 the server would say nothing of an idle source before the next status is due anyway."""
    with streamed() as session:
        session.hear(600)

        assert session.kept_stream.owed_s == REPLY_INTERVAL_S


def test_every_kind_of_change_takes_its_ordinals() -> None:
    """I4: a change of key is two events, a truncate one for each table."""
    new_key = Update(ORDERS, tuple_data(b"1", b"x"), None, tuple_data(b"9", b"note"))
    with streamed() as session:
        session.feed(BEGIN, insert(1), new_key, Truncate(False, False, (ORDERS, ITEMS)))
        session.feed(Delete(ORDERS, tuple_data(b"2", b"x"), None), insert(3), insert(4), COMMIT)
        session.rest()

    assert [(event[0], event[1], event[4]) for event in session.events] == [
        ("orders", "c", 0), ("orders", "d", 1), ("orders", "c", 2), ("orders", "t", 3), ("items", "t", 4),
        ("orders", "d", 5), ("orders", "c", 6), ("orders", "c", 7),
    ]  # fmt: skip


def test_versions_and_truncates_have_barriers_where_they_begin() -> None:
    """No fold may cross them."""
    with streamed() as session:
        session.feed(BEGIN, insert(1), insert(2), Truncate(False, False, (ORDERS,)), insert(3), COMMIT)
        session.rest()

    (changes,) = session.cut.tables
    assert changes.barriers == (
        Barrier("shape", Position(Lsn(500), 0), changes.schema_ids[0]),
        Barrier("truncate", Position(Lsn(500), 2)),
    )


def test_version_that_comes_within_a_transaction_begins_with_its_next_row() -> None:
    """Also for the rows that go the short way, as do those of a version that has as many columns."""
    id_column, note = relation().columns
    renamed, wider = (replace(note, name=name) for name in ("remark", "more"))
    row = Insert(ORDERS, tuple_data(b"2", b"note", b"more"))
    with streamed() as session:
        session.feed(BEGIN, insert(1), insert(1), replace(relation(), columns=(id_column, renamed)))
        session.feed(insert(2), insert(2), relation(ORDERS, wider), row, row, COMMIT)
        session.rest()

    (changes,) = session.cut.tables
    assert [barrier.position.ordinal for barrier in changes.barriers] == [0, 2, 4]
    assert len(changes.schema_ids) == 3


def test_table_is_left_at_an_update_without_its_old_row_under_full_identity_on_the_short_way_too() -> None:
    """I6, I8: its partition has another identity, and a key that changed would leave its old row behind."""
    with streamed() as session:
        session.feed(BEGIN, relation(ORDERS, identity="f"), insert(1), insert(2))
        session.feed(Update(ORDERS, None, None, tuple_data(b"3", b"note")), insert(4), insert(5, ITEMS), COMMIT)
        session.rest()

    assert [event[2] for event in session.events] == [1, 2, 5]
    left = session.last.progress.tables[ORDERS]
    assert (left.state, left.since) == (STALE, 500)
    assert "without its old row" in str(left.why)


def split_of(*changes: Message, ordinal: int) -> Split:
    """What is published of the transaction, after these changes."""
    tracker = TransactionTracker(Lsn(0), None, XLOG_DATA_HEADER_BYTES)
    transaction = tracker.begin(BEGIN)
    for change in changes:
        tracker.receive_change(xlog_data(encode_message(change)))
    transaction.ordinal = ordinal
    return tracker.split()


def test_transaction_that_exceeds_a_batch_is_split_and_complete_with_its_last_part() -> None:
    """I1, I4, I9"""
    rows = [insert(n) for n in range(5)]
    with streamed(rows_max=2) as session:
        session.feed(BEGIN, *rows)
        assert [batch.progress.split for batch in session.kafka.batches] == [
            split_of(*rows[:count], ordinal=count) for count in (2, 4)
        ]
        assert not any(event.startswith("confirm") for event in session.happened)
        session.feed(COMMIT)
        session.rest()

    assert [batch.cut.complete for batch in session.kafka.batches if batch.cut] == [False, False, True]
    assert [event[2] for event in session.events] == [0, 1, 2, 3, 4]
    assert session.happened[-1] == "confirm 540"


BLOCKS = Topics(transaction_block=True)
MIXED = (
    insert(1),
    insert(2, ITEMS),
    insert(3),
    Update(ORDERS, tuple_data(b"3", Unsent.NULL), None, tuple_data(b"4", b"moved")),
    Truncate(False, False, (ORDERS, ITEMS)),
    insert(5, ITEMS),
    insert(6),
)


def test_events_tell_their_transaction_and_their_number_in_it_and_in_their_table() -> None:
    """As Debezium counts: a key that changes is two events, and a truncate one of each table."""
    with streamed(topics=BLOCKS) as session:
        session.feed(BEGIN, *MIXED, COMMIT)
        session.feed(Begin(Lsn(540), 7, 78), insert(9), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    told = [
        block and (block["id"], block["total_order"], block["data_collection_order"]) for block in session.transactions
    ]
    orders = [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 2), (8, 3), (9, 6)]
    assert told == [*(("77:500", *each) for each in orders), ("78:540", 1, 1)]


@pytest.mark.parametrize("rows_max", range(1, 9))
def test_events_behind_a_restart_inside_their_transaction_are_counted_on(rows_max: int) -> None:
    """I4: through the record of progress, wherever the transaction was split."""
    with streamed(topics=BLOCKS) as whole:
        whole.feed(BEGIN, *MIXED, COMMIT)
        whole.rest()
    with streamed(topics=BLOCKS, rows_max=rows_max) as before:
        before.feed(BEGIN, *MIXED)
    first = before.kafka.batches[0]
    assert first.progress.split is not None
    left = read_progress(first.progress)
    with streamed(replace(left, tables=COPIED.tables), topics=BLOCKS) as behind:
        behind.feed(BEGIN, *MIXED, COMMIT)
        behind.rest()

    published = len(first.rows)
    assert before.transactions[:published] + behind.transactions == whole.transactions


def test_events_behind_a_part_that_was_not_counted_tell_no_transaction() -> None:
    """The setting was turned on between: a wrong number would look like a right one."""
    with streamed(rows_max=2) as before:
        before.feed(BEGIN, *MIXED)
    left = read_progress(before.kafka.batches[0].progress)
    with streamed(replace(left, tables=COPIED.tables), topics=BLOCKS) as behind:
        behind.feed(BEGIN, *MIXED, COMMIT)
        behind.feed(Begin(Lsn(540), 7, 78), insert(9), Commit(Lsn(540), Lsn(580), 7))
        behind.rest()

    *of_it, after = behind.transactions
    assert set(map(bool, of_it)) == {False}
    assert after == {"id": "78:540", "total_order": 1, "data_collection_order": 1}


TOLD = Topics(transaction_topic=True)


def begin_of(an_id: str, ts_ms: int = 0) -> dict[str, Any]:
    return {"status": "BEGIN", "id": an_id, "ts_ms": ts_ms, "event_count": None, "data_collections": None}


def end_of(an_id: str, **counts: int) -> dict[str, Any]:
    collections = [{"data_collection": f"public.{name}", "event_count": count} for name, count in counts.items()]
    return begin_of(an_id) | {"status": "END", "event_count": sum(counts.values()), "data_collections": collections}


def test_begin_and_end_of_transactions_are_told_with_counts_if_asked_for() -> None:
    """As Debezium counts: a key that changes is two events, a truncate one of each table. One without events is not
    told."""
    with streamed(topics=TOLD) as session:
        session.feed(BEGIN, *MIXED, COMMIT)
        session.feed(Begin(Lsn(540), 7, 78), Commit(Lsn(540), Lsn(580), 7))
        session.feed(Begin(Lsn(580), 7, 79), insert(9), Commit(Lsn(580), Lsn(600), 7))
        session.rest()

    first, second = "77:500", "79:580"
    told = [begin_of(first), end_of(first, orders=6, items=3), begin_of(second), end_of(second, orders=1)]
    assert told == session.boundaries
    assert session.transactions == [None] * 10
    assert session.last.topics[-2:] == ["p.progress", "p.cuts"]


@pytest.mark.parametrize("rows_max", range(1, 9))
def test_transaction_of_several_batches_begins_and_ends_once_also_behind_a_restart_inside_it(rows_max: int) -> None:
    """I4: through the record of progress, wherever the transaction was split."""
    with streamed(topics=TOLD, rows_max=rows_max) as before:
        before.feed(BEGIN, *MIXED)
    for number, batch in enumerate(before.kafka.batches, 1):
        left = replace(read_progress(batch.progress), tables=COPIED.tables)
        with streamed(left, topics=TOLD, rows_max=rows_max) as behind:
            behind.feed(BEGIN, *MIXED, COMMIT)
            behind.rest()
        committed = [json.loads(value) for each in before.kafka.batches[:number] for _, value in each.told]
        assert committed + behind.boundaries == [begin_of("77:500"), end_of("77:500", orders=6, items=3)]


def test_part_of_a_transaction_that_came_before_it_was_to_be_told_leaves_it_untold() -> None:
    """Its counts would look whole, and be wrong."""
    with streamed(rows_max=2) as before:
        before.feed(BEGIN, *MIXED)
    left = replace(read_progress(before.kafka.batches[0].progress), tables=COPIED.tables)
    with streamed(left, topics=TOLD) as behind:
        behind.feed(BEGIN, *MIXED, COMMIT)
        behind.feed(Begin(Lsn(540), 7, 78), insert(9), Commit(Lsn(540), Lsn(580), 7))
        behind.rest()

    assert behind.boundaries == [begin_of("78:540"), end_of("78:540", orders=1)]


def test_part_of_which_events_were_counted_without_its_begin_has_begin_and_end_later() -> None:
    with streamed(topics=BLOCKS, rows_max=2) as before:
        before.feed(BEGIN, *MIXED)
    left = replace(read_progress(before.kafka.batches[0].progress), tables=COPIED.tables)
    with streamed(left, topics=TOLD) as behind:
        behind.feed(BEGIN, *MIXED, COMMIT)
        behind.rest()

    assert behind.boundaries == [begin_of("77:500"), end_of("77:500", orders=6, items=3)]


def test_many_small_transactions_that_are_told_fill_a_batch() -> None:
    """I9: what is told of them waits in memory until the batch ends."""
    with streamed(topics=TOLD, bytes_max=2_000) as session:
        for n in range(100):
            lsn = Lsn(1000 + 40 * n)
            session.feed(Begin(lsn, 7, 100 + n), insert(n), Commit(lsn, Lsn(lsn + 40), 7))
        session.rest()

    assert max(sum(len(value) for _, value in batch.told) for batch in session.kafka.batches) < 2_500
    assert len(session.boundaries) == 200


def read_progress(progress: Progress) -> Progress:
    """As another process reads it; without tables."""
    return decode_progress(encode_progress(replace(progress, tables={})))


def test_split_of_a_transaction_whose_last_change_ended_a_part_ends_with_its_commit() -> None:
    """I8: no cut is complete before."""
    with streamed(rows_max=2) as session:
        session.feed(BEGIN, insert(1), insert(2), COMMIT)
        session.rest()

    assert [(b.cut.complete, b.cut.end_lsn, b.progress.split is None) for b in session.kafka.batches if b.cut] == [
        (False, 200, False),
        (True, 540, True),
    ]


def test_keepalive_from_before_a_commit_takes_nothing_back() -> None:
    """It tells how far the server had decoded when it was sent."""
    with streamed() as session:
        session.feed(BEGIN, insert(1), COMMIT)
        session.hear(230)
        session.rest()

    assert session.happened[-1] == "confirm 540"


def test_origin_of_a_transaction_is_told_with_its_rows_and_with_no_later_ones() -> None:
    with streamed() as session:
        session.feed(BEGIN, Origin(Lsn(77), "elsewhere"), insert(1), insert(2), insert(3), COMMIT)
        session.feed(Begin(Lsn(540), 7, 78), insert(4), insert(5), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert session.origins == [("elsewhere", 77)] * 3 + [(None, None)] * 2


def test_origin_without_a_name_comes_as_nothing_from_12_and_13() -> None:
    """As of a transaction that makes its origin itself."""
    with streamed() as session:
        session.feed(BEGIN, b"", insert(1), COMMIT)
        session.rest()

    assert session.origins == [(None, None)]
    assert session.happened[-1] == "confirm 540"


def test_half_published_transaction_goes_on_behind_what_was_published() -> None:
    """I4"""
    rows = [insert(n) for n in range(4)]
    with streamed(replace(COPIED, done=Lsn(230), split=split_of(*rows[:3], ordinal=3))) as session:
        session.feed(BEGIN, *rows, COMMIT)
        session.rest()

    assert session.events == [("orders", "c", 3, 500, 3)]
    assert session.last.progress.split is None


def test_transactions_left_out_before_a_split_one_are_done_with_its_first_part() -> None:
    """I4: they may not come between its parts after a restart."""
    with streamed(rows_max=2) as session:
        session.feed(BEGIN, insert(1), insert(2))

    assert (session.last.progress.done, session.last.progress.end_lsn) == (220, 200)


def test_table_that_departed_is_not_followed_again_when_it_is_announced_again() -> None:
    """I7: it came back into the publication, and what changed meanwhile never came."""
    with streamed() as session:
        session.kept_watch.leaving = {ORDERS: 300}
        session.hear(300)
        session.session._cuts.idle_cut(is_requested=True)
        assert session.last.progress.relation_ids == (ITEMS,)
        session.feed(BEGIN, relation(ORDERS), insert(1), insert(2, ITEMS), COMMIT)
        session.rest()

    assert session.events == [("items", "c", 2, 500, 0)]
    table = session.last.progress.tables[ORDERS]
    assert (table.state, table.since, table.why) == ("stale", 500, "back in the publication after it left")


def test_what_still_comes_of_a_table_that_is_gone_is_left_out() -> None:
    """I8: it was altered before it was dropped, and nobody knows how. No copy is wanted of it."""
    with streamed() as session:
        session.kept_watch.leaving, session.kept_watch.missing_in_catalogue = {ORDERS: 0}, {ORDERS}
        session.hear(300)
        session.session._cuts.idle_cut(is_requested=True)
        session.feed(BEGIN, relation(ORDERS), insert(1), insert(2, ITEMS), COMMIT)
        session.rest()

    assert session.events == [("items", "c", 2, 500, 0)]
    assert session.last.progress.tables[ORDERS].state == "dropped"


def test_table_that_departed_is_not_written_the_short_way_either() -> None:
    """I7"""
    with streamed() as session:
        session.feed(BEGIN, insert(1), insert(2), COMMIT)
        session.rest()
        session.kept_watch.leaving = {ORDERS: 600}
        session.hear(600)
        session.session._cuts.idle_cut(is_requested=True)

        session.feed(Begin(Lsn(700), 7, 79), insert(3), Commit(Lsn(700), Lsn(740), 7))
        session.hear(760)
        session.session._cuts.idle_cut(is_requested=True)

    assert [event[:3] for event in session.events] == [("orders", "c", 1), ("orders", "c", 2)]
    assert session.last.progress.tables[ORDERS].state == "stale"


def message(lsn: int, *, transactional: bool) -> LogicalMessage:
    return LogicalMessage(transactional, Lsn(lsn), "app", b"content")


def test_message_of_a_transaction_takes_an_ordinal() -> None:
    """I4"""
    with streamed(messages=True) as session:
        session.feed(BEGIN, insert(1), message(450, transactional=True), insert(2), COMMIT)
        session.rest()

    assert [(event[1], event[3], event[4]) for event in session.events] == [("c", 500, 0), ("m", 500, 1), ("c", 500, 2)]


def test_message_outside_of_transactions_ends_an_lsn_and_is_published_once() -> None:
    """I4"""
    with streamed(messages=True) as session:
        for _ in range(2):
            session.feed(message(450, transactional=False))
        session.rest()

    assert [(event[1], event[3], event[4]) for event in session.events] == [("m", 450, -1)]
    assert (session.cut.end_lsn, session.last.progress.last_message_lsn) == (450, 450)


def test_message_that_comes_within_an_open_transaction_ends_no_lsn() -> None:
    """I1: what committed before the transaction's end is not all there yet."""
    with streamed(messages=True) as session:
        session.feed(BEGIN, insert(1), message(450, transactional=False))
        batch: OpenedBatch = session.out.batch

        assert (batch.end_lsn, batch.last_message_lsn) == (None, 450)
