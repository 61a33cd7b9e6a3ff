"""Offsets and failures of one transaction, whatever the order of its callbacks."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message

from walbridge.producer.kafka.deliveries import Deliveries
from walbridge.producer.kafka.published_offsets import Span

FAILED = KafkaError(KafkaError._MSG_TIMED_OUT)


def at(partition: int, offset: int) -> Message:
    return cast(Message, SimpleNamespace(partition=lambda: partition, offset=lambda: offset))


def delivered(*places: tuple[str, int, int]) -> Deliveries:
    """Rows of these topics, answered at these partitions and offsets."""
    deliveries = Deliveries()
    deliveries.in_flight = len(places)
    for topic, partition, offset in places:
        deliveries.callback_of(topic)(None, at(partition, offset))
    return deliveries


@pytest.mark.parametrize("offsets", list(permutations((5, 6, 7))))
def test_span_is_from_the_first_offset_to_the_last_in_whatever_order_they_are_told(offsets: tuple[int, ...]) -> None:
    deliveries = delivered(*(("t", 0, offset) for offset in offsets))

    assert deliveries.spans() == [Span("t", 0, 5, 7, 3)]
    assert deliveries.in_flight == 0


def test_hole_shows_between_span_and_count() -> None:
    """I7: another writer's record lies between ours."""
    (span,) = delivered(("t", 0, 5), ("t", 0, 7)).spans()

    assert span.last - span.first + 1 != span.records


def test_each_partition_of_each_topic_has_a_span_of_its_own() -> None:
    places = [("t", 1, 9), ("s", 0, 3), ("t", 0, 5), ("t", 1, 10)]

    assert delivered(*places).spans() == [Span("s", 0, 3, 3, 1), Span("t", 0, 5, 5, 1), Span("t", 1, 9, 10, 2)]


def test_first_and_last_row_of_a_topic_with_one_partition_answer_for_all_between() -> None:
    deliveries = Deliveries()
    lane = deliveries.open_lane("t")
    lane.count = 4
    for offset in (5, 8):
        lane.delivered(None, at(0, offset))

    assert deliveries.spans() == [Span("t", 0, 5, 8, 4)]


@pytest.mark.parametrize("is_control", [False, True])
def test_failure_is_kept_and_ends_the_wait(is_control: bool) -> None:
    """I1: one row that is not there makes the whole batch void."""
    deliveries = delivered(("t", 0, 5))
    deliveries.in_flight = 2
    callback = deliveries.control_delivered if is_control else deliveries.callback_of("t")
    callback(FAILED, at(0, -1001))
    assert deliveries.failure is not None
    callback(None, at(0, 6))

    assert deliveries.failure is not None
    assert deliveries.in_flight == 0


def test_control_record_is_in_no_span() -> None:
    deliveries = Deliveries()
    deliveries.in_flight = 1
    deliveries.control_delivered(None, at(0, 6))

    assert (deliveries.spans(), deliveries.in_flight, deliveries.failure) == ([], 0, None)
