"""What the broker says of topics that it was asked for, or why it does not."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription

from walbridge.producer.kafka.topic_found import TOPIC_ID_LENGTH, TopicFound
from walbridge.schemas.errors import KafkaAway, OperatorError

AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
DELETED = KafkaError.UNKNOWN_TOPIC_OR_PART
_UNSEEN = (DELETED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class AskedTopics:
    """Topics that the broker has been asked for; whoever asks need not wait."""

    def __init__(self, names: Iterable[str], futures: Mapping[str, "Future[TopicDescription]"]) -> None:
        self.names = frozenset(names)
        self._futures = futures

    @property
    def is_answered(self) -> bool:
        """Whether ``found`` returns at once."""
        return all(future.done() for future in self._futures.values())

    def found(self) -> dict[str, TopicFound]:
        """Those that exist.

        Raises:
            RetryableError: no broker answers.
            OperatorError: it refuses to tell.
        """
        found = {}
        for name, future in self._futures.items():
            try:
                topic = future.result()
            except KafkaException as error:
                if error.args[0].code() != DELETED:
                    raise unanswered(f"topic {name} cannot be described", error.args[0]) from None
            else:
                found[name] = TopicFound(str(topic.topic_id)[:TOPIC_ID_LENGTH], len(topic.partitions))
        return found


def seen_partition_count(asked: "Future[TopicDescription]") -> int:
    """0: there is no such topic, or we may not see it."""
    try:
        return len(asked.result().partitions)
    except KafkaException as error:
        if error.args[0].code() in _UNSEEN:
            return 0
        raise


def unanswered(what: str, reason: KafkaError) -> KafkaAway | OperatorError:
    """What a question came to: nobody answers, or whoever asks may not know."""
    if reason.retriable() or reason.code() in (*AWAY, DELETED):
        return KafkaAway(f"{what}: {reason.str()}")
    return OperatorError(
        f"{what}: {reason.str()}",
        remedy="grant Describe and DescribeConfigs on the topics of this pipeline to walbridge's principal",
    )
