"""Large copies that have ended: which records are theirs, which follow, and when what was written of them is void."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import EPOCH, HEAD, at, changes, cut, numbered, part
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.spark_consumer.plan.ended_copies import (
    Written,
    continues,
    copy_of,
    ended_copies,
    is_aside,
    plan_of_copy,
    plan_of_entry,
    plan_of_later_changes,
)
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import Plan, Segment, TableHead, make_plan

END = Barrier("copy_end", at(700, -1))
GOES_ON = PendingCopy("p.a", (CopyShape(500, -1, "v1"),), (CopyRange(0, 10, 20, 9),))
ENDED = GOES_ON.ended()
STALE = replace(HEAD, state="stale")


def plan(
    *tables: TableChanges, base: TableHead | None = None, copy: PendingCopy = GOES_ON, deferred_from: int = 9
) -> Plan:
    heads = {} if base is None else {1: base}
    waits = [1] if base is not None and base.state == "stale" else []
    of_cut = cut(1, *tables, parts=(part(20, 25),))
    return make_plan(numbered(of_cut), heads, {1: copy}, waits, deferred_from=deferred_from)


def lake(copy: PendingCopy, version: int | None = None, to_cut: int = 7) -> LakeState:
    state = "copying" if version is None else "stale"
    entry = TableEntry(1, "public", "a", "p.a", "public/a", version, "v1", state, 500, copy)
    return LakeState("p", 3, EPOCH, to_cut, 900, 14, {1: entry}, is_published=True)


@pytest.mark.parametrize("base", [None, STALE])
def test_a_large_copy_that_ends_is_left_with_all_that_comes_of_its_table(base: TableHead | None) -> None:
    found = plan(changes(END, rows=5), base=base)

    assert (found.tables, found.ranges) == ((), {})
    assert found.copies == {1: replace(GOES_ON, partitions=(CopyRange(0, 10, 25, 14),), shapes_at_end=1)}


@pytest.mark.parametrize("base", [HEAD, None])
def test_a_small_copy_is_applied(base: TableHead | None) -> None:
    found = plan(changes(END, rows=5), base=base, deferred_from=10)

    assert [(table.state, table.swapped is None) for table in found.tables] == [("current", False)]
    assert found.copies == {}


def test_a_table_that_is_fed_takes_its_changes_and_no_row_of_its_copy() -> None:
    """But rows of listed keys, which may be read again once the copy has ended."""
    ends = plan(changes(END, rows=5), base=HEAD)
    goes_on = plan(changes(rows=5), base=HEAD, copy=ENDED)

    assert ends.tables[0].segments == (
        Segment(0, "v1", None, at(700, 0), ignores_copied_rows=True),
        Segment(1, "v1", at(700, 0), None),
    )
    assert goes_on.tables[0].segments == (Segment(0, "v1", None, None),)
    for found in (ends, goes_on):
        assert (found.tables[0].swapped, found.ranges) == (None, {("p.a", 0): part(20, 25)})
        assert found.copies == {1: replace(GOES_ON, partitions=(CopyRange(0, 10, 25, 14),), shapes_at_end=1)}


def test_a_copy_that_was_left_goes_on_to_be_left_while_its_table_changes() -> None:
    shape = Barrier("shape", at(800, 1), "v2")
    found = plan(changes(shape, rows=5), copy=ENDED)

    assert found.tables == ()
    assert found.copies[1].shapes == (*GOES_ON.shapes, CopyShape(800, 1, "v2"))
    assert found.copies[1].shapes_at_end == 1


def test_a_copy_that_was_left_is_applied_once_a_truncate_made_it_small() -> None:
    found = plan(changes(Barrier("truncate", at(800, 2)), rows=5), copy=ENDED)
    (table,) = found.tables

    assert (table.state, found.copies) == ("current", {})
    assert table.segments == (Segment(0, "v1", at(800, 2), None, empties=True),)
    assert found.ranges == {("p.a", 0): part(20, 25)}


def test_a_large_copy_is_still_left_behind_a_truncate() -> None:
    found = plan(changes(Barrier("truncate", at(800, 2)), rows=5), copy=ENDED, deferred_from=0)

    assert found.copies == {1: PendingCopy("p.a", (CopyShape(800, 2, "v1"),), (CopyRange(0, 20, 25, 5),), 1)}


def test_a_table_that_leaves_or_is_copied_anew_has_no_ended_copy() -> None:
    dropped = plan(changes(Barrier("dropped", at(800))), copy=ENDED)
    begun = plan(changes(Barrier("copy_begin", at(800, -1), "v1"), rows=5), copy=ENDED)

    assert (dropped.tables, dropped.copies) == ((), {})
    assert begun.copies == {1: PendingCopy("p.a", (CopyShape(800, -1, "v1"),), (CopyRange(0, 20, 25, 5),))}


def test_those_of_fewest_records_are_written_first() -> None:
    small = replace(ENDED, topic="p.b", partitions=(CopyRange(0, 0, 3, 3),))
    entries = {
        **lake(ENDED).entries,
        2: replace(lake(ENDED).entries[1], relation_id=2, copy_from=small),
        3: replace(lake(ENDED).entries[1], relation_id=3, copy_from=replace(GOES_ON, topic="p.c")),
    }

    assert ended_copies(replace(lake(ENDED), entries=entries)) == [2, 1]
    assert copy_of(replace(lake(ENDED), entries=entries), 3) is None


def test_rows_may_come_again_in_the_next_shape_of_a_copy_and_in_none_behind_its_end() -> None:
    """I6: as in a plan in which it ends."""
    copy = PendingCopy(
        "p.a", (*GOES_ON.shapes, CopyShape(600, -1, "v2"), CopyShape(800, 1, "v3")), GOES_ON.partitions, 2
    )
    found = plan_of_copy(lake(copy, version=5), 1, 40)
    (table,) = found.tables

    assert table.segments == (
        Segment(0, "v1", at(500, -1), at(600, 0), empties=True, copy_goes_on=True),
        Segment(1, "v2", at(600, -1), at(800, 1)),
        Segment(2, "v3", at(800, 1), None),
    )
    assert (table.state, table.path, table.swapped, table.beside) == ("current", "public/a", copy, True)
    assert (table.base and table.base.version, found.to_cut, found.metadata_end_offset) == (5, 7, 40)
    assert found.ranges == {("p.a", 0): PartitionRange("p.a", 0, 10, 20, 9)}


def test_a_copy_of_a_table_that_is_fed_is_written_where_no_plan_writes() -> None:
    """And enters the table's folder behind what plans have written there."""
    (entry,) = lake(ENDED, version=5).entries.values()
    state = replace(lake(ENDED), entries={1: replace(entry, state="current")})
    (table,) = plan_of_copy(state, 1, 40, number=3).tables
    head = replace(HEAD, path=table.path, version=2, schema_id="v2")
    entering = plan_of_entry(state, Written(head, ENDED), 40)
    (entered,) = entering.tables

    assert (table.path, table.base, is_aside(table.path), is_aside(entry.path)) == ("_copies/1-7-3", None, True, False)
    assert (entered.path, entered.base and entered.base.version, entered.beside) == ("public/a", 5, True)
    assert entered.segments == (Segment(0, "v2", None, None, empties=True),)
    assert (entering.ranges, entering.to_cut, entering.end_lsn) == ({}, 7, 900)


