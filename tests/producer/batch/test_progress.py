"""What a batch adds up to: its cut, the progress after it, what may be confirmed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.streaming_progress import OPTIONS, SPLIT, STREAMING, current, whole
from walbridge.producer.batch.progress import ALL_TABLES_CUTS, Batch, ProgressTracker
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges, chain_break
from walbridge.schemas.control.progress_record import (
    MESSAGE_PREFIXES_OPTION,
    Split,
    last_commit,
    last_commit_option,
    read_back,
)
from walbridge.schemas.control.table_progress import DROPPED, FORMAT_VERSION, TableProgress
from walbridge.schemas.position import Lsn, Position

RANGES = [PartitionRange("p.public.orders", 0, 10, 12, 2)]


def batch(end_lsn: int | None, transactions: int = 1) -> Batch:
    """A batch of one table; ``end_lsn`` of its last whole transaction."""
    made = Batch(transactions=transactions, commit_lsn=Lsn(300), commit_time_us=7)
    made.end_lsn = None if end_lsn is None else Lsn(end_lsn)
    entry = made.table(16_384, "p.public.orders")
    entry.row_count = 2
    entry.schema_ids.append("00" * 8)
    entry.barriers.append(Barrier("truncate", Position(Lsn(300), 0)))
    return made


def test_cut_of_a_whole_batch_goes_to_the_end_of_its_last_transaction() -> None:
    progress, cut = ProgressTracker(STREAMING).close(batch(320), RANGES, 9, None, 55)

    assert cut == Cut(
        epoch=Epoch("7000000000000000001", 1, "walbridge", 100), cut_id=5, previous_end_lsn=200, end_lsn=320,
        commit_lsn=300, commit_time_us=7, transactions=1, complete=True, metadata_end_offset=9,
        partitions=tuple(RANGES),
        tables=(
            TableChanges(
                16_384, "p.public.orders", ("00" * 8,), 2, (Barrier("truncate", Position(Lsn(300), 0)),)
            ),
        ),
    )  # fmt: skip
    options = OPTIONS | last_commit_option(Lsn(300), 7)
    assert progress == replace(
        STREAMING, cut_id=5, end_lsn=Lsn(320), done=Lsn(320), floor=Lsn(320), options=options, written_at_us=55
    )


@pytest.mark.parametrize("split", [None, SPLIT], ids=["idle", "split"])
def test_last_commit_stays_where_a_batch_ends_no_transaction(split: Split | None) -> None:
    tracker = ProgressTracker(STREAMING)
    tracker.committed(tracker.close(batch(320), RANGES, 9, None, 55)[0])

    progress, _ = tracker.close(Batch() if split is None else batch(None, 0), RANGES, 9, split, 56)

    assert last_commit(progress) == (300, 7)


def test_nothing_is_confirmable_before_kafka_has_committed_it() -> None:
    """I1"""
    tracker = ProgressTracker(STREAMING)
    progress, _ = tracker.close(batch(320), RANGES, 9, None, 55)
    before = tracker.confirmable_lsn
    tracker.committed(progress)

    assert (before, tracker.confirmable_lsn) == (200, 320)


def test_batch_that_ends_inside_a_transaction_ends_no_lsn() -> None:
    """I1: what is confirmed, and where the next session begins, stays before the split one."""
    progress, cut = ProgressTracker(STREAMING).close(batch(None, 0), RANGES, 9, SPLIT, 55)

    assert (cut.complete, cut.previous_end_lsn, cut.end_lsn) == (False, 200, 200)
    assert (progress.end_lsn, progress.done, progress.floor, progress.split) == (200, 200, 200, SPLIT)


def test_whole_transactions_before_a_split_one_in_the_same_batch_are_done_but_end_no_lsn() -> None:
    """I4: they are skipped when the stream comes again from the floor; no cut ends between them."""
    tracker = ProgressTracker(STREAMING)
    progress, cut = tracker.close(batch(320), RANGES, 9, SPLIT, 55)
    tracker.committed(progress)

    assert (cut.complete, cut.end_lsn) == (False, 200)
    assert (progress.done, progress.floor, progress.end_lsn) == (320, 200, 200)
    assert tracker.confirmable_lsn == 200


def test_last_part_of_a_split_transaction_is_complete_and_forgets_the_split() -> None:
    tracker = ProgressTracker(STREAMING)
    first, cut = tracker.close(batch(320), RANGES, 9, SPLIT, 55)
    tracker.committed(first)
    second, next_cut = tracker.close(batch(540), RANGES, 9, None, 56)

    assert (next_cut.complete, next_cut.previous_end_lsn, next_cut.end_lsn) == (True, 200, 540)
    assert (second.done, second.floor, second.split) == (540, 540, None)
    assert chain_break(cut, next_cut) is None


def test_idle_cut_moves_the_lsn_on_without_tables() -> None:
    progress, cut = ProgressTracker(STREAMING).close(Batch(end_lsn=Lsn(900)), (), 9, None, 55)

    assert (cut.complete, cut.previous_end_lsn, cut.end_lsn, cut.tables, cut.partitions) == (True, 200, 900, (), ())
    assert (cut.commit_lsn, cut.transactions, progress.floor, progress.done) == (None, 0, 900, 900)


def test_end_never_moves_back() -> None:
    progress, cut = ProgressTracker(STREAMING).close(batch(150), RANGES, 9, None, 55)

    assert (cut.end_lsn, progress.end_lsn, progress.done, progress.floor) == (200, 200, 200, 200)


COPYING = replace(STREAMING, state="copying", cut_id=0, tables={}, end_lsn=Lsn(100), done=Lsn(100))


def test_cut_inside_a_copy_is_incomplete_and_moves_nothing() -> None:
    progress, cut = ProgressTracker(COPYING).close_copy(batch(None, 0), RANGES, 9, 55)

    assert (cut.complete, cut.cut_id, cut.previous_end_lsn, cut.end_lsn) == (False, 1, 100, 100)
    assert progress == replace(COPYING, cut_id=1, written_at_us=55)


def test_last_cut_of_a_copy_is_complete_and_begins_the_stream() -> None:
    """The same Kafka transaction: no start can find a whole copy without its progress."""
    progress, cut = ProgressTracker(COPYING).close_copy(batch(None, 0), RANGES, 9, 55, [7, 8])

    assert (cut.complete, cut.end_lsn) == (True, 100)
    assert (progress.state, progress.relation_ids, progress.floor) == ("streaming", (7, 8), COPYING.floor)


@given(st.lists(st.tuples(st.sampled_from(["whole", "split", "idle"]), st.integers(1, 50)), max_size=20))
def test_any_batches_make_an_unbroken_chain_that_confirms_only_whole_transactions(
    batches: list[tuple[str, int]],
) -> None:
    """I1"""
    start = replace(STREAMING, cut_id=0)
    tracker, position, previous, whole = ProgressTracker(start), 200, None, 200
    for kind, step in batches:
        position += step
        if kind == "idle":
            progress, cut = tracker.close(Batch(end_lsn=Lsn(position)), (), 0, None, 0)
        else:
            split = replace(SPLIT, commit_lsn=Lsn(position + 1000)) if kind == "split" else None
            progress, cut = tracker.close(batch(position), RANGES, 0, split, 0)
        tracker.committed(progress)
        if kind != "split":
            whole = position
        assert chain_break(previous, cut) is None
        assert cut.complete is (kind != "split")
        assert tracker.confirmable_lsn == tracker.end_lsn == cut.end_lsn == whole
        assert progress.done == position
        previous = cut


@pytest.mark.parametrize("counts", [(), (0,), (3, 1)])
def test_barriers_are_counted_per_table(counts: tuple[int, ...]) -> None:
    made = Batch()
    for relation_id, count in enumerate(counts):
        for n in range(count):
            made.add_barrier(relation_id, "t", Barrier("truncate", Position(Lsn(1), n)))

    assert made.barriers_max == max(counts, default=0)


@pytest.mark.parametrize(
    ("floor_max", "floor"),
    [(None, 320), (Lsn(400), 320), (Lsn(250), 250), (Lsn(100), 200)],
    ids=["nothing holds it", "nothing below", "a prepare", "one older than the slot: the floor never goes back"],
)
def test_floor_stays_below_what_must_come_again_while_cuts_go_on(floor_max: Lsn | None, floor: int) -> None:
    """I1"""
    tracker = ProgressTracker(STREAMING)
    tracker.floor_max = floor_max
    progress, cut = tracker.close(batch(320), RANGES, 9, None, 55)

    assert (progress.floor, progress.done, cut.end_lsn) == (floor, 320, 320)


def test_what_is_confirmed_is_the_floor_and_not_the_end_of_the_cut() -> None:
    """I1: a prepared transaction behind the floor must come again."""
    tracker = ProgressTracker(STREAMING)
    tracker.floor_max = Lsn(250)
    progress, _ = tracker.close(batch(320), RANGES, 9, None, 55)
    tracker.committed(progress)

    assert (tracker.confirmable_lsn, tracker.end_lsn) == (250, 320)


def test_table_that_departed_in_a_batch_is_followed_no_more_by_progress() -> None:
    """I7: no later session takes its changes for those of a table with a copy."""
    left = batch(320)
    left.dropped[16_384] = TableProgress(16_384, DROPPED, since=Lsn(320))
    progress, _ = ProgressTracker(replace(STREAMING, tables=current(16_384, 16_390))).close(left, RANGES, 9, None, 55)

    assert progress.relation_ids == (16_390,)
    assert progress.tables[16_384].since == 320


def test_options_that_are_asked_for_no_more_are_not_carried_on() -> None:
    before = {"origin": "none", MESSAGE_PREFIXES_OPTION: "[]", "walbridge.timeline": "2"}
    tracker = ProgressTracker(replace(STREAMING, options=OPTIONS | before))

    tracker.remember_stream_options(OPTIONS)

    assert tracker.progress.options == OPTIONS | {"walbridge.timeline": "2"}


def test_last_message_outside_of_transactions_is_kept_until_a_later_one() -> None:
    """I4: Postgres sends those again that come behind the floor."""
    tracker = ProgressTracker(STREAMING)
    told, _ = tracker.close(Batch(last_message_lsn=Lsn(280), end_lsn=Lsn(280)), (), 0, None, 0)
    tracker.committed(told)

    later, cut = tracker.close(Batch(), (), 0, None, 0)

    assert (told.last_message_lsn, later.last_message_lsn) == (280, 280)
    assert (cut.complete, cut.end_lsn) == (True, told.end_lsn)


def test_cut_writes_the_slots_record_and_those_of_tables_that_changed() -> None:
    """A pipeline of thousands of tables writes no more with a cut than one of a few."""
    tracker = ProgressTracker(replace(STREAMING, tables=current(*range(1, 2001))))
    left = batch(320)
    left.dropped[7] = TableProgress(7, DROPPED, since=Lsn(320))
    counts = []
    for made in (batch(310), left, batch(330)):
        progress, _ = tracker.close(made, RANGES, 9, None, 55)
        counts.append([key for key, _ in tracker.records(progress)])
        tracker.committed(progress)

    assert counts == [[b"walbridge"], [b"walbridge/7", b"walbridge"], [b"walbridge"]]


def test_table_of_a_commit_that_failed_is_written_with_the_next_one() -> None:
    tracker = ProgressTracker(replace(STREAMING, tables=current(7, 8)))
    tracker.remember_tables({7: TableProgress(7, DROPPED)})

    for _ in range(2):
        progress, _ = tracker.close(batch(310), RANGES, 9, None, 55)
        assert [key for key, _ in tracker.records(progress)] == [b"walbridge/7", b"walbridge"]


def test_tables_of_a_copy_that_begins_again_are_removed() -> None:
    """What is read back is what this copy knows."""
    tracker = ProgressTracker(replace(COPYING, tables=current(7, 8)))
    anew = replace(COPYING, state="creating", tables={})

    removed = [(b"walbridge/7", None), (b"walbridge/8", None)]
    assert sorted(tracker.records(anew)[:-1]) == removed
    assert read_back("walbridge", reversed([*whole(tracker.progress), *tracker.records(anew)])) == anew


def test_progress_of_format_1_is_written_whole_with_the_next_cut() -> None:
    """No start finds half of it: all is in one Kafka transaction."""
    tracker = ProgressTracker(replace(STREAMING, tables=current(7, 8), format_version=1))
    progress, _ = tracker.close(batch(310), RANGES, 9, None, 55)
    records = tracker.records(progress)

    assert progress.format_version == FORMAT_VERSION
    assert [key for key, _ in records] == [b"walbridge/7", b"walbridge/8", b"walbridge"]
    assert read_back("walbridge", reversed(records)) == progress
    tracker.committed(progress)
    assert len(tracker.records(tracker.close(batch(320), RANGES, 9, None, 55)[0])) == 1


def test_all_tables_are_written_again_after_many_cuts() -> None:
    """A start reads no further back, though Kafka compacts only what is not being written to."""
    near = replace(STREAMING, tables=current(7, 8), cut_id=ALL_TABLES_CUTS - 2)
    tracker = ProgressTracker(near)
    counts = []
    for _ in range(3):
        progress, _ = tracker.close(batch(310), RANGES, 9, None, 55)
        counts.append(len(tracker.records(progress)))
        tracker.committed(progress)

    assert counts == [1, 3, 1]
