"""What a plan reads while a table that it feeds is copied: changes, and not the rows of the copy (I9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import HEAD, at, changes, cut, numbered, part
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange
from walbridge.spark_consumer.kafka.ranges import pieces, rounds
from walbridge.spark_consumer.plan import read_ranges
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import Plan, TableHead, make_plan

GOES_ON = PendingCopy("p.a", (CopyShape(50, -1, "v1"),), (CopyRange(0, 10, 20, 9),))
A = ("p.a", 0)
BEGIN = Barrier("copy_begin", at(100, -1), "v1")
END = Barrier("copy_end", at(110, -1))
SHAPE = Barrier("shape", at(100, -1), "v1")


def chunk(cut_id: int, start: int, end: int, *barriers: Barrier) -> Cut:
    """Rows of a copy, in a cut of their own."""
    own = cut(cut_id, changes(*barriers, rows=end - start), parts=(part(start, end),))
    return replace(own, commit_lsn=None, transactions=0)


def changed(cut_id: int, start: int, end: int) -> Cut:
    return cut(cut_id, changes(rows=end - start), parts=(part(start, end),))


def plan(*cuts: Cut, copy: PendingCopy | None = GOES_ON, head: TableHead = HEAD, deferred_from: int = 5) -> Plan:
    copies = {} if copy is None else {1: copy}
    return make_plan(numbered(*cuts), {1: head}, copies, deferred_from=deferred_from)


def offsets(of: Plan) -> list[int]:
    """What is read of the partition."""
    if A not in of.ranges:
        return []
    bounds = of.ranges[A].start_offset, of.ranges[A].end_offset
    return [offset for start, end in pieces(bounds, of.gaps.get(A, ())) for offset in range(start, end)]


def test_a_table_that_is_fed_is_not_read_the_rows_of_its_copy() -> None:
    found = plan(changed(1, 20, 22), chunk(2, 23, 33), chunk(3, 34, 44), changed(4, 45, 46), chunk(5, 47, 57))

    assert found.ranges == {A: PartitionRange(*A, 20, 46, 3)}
    assert (found.gaps, found.rows) == ({A: ((23, 44),)}, 3)
    assert found.copies[1].partitions == (CopyRange(0, 10, 57, 42),), "its end reads all of them"


def test_a_plan_of_copied_rows_alone_reads_nothing() -> None:
    found = plan(chunk(1, 20, 30, SHAPE), chunk(2, 31, 41))

    assert (found.rows, found.ranges, found.gaps) == (0, {}, {})
    assert [table.state for table in found.tables] == ["current"]


def test_changes_in_a_cut_that_begins_or_ends_a_copy_are_read() -> None:
    """Of such a cut not all records are the copy's."""
    begun, ended = plan(chunk(1, 20, 30, BEGIN), copy=None), plan(chunk(1, 20, 30, END))

    assert (begun.ranges, ended.ranges) == ({A: part(20, 30)},) * 2
    assert ended.copies[1].has_ended


def test_rows_that_are_read_again_behind_a_copy_are_changes_of_the_table() -> None:
    """They come in cuts of their own, too: rows of listed keys, and deletes of those that the source lacks."""
    behind, without = plan(chunk(1, 20, 30), copy=GOES_ON.ended()), plan(chunk(1, 20, 30), copy=None)

    assert (behind.ranges, without.ranges) == ({A: part(20, 30)},) * 2


def test_a_copy_that_ends_in_the_plan_is_read_whole() -> None:
    found = plan(changed(1, 20, 22), chunk(2, 23, 33), changed(3, 34, 35), chunk(4, 36, 37, END), deferred_from=1_000)

    assert (found.ranges, found.gaps) == ({A: PartitionRange(*A, 10, 37, 23)}, {})


def test_other_tables_are_read_whole() -> None:
    other = cut(1, changes(rows=3, relation_id=2, topic="p.b"), parts=(part(5, 8, "p.b"),))
    heads = {1: HEAD, 2: replace(HEAD, relation_id=2, topic="p.b")}
    found = make_plan(numbered(other, chunk(2, 20, 30)), heads, {1: GOES_ON})

    assert (found.ranges, found.gaps) == ({("p.b", 0): part(5, 8, "p.b")}, {})


def test_the_largest_gaps_are_passed_over_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ranges, "GAPS_MAX", 1)
    found = plan(changed(1, 20, 21), chunk(2, 22, 25), changed(3, 26, 27), chunk(4, 28, 38), changed(5, 39, 40))

    assert found.gaps == {A: ((28, 38),)}
    assert found.ranges == {A: PartitionRange(*A, 20, 40, 6)}


@st.composite
def cuts_of_a_copy(draw: st.DrawFn) -> list[Cut]:
    """Changes and chunks of one partition, between which markers lie."""
    found, offset = [], 20
    for cut_id, (is_chunk, records) in enumerate(draw(st.lists(st.tuples(st.booleans(), st.integers(1, 4)))), 1):
        found.append((chunk if is_chunk else changed)(cut_id, offset, offset + records))
        offset += records + 1
    return found or [changed(1, 20, 21)]


@given(cuts_of_a_copy(), st.integers(0, 3))
def test_every_change_is_read_and_counted(cuts: Sequence[Cut], gaps_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ranges, "GAPS_MAX", gaps_max or 100)
        found = plan(*cuts)
    held = {offset: each for each in cuts for of in each.partitions for offset in range(of.start_offset, of.end_offset)}
    read = [offset for offset in offsets(found) if offset in held]

    assert {offset for offset, of in held.items() if of.commit_lsn is not None} <= {*read}
    assert len(read) == len({*read}) == found.rows
    assert gaps_max or all(held[offset].commit_lsn is not None for offset in read)


def test_a_reader_of_one_range_a_partition_takes_the_pieces_in_turn() -> None:
    found = rounds({("a", 0): (0, 10), ("b", 0): (5, 6)}, {("a", 0): [(2, 4), (6, 9)]})

    assert found == [{("a", 0): (0, 2), ("b", 0): (5, 6)}, {("a", 0): (4, 6)}, {("a", 0): (9, 10)}]
    assert list(rounds({}, {})) == []
