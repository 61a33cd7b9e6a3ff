"""Descriptions of topics, requested from the broker without waiting for the answer."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription

from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S
from walbridge.producer.kafka.described_topic import TOPIC_ID_LENGTH, DescribedTopic
from walbridge.schemas.errors import KafkaAway, OperatorError

_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
DELETED = KafkaError.UNKNOWN_TOPIC_OR_PART
_UNSEEN = (DELETED, KafkaError.TOPIC_AUTHORIZATION_FAILED)

_ENDED_S = REQUEST_TIMEOUT_S + 5
_Answer = TypeVar("_Answer")


class TopicDescriptions:
    """The requested descriptions of some topics. The caller need not wait for the answers."""

    def __init__(self, names: Iterable[str], futures: Mapping[str, "Future[TopicDescription]"]) -> None:
        self.names = frozenset(names)
        self._futures = futures

    @property
    def is_answered(self) -> bool:
        """Whether ``found`` returns at once."""
        return all(future.done() for future in self._futures.values())

    def found(self) -> dict[str, DescribedTopic]:
        """The topics that exist, by name; waits for the answers.

        Raises:
            RetryableError: no broker answers.
            OperatorError: it refuses to tell.
        """
        found = {}
        for name, future in self._futures.items():
            try:
                topic = answer_of(future)
            except KafkaException as error:
                if error.args[0].code() != DELETED:
                    raise not_described(f"topic {name} cannot be described", error.args[0]) from None
            else:
                found[name] = DescribedTopic(str(topic.topic_id)[:TOPIC_ID_LENGTH], len(topic.partitions))
        return found


def answer_of(future: "Future[_Answer]") -> _Answer:
    """What a broker answered. Kafka's client ends each request in time, unless the machine gave it no thread for that.

    Raises:
        KafkaAway: it has not ended this one.
        KafkaException: it was refused, or got no answer.
    """
    try:
        return future.result(_ENDED_S)
    except TimeoutError:
        raise KafkaAway(f"Kafka's client ended no request within {_ENDED_S:.0f} s") from None


def visible_partition_count(asked: "Future[TopicDescription]") -> int:
    """The number of partitions; 0 where there is no such topic, or we may not see it."""
    try:
        return len(answer_of(asked).partitions)
    except KafkaException as error:
        if error.args[0].code() in _UNSEEN:
            return 0
        raise


def not_described(what: str, reason: KafkaError) -> KafkaAway | OperatorError:
    """The error for a request that failed: no broker answers, or our principal may not ask."""
    if reason.code() in _FORBIDDEN:
        return OperatorError(
            f"{what}: {reason.str()}",
            remedy="grant Describe and DescribeConfigs on the topics of this pipeline to walbridge's principal",
        )
    return KafkaAway(f"{what}: {reason.str()}")  # as by a broker that has just started: no result says what passes
