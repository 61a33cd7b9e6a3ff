"""What the offsets of rows tell before they are committed: whether somebody else wrote, or the topic was made anew."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.producer.kafka.published_offsets import PublishedOffsets, Span, hole


def span(*offsets: int, topic: str = "t", partition: int = 0) -> Span:
    """Of rows at these offsets."""
    return Span(topic, partition, min(offsets), max(offsets), len(offsets))


@given(st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=4))
def test_an_offset_between_ours_that_is_not_ours_is_a_hole_in_whichever_partition(
    of_partitions: list[set[int]],
) -> None:
    """I7."""
    spans = [span(*offsets, partition=partition) for partition, offsets in enumerate(of_partitions)]
    has_gap = any(after - before > 1 for offsets in of_partitions for before, after in pairwise(sorted(offsets)))

    assert (hole(spans) is not None) == has_gap


def test_rows_whose_offsets_the_broker_did_not_tell_are_a_hole() -> None:
    """I7: librdkafka says -1001 where it does not know; a range of as many records would look whole."""
    assert hole([Span("t", 0, -1001, -1001, 1)]) is not None


@pytest.mark.parametrize(("first", "is_told"), [(0, True), (4, True), (5, False), (6, False)])
def test_a_partition_that_goes_on_below_its_end_was_made_anew(first: int, is_told: bool) -> None:
    """Between two transactions lie markers, so a later offset than the next one is right."""
    offsets = PublishedOffsets()
    offsets.note([span(3, 4), span(0, 1, partition=1)])

    assert (offsets.remade_topic([span(first)]) is not None) == is_told


@given(st.lists(st.sets(st.sampled_from([("a", 0), ("a", 1), ("b", 0)])), max_size=6))
def test_each_partition_has_its_first_rows_once(batches: list[set[tuple[str, int]]]) -> None:
    """Only then is the topic's id asked for: each time would cost a request for every batch."""
    offsets, ends = PublishedOffsets(), dict[tuple[str, int], int]()
    for batch in batches:
        spans = [span(ends.get(each, 0), topic=each[0], partition=each[1]) for each in sorted(batch)]

        new = {topic for topic, partition in batch if (topic, partition) not in ends}
        assert offsets.topics_with_first_rows(spans) == new
        assert offsets.remade_topic(spans) is None
        offsets.note(spans)
        ends |= {each: ends.get(each, 0) + 2 for each in batch}
