"""The transaction that is open in Kafka, and the instance of the client that holds it.

In: what the client says. Out: a transaction that is committed or given up, and why (``BatchAborted``), or that another
producer runs. librdkafka has no KIP-890: a late EndTxn could end the *next* transaction. So the instance is replaced
before the next begin after an abort, an unknown outcome, an error of the coordinator or a commit that took suspiciously
long; ``init_transactions`` then fences whatever is still in flight.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from confluent_kafka import KafkaError, KafkaException

from walbridge.producer.errors.servers import another_runs
from walbridge.producer.errors.topics import may_not_write
from walbridge.producer.kafka.deliveries import Deliveries
from walbridge.producer.kafka.instance import SERVE_S, Instance, connected_instance
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

ERROR_LOG_INTERVAL_S = 10.0
_WRONG_CLOCK = (
    "the clock of this machine is too far ahead of the broker's, or behind it (message.timestamp.after.max.ms, "
    "message.timestamp.before.max.ms): set both by NTP, or give the pipeline's topics "
    "message.timestamp.type=LogAppendTime by kafka-configs.sh, and it goes on by itself"
)


class BatchAborted(KafkaAway):
    """The Kafka transaction was aborted or its outcome is unknown: read progress and the stream again."""


class KafkaTransaction:
    """The Kafka transaction of one transactional id, of which at most one is open.

    Args:
        on_wait: called at least once per SLICE_S while Kafka makes us wait.
    """

    def __init__(self, settings: Settings, transactional_id: str, on_wait: Callable[[], None]) -> None:
        self._settings = settings
        self._id = transactional_id
        self._on_wait = on_wait
        self._deliveries = Deliveries()
        self._instance: Instance | None = None
        self._suspect = False
        self._next_error_log_s = 0.0
        self._begun_s = 0.0
        self.in_transaction = False
        self.instance_count = 0
        self.aborted_count = 0
        self._waits_since_s: float | None = None

    def open_instance(self, timeout_s: float = math.inf) -> None:
        """A new instance: fences older ones and ends their open transaction.

        Waits as long as the broker is away; ``on_wait`` may raise to end it.

        Raises:
            OperatorError: the broker refuses for a reason that stays.
            RetryableError: no answer within ``timeout_s``.
        """
        self._instance = None
        self.in_transaction = False
        with self._waiting():
            self._instance = connected_instance(self._settings, self._id, self._on_error, self._on_wait, timeout_s)
        self._suspect = False
        self.instance_count += 1

    @property
    def waits_s(self) -> float:
        """How long the current step has been waiting for Kafka; called from another thread."""
        since_s = self._waits_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @contextmanager
    def _waiting(self) -> Iterator[float]:
        """A block that waits for Kafka; yields the time since when."""
        since_s = self._waits_since_s = time.monotonic()
        try:
            yield since_s
        finally:
            self._waits_since_s = None

    def abort(self) -> None:
        """Give the open transaction up. The instance is not used again.

        Raises:
            OperatorError: another producer runs.
        """
        if (refusal := self._given_up()) is not None:
            raise refusal

    def close(self) -> None:
        """Give the open transaction up when the caller ends for a reason of its own; a fence is not reported."""
        self._given_up()

    def _given_up(self) -> OperatorError | None:
        self._suspect = True
        instance = self._instance
        if instance is None:
            return None
        age_ms = (time.monotonic() - self._begun_s) * 1000
        if self.in_transaction:
            self.in_transaction, self._instance = False, None
            self.aborted_count += 1
            instance.give_up()
        # A transaction that outlived its timeout gets the same answer as one that was fenced.
        if instance.is_fenced and age_ms < self._settings.producer.transaction_timeout_ms:
            return another_runs(self._id, self._settings.name, self._settings.postgres.slot)
        return None

    def _flush(self) -> None:
        assert self._instance is not None
        self._serve(self._instance.flush, SERVE_S)

    def _poll(self, timeout_s: float) -> None:
        assert self._instance is not None
        self._serve(self._instance.poll, timeout_s)

    def _serve(self, wait: Callable[[float], object], timeout_s: float) -> None:
        try:
            wait(timeout_s)
        except KafkaException as error:  # fatal ones are raised here, not given to error_cb
            raise self._aborted(error.args[0]) from None
        self._after_wait()

    def _after_wait(self) -> None:
        self._on_wait()
        if self._deliveries.failure is not None:
            raise self._aborted(self._deliveries.failure)

    def _aborted(self, reason: KafkaError | str) -> BatchAborted | OperatorError:
        if isinstance(reason, KafkaError) and self._instance is not None:
            if self.in_transaction:
                reason = self._instance.failure(reason)
            self._instance.note(reason)
        text = reason if isinstance(reason, str) else reason.str()
        refusal = self._given_up()
        if isinstance(reason, KafkaError) and reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            refusal = refusal or may_not_write(self._settings.name, text)
        if isinstance(reason, KafkaError) and reason.code() == KafkaError.INVALID_TIMESTAMP:
            text = f"{text}; {_WRONG_CLOCK}"
        return refusal or BatchAborted(f"Kafka transaction given up: {text}")

    def _on_error(self, error: KafkaError) -> None:
        # Called by poll for every broker that is away, many times a second: say it now and then.
        self._suspect = True
        if time.monotonic() >= self._next_error_log_s:
            self._next_error_log_s = time.monotonic() + ERROR_LOG_INTERVAL_S
            log.warning("kafka client reports an error", reason=error.str(), code=error.name())