def test_what_came_behind_is_read_from_where_the_written_part_ends() -> None:
    now = replace(
        ENDED,
        shapes=(*ENDED.shapes, CopyShape(800, 1, "v2")),
        partitions=(CopyRange(0, 10, 30, 15), CopyRange(1, 4, 6, 1)),
    )
    head = replace(HEAD, version=0)
    found = plan_of_later_changes(lake(now), Written(head, ENDED), 40)
    assert found is not None
    (table,) = found.tables

    assert found.ranges == {
        ("p.a", 0): PartitionRange("p.a", 0, 20, 30, 6),
        ("p.a", 1): PartitionRange("p.a", 1, 4, 6, 1),
    }
    assert table.segments == (Segment(0, "v1", None, at(800, 1)), Segment(1, "v2", at(800, 1), None))
    assert (table.base, table.follows_source, table.beside) == (head, True, True)
    assert plan_of_later_changes(lake(ENDED), Written(head, ENDED), 40) is None


@pytest.mark.parametrize(
    "now",
    [
        None,
        GOES_ON,
        replace(ENDED, topic="p.a_2"),
        ENDED.began_anew(at(800)),
        replace(ENDED, partitions=(CopyRange(0, 11, 20, 9),)),
        replace(ENDED, partitions=()),
    ],
)
def test_what_was_written_is_void_where_the_copy_is_another_one(now: PendingCopy | None) -> None:
    assert not continues(now, ENDED)


