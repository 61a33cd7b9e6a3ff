"""Kafka transactions: rows, then progress and cut, all or nothing.

In: records, and at the end of a batch the two control records. Out: the offsets of the rows,
learnt from delivery callbacks only: list_offsets may count a marker, and watermarks are slow.
librdkafka has no KIP-890: a late EndTxn could end the *next* transaction. So the instance is
replaced before the next begin after an abort, an unknown outcome, an error of the coordinator or
a commit that took suspiciously long; ``init_transactions`` then fences whatever is still in
flight. Every wait is cut into slices so that Postgres hears from us.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException

from walbridge.producer.encoding.copied_rows import EncodedRow
from walbridge.producer.encoding.record import Headers
from walbridge.producer.errors.rows import record_too_large, row_too_large
from walbridge.producer.errors.servers import another_runs
from walbridge.producer.errors.topics import may_not_write
from walbridge.producer.kafka.deliveries import Delivered, Deliveries, Span, Unsent
from walbridge.producer.kafka.instance import SERVE_S, SLICE_S, Instance, opened
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

POLL_EVERY_RECORDS = 500
ERROR_LOG_INTERVAL_S = 10.0
LATE_S = 2.0
"""Rows that are not taken for so long may be for a topic that is gone."""


class BatchAborted(KafkaAway):
    """The Kafka transaction was aborted or its outcome is unknown: read progress and the stream again."""


class ControlRecord(NamedTuple):
    """``value`` None removes what a compacted topic has under the key."""

    topic: str
    key: bytes | None
    value: bytes | None


class Publisher:
    """The transactional producer of one slot.

    Args:
        on_wait: called at least once per SLICE_S while Kafka makes us wait.
    """

    def __init__(self, settings: Settings, transactional_id: str, on_wait: Callable[[], None]) -> None:
        self._settings = settings
        self._id = transactional_id
        self._on_wait = on_wait
        self._partition_counts: dict[str, int] = {}
        self._relations: dict[str, RelationRecord] = {}
        self._ends: dict[tuple[str, int], int] = {}
        """By topic and partition: where the rows of this instance end."""
        self._deliveries = Deliveries()
        self._instance: Instance | None = None
        self._suspect = False
        self._unpolled = 0
        self._next_error_log_s = 0.0
        self._begun_s = 0.0
        self.in_transaction = False
        self.on_replaced: Callable[[], None] = lambda: None
        """Called when ``begin`` has replaced the instance; raises where somebody else wrote before that."""
        self.on_first_rows: Callable[[set[str]], None] = lambda topics: None
        """Called with topics of which a partition has rows of this instance for the first time, before these are
        committed; raises where they are not the topics that they must be."""
        self.on_late: Callable[[Collection[str]], None] = lambda topics: None
        """Called now and then while rows of these topics are not taken; raises likewise."""
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
        self._ends.clear()
        with self._waiting():
            self._instance = opened(self._settings, self._id, self._on_error, self._on_wait, timeout_s)
        self._suspect = False
        self.instance_count += 1

    @property
    def waits_s(self) -> float:
        """How long the step that goes on has waited for Kafka; another thread may ask."""
        since_s = self._waits_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @contextmanager
    def _waiting(self) -> Iterator[float]:
        """A step that Kafka has to answer; since when."""
        since_s = self._waits_since_s = time.monotonic()
        try:
            yield since_s
        finally:
            self._waits_since_s = None

    def begin(self) -> None:
        """Open a Kafka transaction, on a new instance if the last one is in doubt.

        Raises:
            BatchAborted: it cannot begin, or another producer published since the last one.
        """
        if self._suspect or self._instance is None:
            log.warning("kafka producer replaced", transactional_id=self._id)
            self.open_instance()
            self.on_replaced()
        assert self._instance is not None
        self._deliveries = Deliveries()
        self._begun_s = time.monotonic()
        try:
            self._instance.begin()
        except KafkaException as error:
            raise self._aborted(error.args[0]) from None
        self.in_transaction = True

    def expect(self, relation: RelationRecord) -> None:
        """Declare a relation version, and its topic: more partitions are noticed before a commit (I3)."""
        self._partition_counts[relation.topic] = relation.partition_count
        self._relations[relation.frame_id] = relation

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = None, partition: int = -1
    ) -> None:
        """Queue one row, or a tombstone; blocks, bounded by the transaction, while the queue is full.

        Raises:
            BatchAborted: the transaction cannot succeed any more.
        """
        deliveries = self._deliveries
        lane = deliveries.lanes.get(topic)
        if lane is None and self._partition_counts[topic] == 1:
            lane = deliveries.open_lane(topic)
        if lane is None:
            self._produce(topic, (key, value, headers), partition, deliveries.callback_of(topic))
        else:
            row, lane.held = lane.held, (key, value, headers)
            lane.count += 1
            # Rows between the first and the last need no callback. Producing them here saves a call for each row; if
            # that fails, _produce tries again and finds the reason.
            if lane.count > 2 and row is not None and row[2] is None:
                try:
                    self._instance.produce(topic, row[1], row[0])  # type: ignore[union-attr]
                except (BufferError, KafkaException):
                    self._produce(topic, row, -1, None)
            elif row is not None:
                self._produce(topic, row, -1, lane.delivered if lane.count == 2 else None)
        self._unpolled += 1
        if self._unpolled >= POLL_EVERY_RECORDS:
            self._unpolled = 0
            self._poll(0)

    def send_rows(self, topic: str, rows: Iterable[EncodedRow], end: bytes) -> None:
        """Queue many rows without headers, whose values have this end in common.

        Raises:
            BatchAborted: the transaction cannot succeed any more.
        """
        left = iter(rows)
        lane = self._deliveries.lanes.get(topic)
        while lane is None or lane.count < 2 or lane.held is None or lane.held[2] is not None:
            row = next(left, None)
            if row is None:
                return
            self.send(topic, row[0], row[1] + end)
            lane = self._deliveries.lanes.get(topic)
        # As ``send``, without a call for each row.
        (held_key, held, _), produce = lane.held, self._instance.produce  # type: ignore[union-attr]
        for key, value in left:
            try:
                produce(topic, held, held_key)
            except (BufferError, KafkaException):
                self._produce(topic, (held_key, held, None), -1, None)
            held_key, held = key, value + end
            lane.count += 1
        lane.held = held_key, held, None
        self._poll(0)

    def _produce(self, topic: str, row: Unsent, partition: int, callback: Delivered | None) -> None:
        assert self._instance is not None
        send, (key, value, headers) = self._instance.produce, row
        since_s = time.monotonic()
        while True:
            try:
                if headers is not None:
                    send(topic, value, key, partition, on_delivery=callback, headers=headers)
                else:
                    send(topic, value, key, partition, on_delivery=callback)
                self._deliveries.in_flight += callback is not None
                self._waits_since_s = None
                return
            except BufferError:
                self._waits_since_s = since_s
                self._poll(SERVE_S)
                self._look_if_late(since_s)
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._too_large(topic, value or b"") from None
                raise self._aborted(reason) from None

    def _too_large(self, topic: str, value: bytes) -> OperatorError:
        """Rows are refused before they come here (``OpenBatch.refuse_too_large``); logical messages are not."""
        relation, row_bytes_max = self._relations.get(frame_of(value).frame_id), self._settings.producer.row_bytes_max
        if relation is not None:
            return row_too_large(relation, value, row_bytes_max)
        return record_too_large(topic, value, row_bytes_max)

    def delivered_ranges(self) -> list[PartitionRange]:
        """Wait until every row is acknowledged; the exact ranges of this transaction.

        Raises:
            BatchAborted: a row failed, or an offset is missing or foreign between ours.
        """
        for topic, lane in self._deliveries.lanes.items():
            if lane.held is not None:
                row, lane.held = lane.held, None
                self._produce(topic, row, -1, lane.delivered)
        with self._waiting() as since_s:
            while self._deliveries.in_flight:
                self._flush()
                self._look_if_late(since_s)
        spans = self._deliveries.spans()
        self._refuse_growth(spans)
        self._refuse_remade(spans)
        for topic, partition, first, last, records in spans:
            if first < 0 or last - first + 1 != records:
                raise self._aborted(f"{records} records of {topic}/{partition} lie at {first} to {last}")
        return [PartitionRange(s.topic, s.partition, s.first, s.last + 1, s.records) for s in spans]

    def _look_if_late(self, since_s: float) -> None:
        """The client asks a broker again and again to let it write to a topic that is gone, as long as a transaction
        may take."""
        if time.monotonic() - since_s > LATE_S:
            self.on_late(self._deliveries.topics)

    def _refuse_growth(self, spans: list[Span]) -> None:
        # librdkafka spreads keys over a new partition as soon as it hears of it, and moves others
        # between the old ones; counts only grow, so what the broker says now held for every row.
        for topic, partition, first, last, records in {span.topic: span for span in spans}.values():
            count, found = self._partition_counts[topic], partition + 1
            # One partition of which nothing is missing held every row.
            if found <= count and (count > 1 or last - first + 1 != records):
                found = self._partition_count(topic)
            if found > count:
                # The next session finds the same, and tells the table.
                raise self._aborted(f"topic {topic} has {found} partitions, its rows were spread over {count}")

    def _refuse_remade(self, spans: list[Span]) -> None:
        """Offsets of a topic that was made anew begin at 0 again; where nothing was written yet, its id tells."""
        for topic, partition, first, _, _ in spans:
            if first < self._ends.get((topic, partition), 0):
                raise self._aborted(f"{topic}/{partition} goes on at offset {first}: the topic was made anew")
        if first_rows := {span.topic for span in spans if (span.topic, span.partition) not in self._ends}:
            self.on_first_rows(first_rows)
        self._ends |= {(span.topic, span.partition): span.last + 1 for span in spans}

    def _partition_count(self, topic: str) -> int:
        assert self._instance is not None
        while True:
            try:
                return self._instance.partition_count(topic, SLICE_S)
            except KafkaException as error:
                if self._instance.is_fenced:
                    raise self._aborted(error.args[0]) from None
                self._poll(0.01)  # what fails at once must not spin

    def commit(self, control_records: list[ControlRecord]) -> None:
        """Send the control records, in this order, and commit.

        Raises:
            BatchAborted: aborted, or the outcome is unknown.
        """
        assert self._instance is not None
        for topic, key, value in control_records:
            self._produce(topic, (key, value, None), 0, self._deliveries.control_delivered)
        kill_point("produce:control-records")
        with self._waiting() as started_s:
            self._commit_in_slices()
        self.in_transaction = False
        if self._deliveries.failure is not None:
            raise self._aborted(self._deliveries.failure)
        if (time.monotonic() - started_s) * 1000 > self._settings.producer.commit_suspect_ms:
            self._suspect = True

    def _commit_in_slices(self) -> None:
        assert self._instance is not None
        while True:
            try:
                self._instance.commit(SLICE_S)
                return
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() != KafkaError._TIMED_OUT and not reason.retriable():
                    raise self._aborted(reason) from None
                # Our own slice ran out; the same call continues the same commit.
                self._poll(0.01)  # an error that comes at once must not make us spin

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
        return refusal or BatchAborted(f"Kafka transaction given up: {text}")

    def _on_error(self, error: KafkaError) -> None:
        # Called by poll for every broker that is away, many times a second: say it now and then.
        self._suspect = True
        if time.monotonic() >= self._next_error_log_s:
            self._next_error_log_s = time.monotonic() + ERROR_LOG_INTERVAL_S
            log.warning("kafka client reports an error", reason=error.str(), code=error.name())
