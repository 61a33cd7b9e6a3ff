"""Which cut may follow another, and what is told of one that may not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.plan.cuts import EPOCH, HEAD, changes, cut, numbered, part
from walbridge.schemas.control.cut import Cut, PartitionRange
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.spark_consumer.plan.cut_faults import cut_fault, topic_faults
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import make_plan

FAULTY = {
    "a cut is missing": (cut(1), cut(3)),
    "an LSN is missing": (cut(1), cut(2, previous_end_lsn=999, end_lsn=1000)),
    "an epoch begins in its middle": (None, cut(2)),
    "records belong to no table": (cut(1), cut(2, parts=[part(0, 5)])),
}
OF_A_TABLE = {
    "a range has a hole": cut(2, changes(rows=4), parts=[PartitionRange("p.a", 0, 0, 5, 4)]),
    "a range has more records than offsets": cut(2, changes(rows=6), parts=[PartitionRange("p.a", 0, 0, 5, 6)]),
    "a table has more records than its partitions": cut(2, changes(rows=6), parts=[part(0, 5)]),
    "a table has fewer records than its partitions": cut(2, changes(rows=4), parts=[part(0, 5)]),
    "a table counts records that are nowhere": cut(2, changes(rows=5)),
}


@pytest.mark.parametrize("previous_and_cut", FAULTY.values(), ids=FAULTY.keys())
def test_a_cut_that_does_not_fit_is_told(previous_and_cut: tuple[Cut | None, Cut]) -> None:
    """I7."""
    assert cut_fault(*previous_and_cut)


@pytest.mark.parametrize("faulty", OF_A_TABLE.values(), ids=OF_A_TABLE.keys())
def test_a_cut_that_does_not_fit_in_one_table_is_the_trouble_of_that_table(faulty: Cut) -> None:
    """I7: nothing of it is read, nor of a copy that it is a part of; in its copy's cuts each record counts."""
    beside = changes(rows=1, relation_id=2, topic="p.b")
    both = replace(faulty, tables=(*faulty.tables, beside), partitions=(*faulty.partitions, part(0, 1, "p.b")))
    goes_on = PendingCopy("p.a", (CopyShape(50, -1, "v1"),))
    other = replace(HEAD, relation_id=2, topic="p.b", path="public/b")
    assert cut_fault(cut(1), both) is None

    for heads, copies in (({1: HEAD, 2: other}, {}), ({2: other}, {1: goes_on})):
        plan = make_plan(numbered(both), heads, copies, (), topic_faults(both))
        assert [(each.relation_id, each.state) for each in plan.troubles] == [(1, "stale")]
        assert ([table.topic for table in plan.tables], [*plan.ranges], plan.copies) == (["p.b"], [("p.b", 0)], {})
    left = make_plan(numbered(both), {1: replace(HEAD, state="stale"), 2: other}, {}, [1], topic_faults(both))
    assert (left.troubles, [*left.ranges]) == ((), [("p.b", 0)])


def test_a_cut_that_follows_is_accepted() -> None:
    assert cut_fault(cut(1), cut(2, changes(rows=5), parts=[part(0, 3), part(0, 2, partition=1)])) is None


def test_a_new_epoch_begins_with_cut_one() -> None:
    assert cut_fault(cut(9), cut(1, epoch=EPOCH._replace(consistent_point=500))) is None


COUNTS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=4)
"""By topic and partition: how many records a cut has there."""


def counted(counts: list[list[int]]) -> Cut:
    """A cut that tells the same by table and by partition."""
    parts = [part(7, 7 + n, f"p.{topic}", number) for topic, each in enumerate(counts) for number, n in enumerate(each)]
    tables = [changes(rows=sum(each), relation_id=topic + 1, topic=f"p.{topic}") for topic, each in enumerate(counts)]
    return cut(2, *tables, parts=parts)


@given(COUNTS, st.data())
def test_only_topics_whose_counts_differ_have_a_fault(counts: list[list[int]], data: st.DataObject) -> None:
    """I7: whichever they are, and however many; one table's fault is no other's."""
    of = counted(counts)
    assert topic_faults(of) == {}
    tables, parts = list(of.tables), list(of.partitions)
    wrong = data.draw(st.sets(st.integers(0, len(counts) - 1)))
    for topic in wrong:
        if data.draw(st.booleans()):
            count = tables[topic].row_count
            tables[topic] = replace(tables[topic], row_count=count - 1 if count else 1)
        else:
            place = next(n for n, each in enumerate(parts) if each.topic == f"p.{topic}")
            parts[place] = replace(parts[place], end_offset=parts[place].end_offset + 1)

    assert topic_faults(replace(of, tables=tuple(tables), partitions=tuple(parts))).keys() == {f"p.{n}" for n in wrong}


def test_records_of_logical_messages_that_are_lost_are_a_fault_of_the_whole_cut() -> None:
    """I7: they are of no table that could be left alone."""
    messages = changes(rows=4, relation_id=MESSAGES_RELATION_ID, topic="p.messages")

    assert cut_fault(cut(1), cut(2, messages, parts=[part(0, 4, "p.messages")])) is None
    assert "p.messages" in (cut_fault(cut(1), cut(2, messages, parts=[part(0, 3, "p.messages")])) or "")
