"""Answers of brokers that never come."""

from concurrent.futures import Future

import pytest
from confluent_kafka.admin import TopicDescription

from walbridge.producer.kafka import topic_descriptions
from walbridge.producer.kafka.topic_descriptions import TopicDescriptions, visible_partition_count
from walbridge.schemas.errors import KafkaAway


def test_request_that_the_client_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_descriptions, "_ENDED_S", 0.01, raising=False)
    asked: Future[TopicDescription] = Future()

    with pytest.raises(KafkaAway, match="ended no request"):
        TopicDescriptions(["t"], {"t": asked}).found()
    with pytest.raises(KafkaAway, match="ended no request"):
        visible_partition_count(asked)
