"""Plans: which cuts go into one, and where it ends."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import EPOCH, HEAD, at, changes, cut, numbered, part
from walbridge.schemas.control.cut import Barrier, PartitionRange
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.spark_consumer.plan.cut_faults import cut_fault
from walbridge.spark_consumer.plan.plan import SEGMENTS_MAX, TXN_STRIDE, ByteLimit, make_plan, take_cuts


def test_a_plan_takes_at_least_one_cut_however_large() -> None:
    assert take_cuts(numbered(cut(1, parts=[part(0, 50)]), cut(2, parts=[part(51, 60)])), 10) == 1


def test_a_plan_stops_before_the_cut_that_exceeds_its_rows() -> None:
    cuts = numbered(*(cut(n, parts=[part(10 * n, 10 * n + 5)]) for n in range(1, 5)))

    assert take_cuts(cuts, 10) == 2


def test_a_plan_stops_before_the_cut_with_which_its_records_may_exceed_a_disk() -> None:
    """I9: nobody knows how large they are, but no cut holds more than a Kafka transaction may, and no record more than
    is held of one."""
    large = numbered(*(cut(n, parts=[part(10 * n, 10 * n + 5)]) for n in range(1, 5)))
    small = numbered(*(cut(n, parts=[part(n, n + 1)]) for n in range(1, 5)))

    limit = ByteLimit(plan=300, cut=150, row=100)
    assert take_cuts(large, 100, limit) == 2
    assert take_cuts(small, 100, limit) == 3
    assert take_cuts(large, 100, replace(limit, plan=1)) == 1


def test_a_plan_ends_with_its_epoch() -> None:
    assert take_cuts(numbered(cut(1), cut(2), cut(1, epoch=EPOCH._replace(consistent_point=500))), 10) == 2


def test_a_plan_of_several_cuts_has_a_bounded_number_of_segments() -> None:
    cuts = numbered(*(cut(n, changes(Barrier("shape", at(n), f"v{n}"))) for n in range(1, 40)))

    taken = take_cuts(cuts, 1000)

    assert taken == SEGMENTS_MAX - 1
    assert len(make_plan(cuts[:taken], {1: HEAD}).tables[0].segments) == SEGMENTS_MAX


def test_one_cut_may_hold_more_segments_and_their_transactions_never_meet_the_next_plans() -> None:
    """I5: a transaction version used twice would skip a segment without a word."""
    shapes = [Barrier("shape", at(n), f"v{n}") for n in range(100)]
    plan = make_plan(numbered(cut(7, changes(*shapes))), {1: HEAD})

    assert plan.txn_version(plan.tables[0].segments[-1].index) < 8 * TXN_STRIDE


def test_transactions_of_a_plan_come_after_all_of_the_plan_before() -> None:
    """I5: versions that meet would take a segment for done that is not."""
    cuts = (cut(n, changes(*[Barrier("shape", at(100 * n + at_), "v2") for at_ in range(9)])) for n in (7, 8))
    plans = [make_plan(numbered(each), {1: HEAD}) for each in cuts]

    versions = [plan.txn_version(segment.index) for plan in plans for segment in plan.tables[0].segments]

    assert versions == sorted(set(versions))


def test_a_table_of_more_segments_than_transactions_is_left() -> None:
    """I5: the versions of the next plan would be used already."""
    shapes = [Barrier("shape", at(n), "v2") for n in range(TXN_STRIDE)]

    (trouble,) = make_plan(numbered(cut(7, changes(*shapes))), {1: HEAD}).troubles

    assert "changes the shape of the table of topic p.a 4097 times" in trouble.why


@given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 9)), min_size=1, max_size=4))
def test_a_plan_is_at_its_end_what_its_last_cut_is(ends: list[tuple[bool, int | None]]) -> None:
    """I8: with the end of an earlier cut, half a transaction would be published as a whole one."""
    cuts = [
        cut(n, complete=complete, commit_time_us=time, end_lsn=100 * n, metadata_end_offset=n)
        for n, (complete, time) in enumerate(ends, 1)
    ]
    plan = make_plan(numbered(*cuts), {})

    assert (plan.complete, plan.end_lsn) == (ends[-1][0], 100 * len(ends))
    assert (plan.from_cut, plan.to_cut, plan.metadata_end_offset) == (1, len(ends), len(ends))
    assert plan.next_offset == numbered(*cuts)[-1][0] + 1
    assert plan.commit_time_us == next((time for _, time in reversed(ends) if time is not None), None)


def test_ranges_of_consecutive_cuts_are_joined_and_their_records_added() -> None:
    plan = make_plan(numbered(cut(1, parts=[part(0, 5)]), cut(2, parts=[part(6, 9), part(0, 1, partition=1)])), {})

    assert plan.ranges == {
        ("p.a", 0): PartitionRange("p.a", 0, 0, 9, 8),
        ("p.a", 1): PartitionRange("p.a", 1, 0, 1, 1),
    }
    assert plan.rows == 9
    assert plan.next_offset == 3


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(1, 60))
def test_plans_take_every_cut_once_and_in_order(rows: list[int], rows_max: int) -> None:
    cuts = numbered(*(cut(n, parts=[part(100 * n, 100 * n + count)]) for n, count in enumerate(rows, 1)))
    taken: list[int] = []
    while cuts:
        count = take_cuts(cuts, rows_max)
        plan = make_plan(cuts[:count], {})
        assert plan.rows <= rows_max or count == 1
        taken += range(plan.from_cut, plan.to_cut + 1)
        cuts = cuts[count:]

    assert taken == list(range(1, len(rows) + 1))


def test_logical_messages_are_counted_in_a_cut_and_left_out_of_its_plan() -> None:
    """I7: they are of no table, and nothing is missing."""
    messages = changes(rows=3, relation_id=MESSAGES_RELATION_ID, topic="p.messages")
    ranges = part(0, 2), part(7, 10, "p.messages")
    told = cut(1, changes(rows=2), messages, parts=ranges)
    assert cut_fault(cut(0), told) is None
    assert cut_fault(cut(0), replace(told, tables=told.tables[:1])) is not None

    plan = make_plan(numbered(told), {1: HEAD})

    assert [table.relation_id for table in plan.tables] == [1]
    assert plan.ranges.keys() == {("p.a", 0)}
    assert plan.rows == 2


def test_logical_messages_take_no_place_in_a_plan() -> None:
    messages = changes(rows=50, relation_id=MESSAGES_RELATION_ID, topic="p.messages")
    chatty = [cut(n, messages, parts=[part(50 * n, 50 * n + 50, "p.messages")]) for n in range(1, 4)]

    assert take_cuts(numbered(*chatty), rows_max=60) == 3
