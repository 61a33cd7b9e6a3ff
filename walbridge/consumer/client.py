"""The Kafka client of a reader: the properties that a caller may not change, and what errors mean.

In: the caller's librdkafka properties. Out: a consumer that is assigned partitions by hand, reads committed records
only, and commits offsets only when the caller asks. An offset that Kafka no longer has is an error, never a jump (I7).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from walbridge.consumer.event import KafkaRecord
from walbridge.schemas.errors import KafkaAway, OperatorError

ANSWER_S = 10.0
SLICE_S = 0.5
"""How long a reader waits for a record before it looks at what else is due."""
REFRESH_S = 5.0
"""How often a reader looks whether its topics still exist, and whether its tables have new ones."""
_OURS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_QUEUED_KBYTES = 8_192
"""What the client fetches ahead (I9); each consumer may have twice as much for a moment."""
WITHOUT_GROUP = "walbridge-reader"
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
)
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


def reader(kafka: Mapping[str, Any], **more: Any) -> Consumer:
    """A consumer of these properties.

    Raises:
        OperatorError: the caller sets a property that walbridge sets, or one that librdkafka does not accept.
    """
    if wrong := sorted(name for name, value in _OURS.items() if kafka.get(name, value) != value):
        raise OperatorError(
            f"the Kafka properties have {', '.join(wrong)}, which keep records from being read twice or missed",
            remedy="leave it out: walbridge sets it",
        )
    defaults = {"group.id": WITHOUT_GROUP, "queued.max.messages.kbytes": _QUEUED_KBYTES, "fetch.wait.max.ms": 100}
    try:
        return Consumer(defaults | dict(kafka) | _OURS | more)
    except KafkaException as error:
        raise OperatorError(
            f"the Kafka properties are not accepted: {_without_values(error, kafka)}",
            remedy="mend that property; librdkafka's documentation lists them",
        ) from None


def _without_values(error: KafkaException, kafka: Mapping[str, Any]) -> str:
    """librdkafka's message without the property values that it quotes (I10)."""
    reason: str = error.args[0].str()
    for value in sorted(map(str, kafka.values()), key=len)[::-1]:
        reason = reason.replace(value, "***") if value else reason
    return reason


def refusal(error: KafkaError, place: str) -> OperatorError | KafkaAway | None:
    """The exception for an error of a read; None where reading may go on after a wait."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return OperatorError(
            f"records of {place} that were not read yet are gone: their topic keeps them for a time only",
            remedy="begin anew, with an empty target and another group.id; walbridge copy TABLE brings its rows again",
        )
    if error.code() in _FORBIDDEN:
        return OperatorError(
            f"{place} may not be read: {error.str()}",
            remedy="let this principal Read and Describe the topic and the group",
        )
    if error.code() in (KafkaError._PARTITION_EOF, *_GONE, *_AWAY) or error.retriable():
        return None
    return KafkaAway(f"{place} cannot be read: {error.str()}")


def _failure(error: KafkaError, place: str, otherwise: str) -> OperatorError | KafkaAway:
    """The exception for an error of a request, which nothing follows: the refusal, or else that Kafka is away."""
    return refusal(error, place) or KafkaAway(f"{otherwise}: {error.str()}")


def record_of(message: Message) -> KafkaRecord:
    """A message without an error."""
    headers = cast(list[tuple[str, bytes]], message.headers() or [])  # as they were sent: values are bytes
    return KafkaRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.key(),
        message.value() or b"",
        tuple(headers),
    )


def partitions_of(consumer: Consumer, topic: str) -> list[int] | None:
    """None where there is no such topic.

    Raises:
        KafkaAway: no broker answers, or none knows its state.
        OperatorError: the topic may not be read: it is not missing, and neither are its events.
    """
    try:
        found = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
    except KafkaException as error:
        raise KafkaAway(f"Kafka does not answer: {error.args[0].str()}") from None
    if found.error is None:
        return sorted(found.partitions)
    if found.error.code() in _GONE:
        return None
    raise _failure(found.error, topic, f"Kafka does not tell of {topic}")


def bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The first offset that is kept, and the one behind the last committed one.

    Raises:
        KafkaAway: no broker answers.
        OperatorError: the partition may not be read.
    """
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S)
    except KafkaException as error:
        raise _failure(error.args[0], f"{topic}[{partition}]", "Kafka does not answer") from None
    return int(low), int(high)


def committed(consumer: Consumer, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The offsets that the group has committed, of those partitions that have one.

    Raises:
        KafkaAway: no broker answers.
        OperatorError: the group may not be read.
    """
    try:
        found = consumer.committed([TopicPartition(*partition) for partition in partitions], timeout=ANSWER_S)
    except KafkaException as error:
        raise _failure(error.args[0], "the group's offsets", "Kafka does not answer") from None
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def commit(consumer: Consumer, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets for the group, and wait for the answer.

    Raises:
        KafkaAway: no broker answers.
        OperatorError: the group may not be used.
    """
    if not offsets:
        return
    try:
        consumer.commit(
            offsets=[TopicPartition(*partition, offset) for partition, offset in offsets.items()], asynchronous=False
        )
    except KafkaException as error:
        raise _failure(error.args[0], "the group's offsets", "offsets are not committed") from None


class TopicIds:
    """Asks for Kafka's ids of topics: one that is made again under its name has another."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._kafka = kafka
        self._admin: AdminClient | None = None

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """Of those that are there.

        Raises:
            KafkaAway: no broker answers.
            OperatorError: they may not be described.
        """
        if not topics:
            return {}
        if self._admin is None:  # its log would warn of each property that only consumers have
            self._admin = AdminClient(dict(self._kafka) | {"log_level": 0})
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=ANSWER_S)
        found = {}
        for topic, future in asked.items():
            try:
                found[topic] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() not in _GONE:
                    raise _failure(error.args[0], topic, f"Kafka does not tell of {topic}") from None
        return found


def refuse_remade(topics: Iterable[str], now: Mapping[str, str], kept: Mapping[str, str]) -> None:
    """Refuse offsets of topics that were deleted and made again since.

    Args:
        topics: those that are read from an offset that was kept.
        now: Kafka's ids of the topics now.
        kept: the ids of the topics when the offsets were kept.

    Raises:
        OperatorError: one was deleted and made again, as by ``walbridge drop``.
    """
    for topic in topics:
        if now.get(topic, "") != kept.get(topic, now.get(topic, "")):
            raise OperatorError(
                f"topic {topic} was deleted and made again since the offsets to start at were kept: they are of other "
                "records",
                remedy="begin anew, with an empty target, another group.id, and without start and topic_ids",
            )


def refuse_forgotten(kafka: Mapping[str, Any], kept: Mapping[str, str]) -> None:
    """Refuse to begin without offsets where the kept ids show that this reader has read before.

    Raises:
        OperatorError: it would begin at the oldest records, and miss what Kafka deleted in between.
    """
    if kept:
        raise OperatorError(
            "topic_ids say that topics of this pipeline were read, and neither start nor the group "
            f"{kafka.get('group.id', WITHOUT_GROUP)} has an offset of them: Kafka forgets a group's after a time "
            "without a commit",
            remedy="give start the offsets that were kept; or begin anew, with an empty target and without topic_ids, "
            "and run walbridge copy TABLE",
        )


def topic_deleted(topic: str) -> OperatorError:
    """The error for a topic that was deleted, or made again, before it was read to its end."""
    return OperatorError(
        f"topic {topic} was deleted before it was read to its end: what was not read of it is gone",
        remedy="begin again, with an empty target: the copy of its table in the topic that it has by then brings all "
        "rows",
    )
