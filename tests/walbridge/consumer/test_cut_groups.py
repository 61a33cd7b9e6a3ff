"""Groups of cuts: whole transactions, whatever the cuts before the first one were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.consumer.cut_groups import CutGroups, Group
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn, Position

EPOCH = Epoch("7", 1, "slot", 100)
TABLE, OTHER = 1, 2


def cut(
    cut_id: int, start: int, end: int, *, complete: bool = True, epoch: Epoch = EPOCH, relation: int = TABLE
) -> Cut:
    """Cut ``n`` ends at LSN 100 + n, if every one is complete; its records are of one table."""
    ranges = (PartitionRange(f"p.{relation}", 0, start, end, end - start),) if end > start else ()
    tables = (TableChanges(relation, f"p.{relation}", ("s",), end - start),) if end > start else ()
    end_lsn = 100 + cut_id if complete else 99 + cut_id
    return Cut(epoch, cut_id, 99 + cut_id, end_lsn, None, None, 1, complete, 5, ranges, tables)


def received(*cuts: Cut, groups: CutGroups | None = None) -> list[Group | None]:
    groups = groups or CutGroups(lambda relation_id, topic: relation_id == TABLE)
    return [groups.receive(each, offset) for offset, each in enumerate(cuts)]


def test_transaction_of_several_cuts_is_one_group() -> None:
    """I9: its ranges are joined, so it takes no more memory than a small one."""
    parts = [cut(1, 0, 20, complete=False), replace(cut(2, 21, 41), previous_end_lsn=100)]
    nothing, group = received(*parts)

    assert nothing is None
    assert group is not None
    assert group.ranges == {("p.1", 0): PartitionRange("p.1", 0, 0, 41, 40)}
    assert (group.end_lsn, group.next_offset, group.records) == (102, 2, 40)


def test_cuts_of_other_tables_hold_nothing_and_are_passed() -> None:
    first, second = received(cut(1, 0, 5, relation=OTHER), cut(2, 0, 5))

    assert first is not None
    assert (first.is_empty, first.next_offset) == (True, 1)
    assert second is not None
    assert second.records == 5


def test_reader_that_begins_inside_a_pipeline_begins_behind_a_complete_cut() -> None:
    """The first cut that is there may continue a transaction of which parts are gone."""
    inside = [cut(7, 0, 5, complete=False), replace(cut(8, 5, 9), previous_end_lsn=106), cut(9, 9, 12)]
    nothing, passed, group = received(*inside)

    assert nothing is None
    assert passed is not None
    assert passed.is_empty
    assert group is not None
    assert group.ranges == {("p.1", 0): PartitionRange("p.1", 0, 9, 12, 3)}


def test_reader_that_goes_on_takes_the_first_cut() -> None:
    groups = CutGroups(lambda relation_id, topic: True)
    groups.begin_after_complete_cut()
    (group,) = received(cut(7, 3, 5), groups=groups)

    assert group is not None
    assert group.records == 2


def test_part_of_a_transaction_that_an_epoch_cut_off_is_left_out() -> None:
    """It never came whole; every table is copied anew behind it."""
    begun = cut(1, 10, 15, epoch=EPOCH._replace(consistent_point=50))
    *_, group = received(cut(1, 0, 5), cut(2, 5, 9, complete=False), begun)

    assert group is not None
    assert group.ranges == {("p.1", 0): PartitionRange("p.1", 0, 10, 15, 5)}


@pytest.mark.parametrize(
    "wrong",
    [
        cut(3, 5, 9),
        replace(cut(2, 5, 9), previous_end_lsn=100),
        cut(1, 5, 9),
        cut(2, 5, 9, epoch=Epoch("8", 1, "slot", 1)),
    ],
    ids=["one is missing", "continues elsewhere", "begins again", "an epoch without its beginning"],
)
def test_cut_that_does_not_follow_is_refused(wrong: Cut) -> None:
    """I7"""
    with pytest.raises(ProtocolError):
        received(cut(1, 0, 5), wrong)


def test_cut_with_a_hole_is_refused() -> None:
    """I7"""
    torn = replace(cut(1, 0, 5), partitions=(PartitionRange("p.1", 0, 0, 5, 4),))

    with pytest.raises(ProtocolError, match="hole"):
        received(torn)


def test_copy_begins_a_group_of_its_own() -> None:
    """Two copies of a table may begin and end at one LSN."""
    first, second = received(cut(1, 0, 5), cut(2, 5, 9))
    begun = cut(3, 9, 11)
    barrier = Barrier("copy_begin", Position(Lsn(102), -1), "s")
    begun = replace(begun, tables=(replace(begun.tables[0], barriers=(barrier,)),))
    *_, third = received(cut(1, 0, 5), cut(2, 5, 9), begun)

    assert first is not None
    assert second is not None
    assert third is not None
    assert second.may_follow(first)
    assert first.followed_by(second).records == 9
    assert not third.may_follow(second)
