"""Which cut may follow another, and what is told of one that may not."""

import pytest

from tests.spark_consumer.plan.cuts import EPOCH, changes, cut, part
from walbridge.schemas.cut import Cut, PartitionRange
from walbridge.spark_consumer.plan.plan import (
    cut_fault,
)

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
