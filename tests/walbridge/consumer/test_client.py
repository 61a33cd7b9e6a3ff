"""What a broker's answers mean to a reader: a topic that is not told of is not a topic that is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from walbridge.consumer.client import partitions_of
from walbridge.schemas.errors import KafkaAway, OperatorError

TOPIC = "p.public.t"


def answering(error: int | None) -> Any:
    found = SimpleNamespace(partitions={1: None, 0: None}, error=None if error is None else KafkaError(error))
    return SimpleNamespace(list_topics=lambda topic, timeout: SimpleNamespace(topics={topic: found}))


@pytest.mark.parametrize(("error", "wanted"), [(None, [0, 1]), (KafkaError.UNKNOWN_TOPIC_OR_PART, None)])
def test_partitions_are_those_of_a_topic_that_is_there(error: int | None, wanted: list[int] | None) -> None:
    assert partitions_of(answering(error), TOPIC) == wanted


@pytest.mark.parametrize(
    ("error", "wanted"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, OperatorError), (KafkaError.LEADER_NOT_AVAILABLE, KafkaAway)],
)
def test_topic_that_is_not_told_of_is_not_taken_for_one_that_is_gone(error: int, wanted: type[Exception]) -> None:
    """I7: a reader would go on without its events."""
    with pytest.raises(wanted, match=TOPIC):
        partitions_of(answering(error), TOPIC)
