"""Kafka transactions: rows, then progress and cut, all or nothing.

In: records, and at the end of a batch the two control records. Out: the offsets of the rows,
learnt from delivery callbacks only: list_offsets may count a marker, and watermarks are slow.
Every wait is cut into slices so that Postgres hears from us.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException

from walbridge.producer.encoding.copied_rows import EncodedRow
from walbridge.producer.encoding.kafka_record import Headers
from walbridge.producer.errors.rows import record_too_large, row_too_large
from walbridge.producer.kafka.deliveries import Delivered, Deliveries, Unsent
from walbridge.producer.kafka.instance import SERVE_S, SLICE_S
from walbridge.producer.kafka.kafka_transaction import KafkaTransaction
from walbridge.producer.kafka.published_offsets import PublishedOffsets, Span, hole
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

POLL_EVERY_RECORDS = 500
LATE_S = 2.0
"""Rows that are not taken for so long may be for a topic that is gone."""


class ControlRecord(NamedTuple):
    """``value`` None removes what a compacted topic has under the key."""

    topic: str
    key: bytes | None
    value: bytes | None


class Publisher(KafkaTransaction):
    """The transactional producer of one slot.

    Args:
        on_wait: called at least once per SLICE_S while Kafka makes us wait.
    """

    def __init__(self, settings: Settings, transactional_id: str, on_wait: Callable[[], None]) -> None:
        super().__init__(settings, transactional_id, on_wait)
        self._partition_counts: dict[str, int] = {}
        self._relations: dict[str, RelationRecord] = {}
        self._offsets = PublishedOffsets()
        self._unpolled = 0
        self.on_opened: Callable[[], None] = lambda: None
        """Called once an instance is open and those before it are fenced. Returns when readers see all that these
        published: while one runs, it has a transaction open most of the time."""
        self.on_replaced: Callable[[], None] = lambda: None
        """Called when ``begin`` has replaced the instance; raises where somebody else wrote before that."""
        self.on_first_rows: Callable[[set[str]], None] = lambda topics: None
        """Called with topics of which a partition has rows of this instance for the first time, before these are
        committed; raises where they are not the topics that they must be."""
        self.on_late: Callable[[Collection[str]], None] = lambda topics: None
        """Called now and then while rows of these topics are not taken; raises likewise."""

    def open_instance(self, timeout_s: float = math.inf) -> None:
        """As ``KafkaTransaction.open_instance``, and ``on_opened``. What was published before says nothing of what
        comes."""
        self._offsets = PublishedOffsets()
        super().open_instance(timeout_s)
        self.on_opened()

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
        # Each lane's newest row was held back, since only now it is known to be the last, whose callback tells where
        # the range ends.
        for topic, lane in self._deliveries.lanes.items():
            if lane.held is not None:
                row, lane.held = lane.held, None
                self._produce(topic, row, -1, lane.delivered)
        with self._waiting() as since_s:
            while self._deliveries.in_flight:
                self._flush()
                self._look_if_late(since_s)
        spans = self._deliveries.spans()
        if (fault := self._growth(spans) or self._offsets.remade_topic(spans)) is not None:
            raise self._aborted(fault)
        if first_rows := self._offsets.topics_with_first_rows(spans):
            self.on_first_rows(first_rows)
        self._offsets.note(spans)
        if (fault := hole(spans)) is not None:
            raise self._aborted(fault)
        return [PartitionRange(s.topic, s.partition, s.first, s.last + 1, s.records) for s in spans]

    def _look_if_late(self, since_s: float) -> None:
        """The client asks a broker again and again to let it write to a topic that is gone, as long as a transaction
        may take."""
        if time.monotonic() - since_s > LATE_S:
            self.on_late(self._deliveries.topics)

    def _growth(self, spans: list[Span]) -> str | None:
        """A topic that got partitions while rows were spread over it.

        librdkafka spreads keys over a new partition as soon as it hears of it, and moves others between the old ones;
        counts only grow, so what the broker says now held for every row.
        """
        for topic, partition, first, last, records in {span.topic: span for span in spans}.values():
            count, found = self._partition_counts[topic], partition + 1
            # One partition of which nothing is missing held every row.
            if found <= count and (count > 1 or last - first + 1 != records):
                found = self._partition_count(topic)
            if found > count:
                # The next session finds the same, and tells the table.
                return f"topic {topic} has {found} partitions, its rows were spread over {count}"
        return None

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
            # Those without an offset are heard of before the commit, which waits for all acknowledgements anyway.
            while self._deliveries.in_flight:
                self._flush()
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
