"""Copies beside the stream: which segments a plan has, what it reads, and what it remembers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.spark_consumer.plan.cuts import HEAD, at, changes, cut, numbered, part
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy, begins_copy_beside
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, Segment, TableHead, make_plan, take_cuts

BEGIN = Barrier("copy_begin", at(500, -1), "v1")
END = Barrier("copy_end", at(700, -1))
TRUNCATE = Barrier("truncate", at(600, 2))
ALTERED = Barrier("shape", at(610, 1), "v2")
DROPPED = Barrier("dropped", at(690))
GOES_ON = PendingCopy("p.a", (CopyShape(500, -1, "v1"),), (CopyRange(0, 10, 14, 3),))


def plan(
    *tables: TableChanges,
    base: TableHead | None = HEAD,
    copy: PendingCopy | None = None,
    parts: Sequence[PartitionRange] = (part(20, 25),),
) -> Plan:
    """A plan of one cut."""
    heads = {} if base is None else {base.relation_id: base}
    return make_plan(numbered(cut(1, *tables, parts=parts)), heads, {} if copy is None else {1: copy})


def test_a_first_copy_is_remembered_from_its_cut_on_and_has_no_part_in_the_plan() -> None:
    found = plan(changes(BEGIN, rows=5), base=None)

    assert (found.tables, found.ranges) == ((), {})
    assert found.copies == {1: PendingCopy("p.a", GOES_ON.shapes, (CopyRange(0, 20, 25, 5),))}


def test_records_of_a_copy_are_counted_until_it_ends() -> None:
    found = plan(changes(rows=5), base=None, copy=GOES_ON)

    assert (found.tables, found.ranges) == ((), {})
    assert found.copies == {1: replace(GOES_ON, partitions=(CopyRange(0, 10, 25, 8),))}


def test_a_table_that_was_current_is_fed_without_the_rows_of_its_copy() -> None:
    for of_plan in (plan(changes(BEGIN, rows=5)), plan(changes(rows=5), copy=GOES_ON)):
        (table,) = of_plan.tables
        assert (table.segments, table.state) == ((Segment(0, "v1", None, None, ignores_copied_rows=True),), "current")
        assert of_plan.ranges == {("p.a", 0): part(20, 25)}


@pytest.mark.parametrize("state", ["stale", "copying", SUPERSEDED])
def test_a_table_in_any_other_state_waits_for_its_copy(state: str) -> None:
    found = plan(changes(rows=5), base=replace(HEAD, state=state), copy=GOES_ON)

    assert (found.tables, [*found.copies]) == ((), [1])


@pytest.mark.parametrize("base", [None, HEAD, replace(HEAD, state="stale")])
def test_at_its_end_all_records_of_the_copy_are_read_and_take_the_tables_place(base: TableHead | None) -> None:
    found = plan(changes(END, rows=5), base=base, copy=GOES_ON)
    (table,) = found.tables

    assert (table.base, table.state, found.copies) == (base, "current", {})
    assert table.segments == (Segment(0, "v1", at(500, -1), None, empties=True),)
    assert found.ranges == {("p.a", 0): PartitionRange("p.a", 0, 10, 25, 8)}


def test_a_copy_with_two_shapes_is_two_segments_of_which_the_first_may_lack_values() -> None:
    """I6: copied rows at the LSN of the change may have either shape."""
    found = plan(changes(replace(ALTERED, position=at(610, -1)), END), copy=GOES_ON)

    assert found.tables[0].segments == (
        Segment(0, "v1", at(500, -1), at(610, 0), empties=True, copy_goes_on=True),
        Segment(1, "v2", at(610, -1), None),
    )


def test_shapes_are_remembered_over_plans_unless_they_are_no_change() -> None:
    """A session that begins repeats the shape that a table has."""
    repeated = plan(changes(replace(ALTERED, schema_id="v1")), copy=GOES_ON)
    altered = plan(changes(ALTERED), copy=GOES_ON)

    assert repeated.copies[1].shapes == GOES_ON.shapes
    assert altered.copies[1].shapes == (*GOES_ON.shapes, CopyShape(610, 1, "v2"))


def test_what_was_copied_before_a_truncate_is_void() -> None:
    found = plan(changes(TRUNCATE, rows=5), base=None, copy=GOES_ON)

    assert found.copies[1] == PendingCopy("p.a", (CopyShape(600, 2, "v1"),), (CopyRange(0, 20, 25, 5),))


def test_a_copy_that_begins_anew_is_read_from_there() -> None:
    found = plan(changes(replace(BEGIN, position=at(650, -1)), rows=5), base=None, copy=GOES_ON)

    assert found.copies[1] == PendingCopy("p.a", (CopyShape(650, -1, "v1"),), (CopyRange(0, 20, 25, 5),))


def test_a_table_that_is_left_inside_of_its_copy_is_copied_no_more() -> None:
    first, again = plan(changes(DROPPED), base=None, copy=GOES_ON), plan(changes(DROPPED), copy=GOES_ON)

    assert (first.tables, first.copies, again.copies) == ((), {}, {})
    assert again.tables[0].state == "stale"


def test_a_table_that_is_left_and_copied_anew_in_one_cut_is_not_fed_from_there() -> None:
    found = plan(changes(DROPPED, replace(BEGIN, position=at(695, -1))))

    assert found.tables[0].state == "stale"
    assert found.tables[0].segments == (Segment(0, "v1", None, at(690)),)
    assert [*found.copies] == [1]


def test_a_table_that_was_never_copied_may_be_left() -> None:
    assert plan(changes(DROPPED), base=None, parts=()).tables == ()


def test_a_table_whose_copy_did_not_begin_is_left() -> None:
    """I7."""
    (trouble,) = plan(changes(rows=5), base=None).troubles

    assert "holds no copy of" in trouble.why


def test_the_copy_of_a_table_made_anew_takes_its_name_from_the_one_before() -> None:
    """Its predecessor's last words may stand in the same cut."""
    begun = changes(BEGIN, rows=5, relation_id=2)
    found = plan(changes(DROPPED), begun, copy=GOES_ON)

    assert (found.tables, [*found.copies]) == ((), [2])


