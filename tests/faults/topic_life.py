"""Topics that are deleted, made anew or grow under a pipeline."""

from __future__ import annotations

import contextlib

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until

ANSWER_S = 60.0


class TopicLife:
    """What somebody else does to the topics of one pipeline."""

    def __init__(self, producer: ProducerUnderTest) -> None:
        self._producer = producer
        self._admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers, "log_level": 2})

    def count(self, topic: str) -> int:
        """Its partitions; 0 where there is none."""
        found = self._admin.list_topics(topic, timeout=ANSWER_S).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def delete(self, topic: str) -> None:
        self._producer.deleted_topics.add(topic)
        self._admin.delete_topics([topic])[topic].result(ANSWER_S)
        wait_until(lambda: not self.count(topic), f"{topic} to be gone")

    def remake(self, topic: str, partitions: int = 1) -> None:
        """Delete it, and make it anew with the broker's settings."""
        self.delete(topic)

        def made() -> bool:
            with contextlib.suppress(KafkaException):  # its last life is still being deleted
                self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ANSWER_S)
            return self.count(topic) == partitions

        wait_until(made, f"{topic} to be made anew")

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(ANSWER_S)
        wait_until(lambda: self.count(topic) == partitions, "the new partition")
