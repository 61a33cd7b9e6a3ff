"""What a batch adds up to: its cut, the progress after it, what may be confirmed; guards at start."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.postgres.facts import ServerIdentity, SlotState
from producer.progress import Batch, ProgressTracker
from producer.start_guards import refuse_bad_start, refuse_foreign_slot
from schemas.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges, chain_break
from schemas.errors import OperatorError
from schemas.position import Lsn, Position
from schemas.progress_record import MESSAGE_PREFIXES_OPTION, Progress, Split

OPTIONS = {"proto_version": "1", "publication_names": "walbridge"}
STREAMING = Progress(
    "streaming", "7000000000000000001", 1, "walbridge", "shop", consistent_point=Lsn(100), cut_id=4,
    end_lsn=Lsn(200), done=Lsn(200), floor=Lsn(200), relation_ids=(16_384,), options=OPTIONS,
)  # fmt: skip
SPLIT = Split(Lsn(500), 77, 3, 4, "00")
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
    assert progress == replace(STREAMING, cut_id=5, end_lsn=Lsn(320), done=Lsn(320), floor=Lsn(320), written_at_us=55)


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
    progress, cut = ProgressTracker(STREAMING).close_idle(Lsn(900), 9, 55)

    assert (cut.complete, cut.previous_end_lsn, cut.end_lsn, cut.tables, cut.partitions) == (True, 200, 900, (), ())
    assert (cut.commit_lsn, cut.transactions, progress.floor, progress.done) == (None, 0, 900, 900)


def test_end_never_moves_back() -> None:
    progress, cut = ProgressTracker(STREAMING).close(batch(150), RANGES, 9, None, 55)

    assert (cut.end_lsn, progress.end_lsn, progress.done, progress.floor) == (200, 200, 200, 200)


COPYING = replace(STREAMING, state="copying", cut_id=0, relation_ids=(), end_lsn=Lsn(100), done=Lsn(100))


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
            progress, cut = tracker.close_idle(Lsn(position), 0, 0)
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


SERVER = ServerIdentity("7000000000000000001", 1, Lsn(1000), "shop", 180006)
SLOT = SlotState("pgoutput", "shop", None, "reserved", Lsn(200), False)


def test_start_where_the_slot_stands_at_what_was_published_is_fine() -> None:
    refuse_bad_start(STREAMING, SERVER, SLOT, OPTIONS)


@pytest.mark.parametrize(
    "slot",
    [
        pytest.param(replace(SLOT, confirmed_flush=Lsn(1)), id="slot behind: its changes are skipped"),
        pytest.param(replace(SLOT, wal_status="extended"), id="WAL beyond max_wal_size"),
        pytest.param(replace(SLOT, wal_status="unreserved"), id="may be lost, is not"),
        pytest.param(replace(SLOT, wal_status=None), id="Postgres 12 has no wal_status"),
        pytest.param(replace(SLOT, active_pid=7), id="held by a session that is ending"),
    ],
)
def test_slot_that_still_has_everything_is_accepted(slot: SlotState) -> None:
    refuse_bad_start(STREAMING, SERVER, slot, OPTIONS)


def test_server_whose_wal_ends_exactly_at_what_was_published_is_accepted() -> None:
    refuse_bad_start(STREAMING, replace(SERVER, wal_end=Lsn(200)), SLOT, OPTIONS)


BAD_STARTS: dict[str, tuple[ServerIdentity, SlotState | None, str]] = {
    "another cluster": (replace(SERVER, system_id="7000000000000000002"), SLOT, "another Postgres cluster"),
    "another database": (replace(SERVER, database="shop2"), replace(SLOT, database="shop2"), "of database shop"),
    "a timeline of another line": (replace(SERVER, timeline=2), SLOT, "does not come from timeline 1"),
    "a standby that lagged by one byte": (
        replace(SERVER, timeline=2, switches={1: Lsn(199)}),
        SLOT,
        "timeline 2 left timeline 1 at 0/C7",
    ),
    "older backup": (replace(SERVER, wal_end=Lsn(199)), SLOT, "WAL ends at 0/C7"),
    "slot gone": (SERVER, None, "slot walbridge is gone"),
    "slot lost": (SERVER, replace(SLOT, wal_status="lost"), "is lost"),
    "another plugin": (SERVER, replace(SLOT, plugin="test_decoding"), "of plugin test_decoding"),
    "slot of another database": (SERVER, replace(SLOT, database="shop2"), "in database shop2"),
    "two_phase": (SERVER, replace(SLOT, two_phase=True), "two_phase"),
    "a gap of one byte": (SERVER, replace(SLOT, confirmed_flush=Lsn(201)), "a gap"),
    "slot half made": (SERVER, replace(SLOT, confirmed_flush=None), "at nowhere"),
}


@pytest.mark.parametrize(("server", "slot", "what"), BAD_STARTS.values(), ids=BAD_STARTS)
def test_start_that_would_lose_or_repeat_changes_is_refused_with_a_remedy(
    server: ServerIdentity, slot: SlotState | None, what: str
) -> None:
    """I7"""
    with pytest.raises(OperatorError, match=what) as refusal:
        refuse_bad_start(STREAMING, server, slot, OPTIONS)

    assert refusal.value.remedy


@pytest.mark.parametrize(
    ("timeline", "switches", "seen"),
    [
        pytest.param(2, {1: Lsn(200)}, None, id="all that was published, and not a byte more"),
        pytest.param(3, {1: Lsn(500), 2: Lsn(600)}, None, id="two failovers at once"),
        pytest.param(3, {1: Lsn(100), 2: Lsn(200)}, "2", id="measured from the timeline that was last followed"),
    ],
)
def test_failover_to_a_primary_that_has_all_that_was_published_is_accepted(
    timeline: int, switches: dict[int, Lsn], seen: str | None
) -> None:
    progress = replace(STREAMING, options=OPTIONS | ({"walbridge.timeline": seen} if seen else {}))
    refuse_bad_start(progress, replace(SERVER, timeline=timeline, switches=switches), SLOT, OPTIONS)


def test_half_published_transaction_that_the_new_primary_lacks_is_refused() -> None:
    """I4: its commit lies behind the switch, so it never happened there."""
    promoted = replace(SERVER, timeline=2, switches={1: Lsn(250)})
    with pytest.raises(OperatorError, match="left timeline 1 at 0/FA"):
        refuse_bad_start(replace(STREAMING, split=replace(SPLIT, commit_lsn=Lsn(251))), promoted, SLOT, OPTIONS)


def test_facts_that_progress_carries_beside_options_are_no_options() -> None:
    progress = replace(STREAMING, split=SPLIT, options=OPTIONS | {"walbridge.publication": "1"})
    refuse_bad_start(progress, SERVER, SLOT, OPTIONS)


def test_gap_is_measured_from_what_is_done_not_from_the_floor() -> None:
    """Whole transactions before a split one are published, though not confirmed by us."""
    progress = replace(STREAMING, done=Lsn(320), split=SPLIT)
    refuse_bad_start(progress, SERVER, replace(SLOT, confirmed_flush=Lsn(320)), OPTIONS)

    with pytest.raises(OperatorError, match="a gap"):
        refuse_bad_start(progress, SERVER, replace(SLOT, confirmed_flush=Lsn(321)), OPTIONS)


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS | {"publication_names": "other"},
        {},
        OPTIONS | {"origin": "none"},
        OPTIONS | {"binary": "true"},
        OPTIONS | {MESSAGE_PREFIXES_OPTION: '["app"]'},
    ],
)
def test_options_that_change_bytes_may_not_change_inside_a_split_transaction(options: dict[str, str]) -> None:
    """I4: the hash of what was published would differ."""
    refuse_bad_start(STREAMING, SERVER, SLOT, options)

    with pytest.raises(OperatorError, match="half published"):
        refuse_bad_start(replace(STREAMING, split=SPLIT), SERVER, SLOT, options)


def test_when_a_transaction_is_sent_may_change_while_it_is_half_published() -> None:
    """An upgraded server streams: the same changes come, sooner."""
    options = OPTIONS | {"proto_version": "2", "streaming": "on"}
    refuse_bad_start(replace(STREAMING, split=SPLIT), SERVER, SLOT, options)


TWO_PHASE = OPTIONS | {"two_phase": "true"}
HELD = replace(STREAMING, done=Lsn(320), floor=Lsn(250), options=TWO_PHASE)
"""A prepare at 250 has no end yet; what committed up to 320 is published."""
HELD_SLOT = replace(SLOT, two_phase=True, confirmed_flush=Lsn(250))


def test_slot_that_stands_at_the_first_prepare_without_an_end_is_accepted() -> None:
    refuse_bad_start(HELD, SERVER, HELD_SLOT, TWO_PHASE)


def test_gap_is_measured_from_the_floor_where_prepared_transactions_come_early() -> None:
    """I7: a prepare that the slot is past does not come again, whatever is done."""
    with pytest.raises(OperatorError, match="a gap"):
        refuse_bad_start(HELD, SERVER, replace(HELD_SLOT, confirmed_flush=Lsn(251)), TWO_PHASE)


@pytest.mark.parametrize(
    ("progress", "slot", "options", "version", "words"),
    [
        (HELD, replace(HELD_SLOT, two_phase=False), TWO_PHASE, 180006, "was made without two_phase"),
        (replace(HELD, options=OPTIONS), HELD_SLOT, TWO_PHASE, 180006, "was made without two_phase"),
        (HELD, HELD_SLOT, OPTIONS, 180006, "ALTER_REPLICATION_SLOT walbridge"),
        (HELD, HELD_SLOT, OPTIONS, 170011, "start over with a new copy"),
    ],
    ids=["the slot is without", "it was set later", "the setting is without", "nobody can clear it before 18"],
)
def test_two_phase_of_slot_progress_and_setting_must_agree(
    progress: Progress, slot: SlotState, options: dict[str, str], version: int, words: str
) -> None:
    """I7: what was prepared before the flag was set has not been sent."""
    with pytest.raises(OperatorError, match=words):
        refuse_bad_start(progress, replace(SERVER, version=version), slot, options)


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


def test_options_that_are_asked_for_no_more_are_not_carried_on() -> None:
    before = {"origin": "none", MESSAGE_PREFIXES_OPTION: "[]", "walbridge.timeline": "2"}
    tracker = ProgressTracker(replace(STREAMING, options=OPTIONS | before))

    tracker.stream_with(OPTIONS)

    assert tracker.progress.options == OPTIONS | {"walbridge.timeline": "2"}


def test_slot_that_our_progress_does_not_know_is_refused() -> None:
    refuse_foreign_slot(None, "walbridge")

    with pytest.raises(OperatorError, match="says nothing of it"):
        refuse_foreign_slot(SLOT, "walbridge")


def test_last_message_outside_of_transactions_is_kept_until_a_later_one() -> None:
    """I4: Postgres sends those again that come behind the floor."""
    tracker = ProgressTracker(STREAMING)
    told, _ = tracker.close(Batch(last_message_lsn=Lsn(280), end_lsn=Lsn(280)), (), 0, None, 0)
    tracker.committed(told)

    later, cut = tracker.close(Batch(), (), 0, None, 0)

    assert (told.last_message_lsn, later.last_message_lsn) == (280, 280)
    assert (cut.complete, cut.end_lsn) == (True, told.end_lsn)
