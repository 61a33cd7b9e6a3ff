"""Plans: which events of which table, in which segments."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.schemas.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.plan.plan import (
    SEGMENTS_MAX,
    SUPERSEDED,
    TXN_STRIDE,
    Segment,
    TableHead,
    TablePlan,
    cut_fault,
    make_plan,
    take_cuts,
)

EPOCH = Epoch("7", 1, "s", 100)
HEAD = TableHead(1, "p.a", "public/a", 5, "v1", "current")


def at(lsn: int, ordinal: int = 0) -> Position:
    return Position(Lsn(lsn), ordinal)


def part(start: int, end: int, topic: str = "p.a", partition: int = 0) -> PartitionRange:
    return PartitionRange(topic, partition, start, end, end - start)


def changes(*barriers: Barrier, rows: int = 0, relation_id: int = 1, topic: str = "p.a") -> TableChanges:
    return TableChanges(relation_id, topic, (), rows, barriers)


def cut(cut_id: int = 1, *tables: TableChanges, parts: Sequence[PartitionRange] = (), **fields: Any) -> Cut:
    plain = Cut(EPOCH, cut_id, 100 + cut_id, 101 + cut_id, None, None, 1, True, 0, tuple(parts), tables)
    return replace(plain, **fields)


def numbered(*cuts: Cut) -> list[tuple[int, Cut]]:
    return [(2 * n, each) for n, each in enumerate(cuts)]


def only_table(*barriers: Barrier, base: TableHead | None = HEAD) -> TablePlan:
    plan = make_plan(numbered(cut(1, changes(*barriers))), {base.relation_id: base} if base else {})
    (table,) = plan.tables
    return table


def test_changes_without_a_barrier_are_one_segment_of_the_tables_own_schema() -> None:
    table = only_table()

    assert table.segments == (Segment(0, "v1", None, None),)
    assert table.state == "current"


def test_a_copy_begins_empty_appends_rows_and_then_takes_changes() -> None:
    table = only_table(Barrier("copy_begin", at(100, -1), "v2"), Barrier("copy_end", at(100)), base=None)

    assert table.segments == (
        Segment(0, "v2", at(100, -1), at(100), empties=True, copies=True),
        Segment(1, "v2", at(100), None),
    )
    assert table.state == "current"


def test_a_copy_that_goes_on_leaves_the_table_copying() -> None:
    table = only_table(Barrier("copy_begin", at(100, -1), "v2"), base=None)

    assert table.segments == (Segment(0, "v2", at(100, -1), None, empties=True, copies=True),)
    assert table.state == "copying"


def test_a_table_that_left_the_publication_is_stale_until_it_is_copied_again() -> None:
    """I8."""
    assert only_table(Barrier("dropped", at(100))).state == "stale"
    again = only_table(
        Barrier("dropped", at(100)), Barrier("copy_begin", at(200, -1), "v2"), Barrier("copy_end", at(200))
    )
    assert again.state == "current"


def test_a_plan_within_a_copy_appends() -> None:
    table = only_table(base=replace(HEAD, state="copying"))

    assert table.segments == (Segment(0, "v1", None, None, copies=True),)


def test_a_copy_ends_in_a_later_plan() -> None:
    table = only_table(Barrier("copy_end", at(100)), base=replace(HEAD, state="copying"))

    assert table.segments == (Segment(0, "v1", None, at(100), copies=True), Segment(1, "v1", at(100), None))
    assert table.state == "current"


@pytest.mark.parametrize("kind", ["truncate", "shape", "key"])
def test_a_table_that_left_the_publication_stays_stale_whatever_comes_of_it(kind: str) -> None:
    """I8: only a copy makes it equal to the source again."""
    assert only_table(Barrier(kind, at(100), "v2"), base=replace(HEAD, state="stale")).state == "stale"


def test_rows_before_the_last_truncate_are_not_applied() -> None:
    table = only_table(Barrier("truncate", at(200)), Barrier("truncate", at(300)))

    assert table.segments == (Segment(0, "v1", at(300), None, empties=True),)


def test_a_shape_begins_a_segment_of_its_schema() -> None:
    table = only_table(Barrier("shape", at(200), "v2"), Barrier("key", at(300), "v3"))

    assert table.segments == (
        Segment(0, "v1", None, at(200)),
        Segment(1, "v2", at(200), at(300)),
        Segment(2, "v3", at(300), None),
    )


def test_a_table_that_was_never_copied_is_refused() -> None:
    """I7: changes over rows that are not there would look like a table."""
    with pytest.raises(OperatorError, match="holds no copy"):
        only_table(base=None)


def test_a_table_of_an_older_epoch_is_refused_without_a_new_copy() -> None:
    with pytest.raises(OperatorError, match="holds no copy"):
        only_table(base=replace(HEAD, state=SUPERSEDED))


def test_the_copy_of_a_table_made_anew_starts_from_what_is_at_its_topic() -> None:
    copied = changes(Barrier("copy_begin", at(200, -1), "v2"), Barrier("copy_end", at(200)), relation_id=2)
    (table,) = make_plan(numbered(cut(1, copied)), {1: HEAD}).tables

    assert (table.relation_id, table.base) == (2, replace(HEAD, state=SUPERSEDED))


def test_a_table_renamed_before_a_new_copy_leaves_its_place_to_the_one_that_has_its_name() -> None:
    """I8: two tables at one path would be one."""
    begins = [Barrier("copy_begin", at(200, -1), "v2"), Barrier("copy_end", at(200))]
    renamed = changes(*begins, relation_id=1, topic="p.a_old")
    namesake = changes(*begins, relation_id=2, topic=HEAD.topic)
    superseded = replace(HEAD, state=SUPERSEDED)

    tables = make_plan(numbered(cut(1, renamed, namesake)), {1: superseded}).tables

    assert {table.relation_id: table.base for table in tables} == {1: None, 2: superseded}


def test_a_topic_passes_to_another_relation_only_between_plans() -> None:
    cuts = numbered(cut(1, changes()), cut(2, changes(Barrier("copy_begin", at(2, -1), "v2"), relation_id=2)))

    assert take_cuts(cuts, 100) == 1


def test_one_topic_of_two_relations_in_one_plan_is_refused() -> None:
    with pytest.raises(OperatorError, match="two relations"):
        make_plan(numbered(cut(1, changes(), changes(relation_id=2))), {1: HEAD})


def test_a_plan_takes_at_least_one_cut_however_large() -> None:
    assert take_cuts(numbered(cut(1, parts=[part(0, 50)]), cut(2, parts=[part(51, 60)])), 10) == 1


def test_a_plan_stops_before_the_cut_that_exceeds_its_rows() -> None:
    cuts = numbered(*(cut(n, parts=[part(10 * n, 10 * n + 5)]) for n in range(1, 5)))

    assert take_cuts(cuts, 10) == 2


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


def test_more_segments_than_transactions_are_refused() -> None:
    """I5: the versions of the next plan would be used already."""
    shapes = [Barrier("shape", at(n), "v2") for n in range(TXN_STRIDE)]

    with pytest.raises(OperatorError, match=r"changes the shape of the table of topic p\.a 4097 times"):
        make_plan(numbered(cut(7, changes(*shapes))), {1: HEAD})


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


FAULTY = {
    "a cut is missing": (cut(1), cut(3)),
    "an LSN is missing": (cut(1), cut(2, previous_end_lsn=999, end_lsn=1000)),
    "an epoch begins in its middle": (None, cut(2)),
    "a range has a hole": (cut(1), cut(2, changes(rows=4), parts=[PartitionRange("p.a", 0, 0, 5, 4)])),
    "a range has more records than offsets": (
        cut(1),
        cut(2, changes(rows=6), parts=[PartitionRange("p.a", 0, 0, 5, 6)]),
    ),
    "records belong to no table": (cut(1), cut(2, parts=[part(0, 5)])),
    "a table counts records that are nowhere": (cut(1), cut(2, changes(rows=5))),
}


@pytest.mark.parametrize("previous_and_cut", FAULTY.values(), ids=FAULTY.keys())
def test_a_cut_that_does_not_fit_is_told(previous_and_cut: tuple[Cut | None, Cut]) -> None:
    """I7."""
    assert cut_fault(*previous_and_cut)


def test_a_cut_that_follows_is_accepted() -> None:
    assert cut_fault(cut(1), cut(2, changes(rows=5), parts=[part(0, 3), part(0, 2, partition=1)])) is None


def test_a_new_epoch_begins_with_cut_one() -> None:
    assert cut_fault(cut(9), cut(1, epoch=EPOCH._replace(consistent_point=500))) is None


BARRIERS = st.lists(
    st.tuples(st.sampled_from(["copy_begin", "copy_end", "truncate", "shape", "key", "dropped"]), st.integers(1, 3)),
    max_size=12,
)


@given(BARRIERS, st.sampled_from([None, "current", "copying"]))
def test_segments_leave_no_gap_and_hold_one_schema_each(kinds: list[tuple[str, int]], state: str | None) -> None:
    """Whatever the barriers: consecutive, without overlap, only the first one empties."""
    with_schema = {"copy_begin", "shape", "key"}
    barriers = [
        Barrier(kind, at(10 * n), f"v{schema}" if kind in with_schema else None)
        for n, (kind, schema) in enumerate(kinds, 1)
    ]
    base = replace(HEAD, state=state) if state else None
    if base is None and not any(barrier.kind == "copy_begin" for barrier in barriers):
        return
    segments = only_table(*barriers, base=base).segments

    assert [segment.index for segment in segments] == list(range(len(segments)))
    assert all(before.end == after.start for before, after in pairwise(segments))
    assert segments[-1].end is None
    assert not any(segment.empties for segment in segments[1:])
    assert segments[0].empties == any(barrier.kind in ("truncate", "copy_begin") for barrier in barriers)
    assert all(segment.schema_id for segment in segments)


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