@dataclass
class History:
    """Cuts of one table, whose records are numbers: ``rows`` is what is alive of them."""

    cuts: list[Cut] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    offset: int = 0

    def add(self, kind: str | None, records: int) -> None:
        number = len(self.cuts) + 1
        position = at(1000 * number, -1 if kind in ("copy_begin", "copy_end") else 0)
        barriers = [] if kind is None else [Barrier(kind, position, "v1" if kind == "copy_begin" else None)]
        start, self.offset = self.offset + 1, self.offset + 1 + records  # a marker lies between two cuts
        before = [] if kind in ("copy_begin", "truncate") or not self.rows else self.rows[-1]
        self.cuts.append(
            cut(number, changes(*barriers, rows=records), parts=[part(start, self.offset)] if records else [])
        )
        self.rows.append([*before, *range(start, self.offset)])


HISTORIES = st.lists(
    st.tuples(st.sampled_from(["copy_begin", "copy_end", "truncate", "dropped", None, None]), st.integers(0, 4)),
    max_size=14,
)


COIN: st.SearchStrategy[bool] = st.booleans()


def read(plan: Plan) -> list[int]:
    return [number for of in plan.ranges.values() for number in range(of.start_offset, of.end_offset)]


@given(HISTORIES, st.data())
def test_a_copy_is_written_from_exactly_the_records_since_it_began(
    steps: Sequence[tuple[str | None, int]], data: st.DataObject
) -> None:
    """Whatever plans pass meanwhile, and wherever it is written in between: begun, left, emptied, begun again."""
    history, state, copying, is_current = History(), LakeState("p", epoch=EPOCH), False, False
    written: Written | None = None
    held: list[int] = []
    for kind, records in steps:
        # As a producer tells it: a copy ends once, and a table that is not followed sends nothing.
        if (kind == "copy_end" and not copying) or (kind != "copy_begin" and not (copying or is_current)):
            continue
        copying = kind == "copy_begin" or (copying and kind not in ("copy_end", "dropped"))
        is_current = kind == "copy_end" or (is_current and kind not in ("dropped", "copy_begin"))
        history.add(kind, records)
        found = make_plan(
            [(2 * len(history.cuts), history.cuts[-1])],
            {},
            state.copies(EPOCH),
            state.awaiting_copy(EPOCH),
            deferred_from=0,
        )
        assert found.tables == (), "of a table that is not in the lake no plan has a part"
        entries = {
            key: TableEntry(key, "public", "a", "p.a", "public/a", None, "v1", "copying", 0, copy)
            for key, copy in found.copies.items()
        }
        state = replace(state, entries=entries, to_cut=found.to_cut)
        if written is not None and not continues(copy_of(state, 1), written.copy):
            written = None
        if data.draw(COIN) and ended_copies(state):
            copy = copy_of(state, 1)
            assert copy is not None
            is_begun = data.draw(COIN)
            if written is None or is_begun:  # from nothing, as after a kill
                held = read(plan_of_copy(state, 1, 0))
            elif (rest := plan_of_later_changes(state, written, 0)) is not None:
                held = held + read(rest)
            written = Written(HEAD, copy)
            assert [number for number in held if number in history.rows[-1]] == history.rows[-1]
            start = copy.partitions[0].start_offset if copy.partitions else 0
            assert all(number >= start for number in held)
        if kind in ("copy_end", None) and is_current and "copy_begin" in [k for k, _ in steps]:
            assert (1 in state.entries) == (copy_of(state, 1) is not None)
