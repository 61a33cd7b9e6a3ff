"""One instance of librdkafka's transactional producer, initialised: the others are fenced.

In: settings and the transactional id. Out: a ``Producer`` after ``init_transactions``, which ended
whatever transaction an older instance had open; or what stops a person from having one.
"""

import contextlib
import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from producer.kafka.topics import refusing_properties, transactional_config
from schemas.errors import KafkaAway, OperatorError
from schemas.settings import Settings

SLICE_S = 0.5
"""Of every wait for Kafka; between slices Postgres gets its status."""
_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)
_PAUSE_MAX_S = 1.0

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_DEFINITE = frozenset(
    {
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError._AUTHENTICATION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)


def opened(
    settings: Settings,
    transactional_id: str,
    on_error: Callable[[KafkaError], None],
    on_wait: Callable[[], None],
    timeout_s: float,
) -> Producer:
    """Waits as long as the broker is away; ``on_wait`` may raise to end it.

    Raises:
        OperatorError: the broker refuses for a reason that stays.
        RetryableError: no answer within ``timeout_s``.
    """
    # Without a logger librdkafka prints fatal errors to stderr itself; we say them in our words.
    with refusing_properties(settings):
        producer = Producer(transactional_config(settings, transactional_id) | {"error_cb": on_error}, logger=_SILENT)
    pause_s, deadline_s = 0.1, time.monotonic() + timeout_s
    while True:
        try:
            producer.init_transactions(SLICE_S)
            return producer
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            _refuse_definite(reason, transactional_id)
            if time.monotonic() > deadline_s:
                where = settings.kafka.bootstrap_servers
                raise KafkaAway(f"Kafka at {where} opens no transactions: {reason.str()}") from None
            on_wait()
            with contextlib.suppress(KafkaException):
                producer.poll(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def another_runs(transactional_id: str) -> OperatorError:
    """Two producers of one slot: the newer one fenced the older."""
    return OperatorError(
        f"another producer runs under transactional id {transactional_id}",
        remedy="stop one of the two",
    )


def _refuse_definite(reason: KafkaError, transactional_id: str) -> None:
    if reason.code() in FENCED:
        raise another_runs(transactional_id) from None
    if reason.fatal() or reason.code() in _DEFINITE:
        raise OperatorError(
            f"Kafka refuses transactional id {transactional_id}: {reason.str()}",
            remedy="grant Write and Describe on that transactional id, or mend [kafka.client]",
        ) from None
