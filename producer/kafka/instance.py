"""One instance of librdkafka's producer, and the one place that calls it.

In: calls. Out: what they give, or a ``KafkaException`` with the client's reason, whatever came out
of it. A fatal error is raised by the call that happens to serve callbacks. If another callback
runs before that call returns, it runs with the exception set, and Python makes a ``SystemError`` of
that: the reason is behind it, or lost if the callback caught an exception of its own (error_cb,
dr_msg_cb and CallState_end in confluent_kafka's C sources). A second producer of the same slot fences this one: an
instance that is fenced is let go at the first sign, and never called again, not even to be destroyed. What its
operator reads is ``another_runs`` of ``errors.py``.
"""

import contextlib
import ctypes
import logging
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from walbridge.producer.errors.servers import another_runs
from walbridge.producer.kafka.client_config import refusing_properties, transactional_config
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic

log = structlog.get_logger()

T = TypeVar("T")
SLICE_S = 0.5
"""Length of one slice of a wait for Kafka; between two slices Postgres gets its status."""
SERVE_S = 0.15
"""Length of a wait that serves callbacks. The client serves a wait of 200 ms or more in turns and starts the next
turn even after a fatal error: only then can another callback run while the exception is set."""
_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)

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

_OF_A_FAILED_TRANSACTION = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._STATE})
"""Errors that only say that the transaction has failed: its records are answered, or the next one is refused, with
these."""


class Instance:
    """A librdkafka client, used until it is fenced. Every method but ``give_up`` may raise ``KafkaException``."""

    def __init__(self, client: Producer) -> None:
        self._client: Producer | None = client
        self._fenced: KafkaError | None = None
        self.produce: Callable[..., None] = client.produce
        """The client's own method, since it is called for each row. The caller passes what it raises to ``note``."""

    @property
    def is_fenced(self) -> bool:
        """Whether another instance has taken over this one's transactional id."""
        return self._fenced is not None

    def connect(self, topic: str, timeout_s: float) -> None:
        """Connect to a broker first: a client without one looks for its coordinator again only after half a second.

        It asks twice, since the first answer may come over the bootstrap connection, which the client then leaves for a
        connection to the broker under its own name.
        """
        for _ in range(2):
            self._call("list_topics", topic, timeout_s)

    def init(self, timeout_s: float) -> None:
        """Fence older instances and end their open transaction."""
        self._call("init_transactions", timeout_s)

    def begin(self) -> None:
        """Open a transaction."""
        self._call("begin_transaction")

    def commit(self, timeout_s: float) -> None:
        """Commit the transaction. After a timeout, calling it again continues the same commit."""
        self._call("commit_transaction", timeout_s)

    def poll(self, timeout_s: float) -> None:
        """Serve callbacks."""
        self._call("poll", timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Serve callbacks until every record is acknowledged; returns how many are not yet."""
        return int(self._call("flush", timeout_s))

    def partition_count(self, topic: str, timeout_s: float) -> int:
        """The number of partitions that the broker tells now."""
        return len(self._call("list_topics", topic, timeout_s).topics[topic].partitions)

    def failure(self, heard: KafkaError) -> KafkaError:
        """Why the open transaction failed. Of its records the client says only that they were purged then, or that it
        takes no more; a second begin is refused with the reason, and changes nothing."""
        if heard.code() in _OF_A_FAILED_TRANSACTION:
            try:
                self._call("begin_transaction")
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                return heard if reason.code() == KafkaError._STATE else reason
        return heard

    def give_up(self) -> None:
        """Abort the open transaction, if that is possible, and forget its records."""
        # Callbacks that are never called are never freed: hence the last two.
        for name, arguments in (("abort_transaction", (SLICE_S,)), ("purge", ()), ("poll", (0,))):
            if self.is_fenced:
                return
            try:
                self._call(name, *arguments)
            except KafkaException as error:
                # The next instance's init_transactions ends what this call could not.
                log.info(
                    "the open Kafka transaction is left to the next instance, which aborts it",
                    call=name,
                    reason=error.args[0].str(),
                )

    def note(self, reason: KafkaError) -> None:
        """Stop using the client if this error says that another instance fenced it."""
        if reason.code() in FENCED:
            if self._client is not None:
                _keep_for_ever(self._client)
            self._fenced, self._client, self.produce = reason, None, self._refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise KafkaException(self._fenced)

    def _call(self, name: str, *arguments: Any) -> Any:
        if self._client is None:
            self._refuse()
        try:
            return getattr(self._client, name)(*arguments)
        except KafkaException as error:
            reason = error.args[0]
        except SystemError as error:
            reason = _reason_behind(error) or self._fatal_reason()
            if reason is None:
                raise
        self.note(reason)
        raise KafkaException(reason)

    def _fatal_reason(self) -> KafkaError | None:
        """The fatal error of a dead client. It answers a transactional call with it; while a call is under way, only
        that same call."""
        assert self._client is not None
        for ask in (self._client.abort_transaction, self._client.commit_transaction):
            try:
                ask(SLICE_S)
            except KafkaException as error:
                if error.args[0].fatal():
                    reason: KafkaError = error.args[0]
                    return reason
        return None


def _keep_for_ever(client: Producer) -> None:
    """Never destroy the client, not even when Python ends: with reports queued, librdkafka has freed memory twice."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def _reason_behind(error: BaseException | None) -> KafkaError | None:
    while error is not None:
        if isinstance(error, KafkaException):
            reason: KafkaError = error.args[0]
            return reason
        error = error.__cause__ or error.__context__
    return None


def connected_instance(
    settings: Settings,
    transactional_id: str,
    on_error: Callable[[KafkaError], None],
    on_wait: Callable[[], None],
    timeout_s: float,
) -> Instance:
    """A new instance with its transactional id initialised. Waits while the broker is away; ``on_wait`` may raise.

    Raises:
        OperatorError: the broker refuses for a reason that stays.
        RetryableError: no answer within ``timeout_s``.
    """
    # Without a logger librdkafka prints fatal errors to stderr itself; we say them in our words.
    with refusing_properties(settings):
        client = Producer(transactional_config(settings, transactional_id) | {"error_cb": on_error}, logger=_SILENT)
    instance = Instance(client)
    due, deadline_s = BackOff(first_s=0.1, max_s=1.0), time.monotonic() + timeout_s
    while True:
        try:
            instance.connect(progress_topic(settings.name), SLICE_S)
            instance.init(SLICE_S)
            return instance
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            _refuse_definite(reason, settings, transactional_id)
            if time.monotonic() > deadline_s:
                where = settings.kafka.bootstrap_servers
                raise KafkaAway(f"Kafka at {where} opens no transactions: {reason.str()}") from None
            on_wait()
            with contextlib.suppress(KafkaException):
                instance.poll(due.pause_s)
            due.grow()


def _refuse_definite(reason: KafkaError, settings: Settings, transactional_id: str) -> None:
    if reason.code() in FENCED:
        raise another_runs(transactional_id, settings.name, settings.postgres.slot) from None
    if reason.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        timeout_ms = settings.producer.transaction_timeout_ms
        raise OperatorError(
            f"Kafka's brokers allow no transactions of {timeout_ms} ms, which is [producer] transaction_timeout_ms",
            remedy="set it to what transaction.max.timeout.ms of the brokers allows, or raise that",
        ) from None
    if reason.fatal() or reason.code() in _DEFINITE:
        raise OperatorError(
            f"Kafka refuses transactional id {transactional_id}: {reason.str()}",
            remedy="grant Write and Describe on that transactional id, or mend [kafka.client]",
        ) from None
