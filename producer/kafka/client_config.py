"""Properties of librdkafka's clients: what all of ours share, and what exactly-once rests on.

In: settings. Out: properties, and refusals of those that an operator may not set or that librdkafka does not take.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from walbridge.producer.kafka.topic_specs import message_bytes_max
from walbridge.schemas.dsn import MASK
from walbridge.schemas.errors import MEND_PROPERTY, OperatorError
from walbridge.schemas.settings import Settings

REQUEST_TIMEOUT_S = 10.0
"""Time limit of a request to the brokers."""
_RESERVED = {
    "acks",
    "allow.auto.create.topics",
    "enable.idempotence",
    "partitioner",
    "request.required.acks",
    "transaction.timeout.ms",
    "transactional.id",
}
_OF_CODE = {
    "default.topic.config",
    "delivery.report.only.error",
    "error_cb",
    "logger",
    "oauth_cb",
    "on_commit",
    "on_delivery",
    "stats_cb",
    "throttle_cb",
}
"""What confluent_kafka takes as objects of Python, which no setting can hold: it raises errors of Python for a text."""
_SET_ELSEWHERE = {
    "bootstrap.servers": "[kafka] bootstrap_servers",
    "message.max.bytes": "[producer] row_bytes_max",
    "metadata.broker.list": "[kafka] bootstrap_servers",
}
"""Properties on which others depend as well, as the Spark job and the topics' own limits, and the setting for each."""


def client_config(settings: Settings) -> dict[str, Any]:
    """Properties of every librdkafka client of ours.

    Raises:
        OperatorError: [kafka.client] has a property that walbridge sets, or one that only a program can.
    """
    passed = {name: value.get_secret_value() for name, value in settings.kafka.client.items()}
    if reserved := sorted(_RESERVED & passed.keys()):
        raise OperatorError(
            f"[kafka.client] has {', '.join(reserved)}, on which exactly-once or the order of rows depends",
            remedy="leave it out of [kafka.client]: walbridge sets it",
        )
    if of_code := sorted(_OF_CODE & passed.keys()):
        raise OperatorError(
            f"[kafka.client] has {', '.join(of_code)}, which only a program can set",
            remedy="leave it out of [kafka.client]",
        )
    for name in sorted(_SET_ELSEWHERE.keys() & passed.keys()):
        setting = _SET_ELSEWHERE[name]
        raise OperatorError(
            f"[kafka.client] has {name}, which is not the producer's alone: {setting} sets it",
            remedy=f"leave it out of [kafka.client], and set {setting}",
        )
    return {
        "bootstrap.servers": settings.kafka.bootstrap_servers,
        "client.id": f"walbridge-{settings.name}",
    } | passed


@contextmanager
def refusing_properties(settings: Settings) -> Iterator[None]:
    """Around the making of a client, which is when librdkafka looks at its properties.

    Raises:
        OperatorError: it does not take one; the values that it quotes are masked (I10).
    """
    try:
        yield
    except KafkaException as error:
        reason = error.args[0].str()
        for value in sorted((each.get_secret_value() for each in settings.kafka.client.values()), key=len)[::-1]:
            reason = reason.replace(value, MASK) if value else reason
        raise OperatorError(f"[kafka.client] is not accepted: {reason}", remedy=MEND_PROPERTY) from None


def admin_client(settings: Settings, hear: Callable[[KafkaError], None] = lambda _: None) -> AdminClient:
    """An admin client. Its errors come as results, so its own lines on stderr are switched off.

    Args:
        hear: called with errors of its connections.

    Raises:
        OperatorError: as ``refusing_properties``.
    """
    with refusing_properties(settings):
        return AdminClient(client_config(settings) | {"log_level": 0, "error_cb": hear})


def transactional_config(settings: Settings, transactional_id: str) -> dict[str, Any]:
    """Properties of the transactional producer, which writes rows, progress and cuts."""
    timeout_ms = settings.producer.transaction_timeout_ms
    return {
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": settings.topics.compression,
        "linger.ms": 20,  # a flush ends the wait; until then larger batches cost less
        "batch.num.messages": 10_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        "queue.buffering.max.messages": 200_000,
        "partitioner": "murmur2_random",  # as Java clients do
        # A topic that was deleted is never made anew by writing to it: its rows fail, and its table gets another topic.
        "allow.auto.create.topics": False,
        "topic.metadata.propagation.max.ms": 10_000,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        "message.max.bytes": message_bytes_max(settings),
        "log_level": 0,
    } | client_config(settings)
