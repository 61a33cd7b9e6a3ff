"""What became of the records of one Kafka transaction, learnt from their delivery callbacks.

In: callbacks, in whatever order librdkafka serves them. Out: how many are unanswered, the first
failure, and per partition the span of offsets with its count, so that a hole shows. One object a
transaction: a callback that comes late, for a transaction given up, finds the old one.

A topic with one partition keeps the order in which rows were queued, so there the first and the
last row answer for all between: a callback for each would cost a tenth of a row's time.

An acknowledgement may be the client's own: it holds a batch of which it heard that it was not written for written once
a later batch of its partition is (confluent-kafka-go#921). But a broker takes a later one alone where it knows nothing
of this producer yet, as in a topic that was just made. Such records have no offset, and the transaction is given up.
"""

from collections.abc import Callable
from typing import cast

from confluent_kafka import KafkaError, Message

from walbridge.producer.encoding.kafka_record import Headers
from walbridge.producer.kafka.published_offsets import Span

Delivered = Callable[[KafkaError | None, Message], None]
NO_OFFSET = "a record was acknowledged without an offset: the broker may not have it"
Unsent = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers of a record; only a control record has no value."""


class Lane:
    """The rows of a topic with one partition; the newest is held back, since it may be the last."""

    __slots__ = ("count", "delivered", "held")

    def __init__(self, delivered: Delivered) -> None:
        self.count = 0
        self.held: Unsent | None = None
        self.delivered = delivered
        """The callback of the first row and of the last."""


class Deliveries:
    """Counts and offsets of one transaction."""

    def __init__(self) -> None:
        self.in_flight = 0
        """Queued with a callback and not yet answered; whoever queues a record counts it."""
        self.failure: KafkaError | str | None = None
        self.lanes: dict[str, Lane] = {}
        self._callbacks: dict[str, Delivered] = {}
        self._spans: dict[str, dict[int, list[int]]] = {}

    def open_lane(self, topic: str) -> Lane:
        """For the rows of a topic with one partition."""
        lane = self.lanes[topic] = Lane(self.callback_of(topic))
        return lane

    def callback_of(self, topic: str) -> Delivered:
        """The callback of rows of this topic."""
        try:
            return self._callbacks[topic]
        except KeyError:
            made = self._callbacks[topic] = self._callback(self._spans.setdefault(topic, {}))
            return made

    def _callback(self, partitions: dict[int, list[int]]) -> Delivered:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self.in_flight -= 1
            offset = message.offset()
            if error is not None or offset is None:
                self.failure = self.failure or error or NO_OFFSET
                return
            span = partitions.get(message.partition())  # type: ignore[arg-type]  # a delivered message has one
            if span is None:
                partitions[cast(int, message.partition())] = [offset, offset, 1]
                return
            span[2] += 1
            if offset > span[1]:
                span[1] = offset
            elif offset < span[0]:
                span[0] = offset

        return delivered

    def control_delivered(self, error: KafkaError | None, message: Message) -> None:
        """The callback of control records, whose offsets no cut names."""
        self.in_flight -= 1
        if error is not None or message.offset() is None:
            self.failure = self.failure or error or NO_OFFSET

    @property
    def topics(self) -> frozenset[str]:
        """All that rows were queued for."""
        return frozenset(self._callbacks)

    def spans(self) -> list[Span]:
        """One for each partition that rows went to, by topic and partition."""
        return [
            Span(topic, partition, first, last, self.lanes[topic].count if topic in self.lanes else records)
            for topic, partitions in sorted(self._spans.items())
            for partition, (first, last, records) in sorted(partitions.items())
        ]