def test_a_table_in_the_plan_begins_to_be_copied_in_a_plan_of_its_own() -> None:
    begun = changes(BEGIN, rows=5)

    assert take_cuts(numbered(cut(1, changes(rows=1)), cut(2, begun)), 100) == 1
    assert take_cuts(numbered(cut(1), cut(2, begun), cut(3, changes(rows=1))), 100) == 3


CUTS = {
    "the first copy of earlier versions, with more of it to come": (cut(complete=False), [at(100, -1)], False),
    "the same in one cut": (cut(), [at(100, -1), at(100)], False),
    "a first copy beside the stream": (cut(), [at(100, -1)], True),
    "the same in one cut, the end behind its rows": (cut(), [at(100, -1), at(100, -1)], True),
    "a later copy in a cut that ends inside of a transaction": (cut(complete=False), [at(500, -1)], True),
}


@pytest.mark.parametrize("case", CUTS)
def test_a_copy_beside_the_stream_is_told_from_the_first_copy_of_earlier_versions(case: str) -> None:
    of, positions, expected = CUTS[case]
    barriers = [Barrier(kind, position) for kind, position in zip(("copy_begin", "copy_end"), positions, strict=False)]

    assert begins_copy_beside(barriers[0], of, barriers) == expected


def test_no_other_barrier_begins_a_copy() -> None:
    of: Cut = cut()

    assert not any(begins_copy_beside(barrier, of, [barrier]) for barrier in (END, TRUNCATE, ALTERED, DROPPED))


def test_the_end_of_a_copy_that_was_lost_to_a_trouble_is_none_itself() -> None:
    """So the producer is asked once, while the copy goes on, and has to remember that."""
    lost = make_plan(
        numbered(cut(1, changes(rows=5), parts=(part(20, 25),))), {1: HEAD}, {1: GOES_ON}, (), {"p.a": "?"}
    )
    left = {1: replace(HEAD, state="stale")}
    ended = make_plan(numbered(cut(2, changes(END, rows=5), parts=(part(25, 30),))), left, lost.copies, [1])

    assert ([each.relation_id for each in lost.troubles], lost.copies) == ([1], {})
    assert (ended.troubles, ended.tables, ended.copies) == ((), (), {})
