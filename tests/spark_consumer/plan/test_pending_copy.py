"""What is remembered of a copy that goes on beside the stream: where it begins, its shapes, its records."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import at, changes, cut, part
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange
from walbridge.spark_consumer.plan.pending_copy import (
    CopyRange,
    CopyShape,
    PendingCopy,
    begins_without_copy,
    copy_begun,
    has_copy_begin_beside,
)

BEGIN = Barrier("copy_begin", at(500, -1), "v1")
BEGUN = copy_begun("p.a", BEGIN)

SIZES = st.lists(st.dictionaries(st.integers(0, 2), st.integers(1, 5)), max_size=6)
"""By cut: how many records each partition gets."""


@given(SIZES, st.integers(1, 3))
def test_records_of_all_cuts_are_read_once_and_markers_between_them_are_not_counted(
    sizes: list[dict[int, int]], markers: int
) -> None:
    """I7: a range reaches from the first record to the last, over markers and what is of no cut."""
    copy, ends, starts = BEGUN, dict[int, int](), dict[int, int]()
    for of_cut in sizes:
        parts = []
        for partition, count in of_cut.items():
            start = ends.get(partition, 40)
            starts.setdefault(partition, start)
            parts.append(part(start, start + count, partition=partition))
            ends[partition] = start + count + markers
        copy = copy.with_cut(cut(1, parts=[*parts, part(0, 9, topic="p.b")]))

    counts = {partition: sum(each.get(partition, 0) for each in sizes) for partition in ends}
    assert list(copy.ranges()) == [
        PartitionRange("p.a", each, starts[each], ends[each] - markers, counts[each]) for each in sorted(ends)
    ]
    assert (copy.start, copy.schema_id) == (at(500, -1), "v1")


def test_a_shape_counts_from_its_position_on_and_one_that_is_repeated_is_none() -> None:
    """Each session tells the shape anew: a copy of many sessions would else have as many shapes."""
    again = BEGUN.shaped(at(550), "v1")
    altered = BEGUN.shaped(at(610, 1), "v2")

    assert again == BEGUN
    assert altered.shapes == (CopyShape(500, -1, "v1"), CopyShape(610, 1, "v2"))
    assert (altered.start, altered.schema_id) == (at(500, -1), "v2")
    assert altered.shaped(at(620), "v1").schema_id == "v1"


def test_a_copy_whose_table_is_emptied_begins_there_with_its_newest_shape_and_no_records() -> None:
    copy = replace(BEGUN, partitions=(CopyRange(0, 10, 14, 3),)).shaped(at(610, 1), "v2")

    assert copy.began_anew(at(650, 2)) == PendingCopy("p.a", (CopyShape(650, 2, "v2"),))


EPOCHS: dict[str, tuple[Cut, bool]] = {
    "nothing is copied yet": (cut(1), True),
    "of a table only its shape is told": (cut(1, changes(Barrier("shape", at(100), "v1"))), True),
    "the first copy begins": (cut(1, changes(replace(BEGIN, position=at(100, -1)))), False),
    "the first copy begins behind another table": (cut(1, changes(), changes(BEGIN, relation_id=2)), False),
    "the first copy goes on": (cut(1, complete=False), False),
    "a later cut": (cut(2), False),
}


@pytest.mark.parametrize("case", EPOCHS)
def test_an_epoch_whose_tables_are_copied_beside_the_stream_is_told_by_its_first_cut(case: str) -> None:
    """I8: taken for a first copy, tables would stay as they are and be called current."""
    begins, expected = EPOCHS[case]

    assert begins_without_copy(begins) == expected


def test_a_copy_that_begins_is_found_among_the_barriers_of_its_table_alone() -> None:
    beside, other = changes(Barrier("truncate", at(400)), BEGIN), changes(relation_id=2, topic="p.b")
    of = cut(7, beside, other)

    assert [has_copy_begin_beside(of, each) for each in of.tables] == [True, False]
