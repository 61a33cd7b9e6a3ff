"""Plans: which events of which table, in which segments."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import HEAD, at, changes, cut, numbered, part
from walbridge.schemas.control.cut import Barrier
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import (
    SUPERSEDED,
    Segment,
    TableHead,
    TablePlan,
    make_plan,
    take_cuts,
)


def only_table(*barriers: Barrier, base: TableHead | None = HEAD, complete: bool = True) -> TablePlan:
    cuts = numbered(cut(1, changes(*barriers), complete=complete))
    plan = make_plan(cuts, {base.relation_id: base} if base else {})
    (table,) = plan.tables
    return table


def test_changes_without_a_barrier_are_one_segment_of_the_tables_own_schema() -> None:
    table = only_table()

    assert table.segments == (Segment(0, "v1", None, None),)
    assert table.state == "current"


def test_a_copy_begins_empty_appends_rows_and_then_takes_changes() -> None:
    table = only_table(Barrier("copy_begin", at(100, -1), "v2"), Barrier("copy_end", at(100)), base=None)

    assert table.segments == (
        Segment(0, "v2", at(100, -1), at(100), empties=True, is_copied=True),
        Segment(1, "v2", at(100), None),
    )
    assert table.state == "current"


def test_a_copy_that_goes_on_leaves_the_table_copying() -> None:
    table = only_table(Barrier("copy_begin", at(100, -1), "v2"), base=None, complete=False)

    assert table.segments == (Segment(0, "v2", at(100, -1), None, empties=True, is_copied=True),)
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

    assert table.segments == (Segment(0, "v1", None, None, is_copied=True),)


def test_a_copy_ends_in_a_later_plan() -> None:
    table = only_table(Barrier("copy_end", at(100)), base=replace(HEAD, state="copying"))

    assert table.segments == (Segment(0, "v1", None, at(100), is_copied=True), Segment(1, "v1", at(100), None))
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


@pytest.mark.parametrize("base", [None, replace(HEAD, state=SUPERSEDED)])
def test_a_table_that_was_never_copied_or_not_in_this_epoch_is_left(base: TableHead | None) -> None:
    """I7: changes over rows that are not there would look like a table."""
    plan = make_plan(
        numbered(cut(1, changes(), changes(relation_id=2, topic="p.b"))), {} if base is None else {1: base}
    )

    assert (plan.tables, [*plan.ranges]) == ((), [])
    assert [(each.relation_id, each.state) for each in plan.troubles] == [(1, "stale"), (2, "stale")]
    assert "holds no copy" in plan.troubles[0].why


def test_a_table_that_was_left_takes_nothing_whatever_comes_of_it() -> None:
    """I8: also where the lake never had a row of it."""
    barriers = [Barrier(kind, at(100), "v2") for kind in ("truncate", "shape", "copy_end", "dropped")]
    for heads in ({}, {1: replace(HEAD, state="stale")}):
        plan = make_plan(numbered(cut(1, changes(*barriers, rows=5), parts=[part(0, 5)])), heads, {}, [1])

        assert (plan.tables, plan.ranges, plan.copies, plan.troubles) == ((), {}, {}, ())


def test_a_table_that_was_left_is_current_with_the_end_of_a_copy() -> None:
    for heads in ({}, {1: replace(HEAD, state="quarantined")}):
        begun = make_plan(numbered(cut(1, changes(Barrier("copy_begin", at(200, -1), "v2")))), heads, {}, [1])
        ended = make_plan(numbered(cut(2, changes(Barrier("copy_end", at(300, -1))))), heads, begun.copies, [1])

        assert (begun.tables, [*begun.copies]) == ((), [1])
        assert [(table.state, table.segments[0].empties) for table in ended.tables] == [("current", True)]


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


def test_one_topic_of_two_relations_in_one_plan_leaves_its_table() -> None:
    """A copy that goes on would miss records that nobody can tell apart."""
    goes_on = {2: PendingCopy(HEAD.topic, (CopyShape(50, -1, "v1"),))}
    plan = make_plan(numbered(cut(1, changes(), changes(relation_id=2))), {1: HEAD}, goes_on)

    assert (plan.tables, plan.copies) == ((), {})
    assert [(each.topic, "records of two relations" in each.why) for each in plan.troubles] == [(HEAD.topic, True)]


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


FOLLOWED: Mapping[str, tuple[bool, TablePlan]] = {
    "changes": (True, only_table()),
    "a new shape": (True, only_table(Barrier("shape", at(200), "v2"))),
    "a truncate": (True, only_table(Barrier("truncate", at(200)))),
    "a copy": (False, only_table(Barrier("copy_begin", at(100, -1), "v2"), Barrier("copy_end", at(100)))),
    "the end of a copy": (False, only_table(Barrier("copy_end", at(100)), base=replace(HEAD, state="copying"))),
    "a table that is stale": (False, only_table(base=replace(HEAD, state="stale"))),
    "a table that left": (False, only_table(Barrier("dropped", at(200)))),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_an_operation_tells_what_exists_only_where_a_current_table_gets_nothing_but_changes(case: str) -> None:
    """I7: else a row that is called new might be there."""
    expected, table = FOLLOWED[case]
    assert table.follows_source is expected
