"""A table's events, divided into segments: pure."""

from __future__ import annotations

from tests.spark_consumer.plan.cuts import at
from walbridge.spark_consumer.plan.segments.segment import Segment, SegmentBuilder


def test_segments_are_numbered_in_order_and_each_begins_where_the_one_before_it_ends() -> None:
    events = SegmentBuilder("v1")
    events.close(at(100))
    events.open(at(100))
    events.schema_id = "v2"
    events.close(None)

    assert events.closed == [Segment(0, "v1", None, at(100)), Segment(1, "v2", at(100), None)]


def test_only_the_first_segment_empties_the_table() -> None:
    """I1: the second one would take the first one's rows away."""
    events = SegmentBuilder("v1")
    events.begin_anew()
    events.close(at(100))
    events.open(at(100))
    events.close(None)

    assert [segment.empties for segment in events.closed] == [True, False]


def test_emptied_table_has_none_of_the_segments_before() -> None:
    events = SegmentBuilder("v1", is_copied=True)
    events.close(at(100))
    events.open(at(100))
    events.begin_anew()
    events.close(None, copy_goes_on=True)

    assert events.closed == [Segment(0, "v1", at(100), None, empties=True, copy_goes_on=True)]


def test_rows_of_a_copy_begin_an_emptied_table() -> None:
    events = SegmentBuilder("v1")
    events.begin_anew(is_copied=True)
    events.close(None)

    assert events.closed == [Segment(0, "v1", None, None, empties=True, is_copied=True)]
