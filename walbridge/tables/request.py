"""Writes what an operator asks of tables into the progress topic, where the producer reads it.

In: requests. Out: the offset of the last one, acknowledged by all replicas that are in sync. They are no part of a
Kafka transaction: a transactional instance would fence the running producer. A request that is written twice, by
the client or by the operator, is one: it says what is wanted, not what to do.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from walbridge.producer.kafka.client_config import client_config, refusing_properties
from walbridge.schemas.control.table_request import TableRequest, encode_request, request_key
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic

ANSWER_S = 10.0
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def write(settings: Settings, requests: Iterable[TableRequest]) -> int:
    """Durable when it returns; the offset of the last.

    Raises:
        RetryableError: the broker did not acknowledge all of them.
        OperatorError: it does not let us write.
    """
    topic, slot = progress_topic(settings.name), settings.postgres.slot
    offsets: list[int] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            offsets.append(message.offset() or 0)

    config: dict[str, Any] = {
        "acks": "all",
        # A request twice is one; an idempotent client without the right to write fails as a whole, in its own thread.
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "message.timeout.ms": int(ANSWER_S * 1000),
        "log_level": 0,
        "error_cb": lambda error: None,
    }
    try:
        with refusing_properties(settings):
            producer = Producer(config | client_config(settings))
        for request in requests:
            key = request_key(slot, request)
            producer.produce(topic, encode_request(request), key=key, partition=0, on_delivery=delivered)
        left = producer.flush(ANSWER_S + 1)
    except KafkaException as error:
        raise _refusal(topic, error.args[0]) from None
    if failures:
        raise _refusal(topic, failures[0])
    if left:
        raise KafkaAway(f"topic {topic} was not written: no answer within {ANSWER_S:g} s")
    return max(offsets)


def _refusal(topic: str, error: KafkaError) -> OperatorError | KafkaAway:
    if error.code() in _FORBIDDEN:
        return OperatorError(
            f"topic {topic} may not be written: {error.str()}", remedy=f"let walbridge's principal WRITE topic {topic}"
        )
    return KafkaAway(f"topic {topic} was not written: {error.str()}")
