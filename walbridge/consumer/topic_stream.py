"""Events as they come, in the order of each partition.

In: the topics of some tables. Out: one event at a time, and the offsets behind it. Reading a partition begins at the
offset that the group committed, else at the first record that Kafka keeps, and goes on without a gap: a record that
Kafka deletes before it was read stops the reader (I7). ``assigned_topics`` says which topics are read, and when. Where
compaction kept only the tombstone of a delete, the reader returns the delete (``single_events``).
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message

from walbridge.consumer.assigned_topics import AssignedTopics
from walbridge.consumer.client import REFRESH_S, SLICE_S, commit, reader, record_of, refusal
from walbridge.consumer.event import Event, EventDecoder
from walbridge.consumer.read_positions import ReadPositions
from walbridge.consumer.relations import Relations
from walbridge.consumer.single_events import SingleEvents, decoded
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.avro.framing import is_event
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway


class EventStream:
    """A context manager and an iterator. Only ``commit`` commits offsets.

    Args:
        start: offsets to begin at, instead of those that the group committed.
        kept_ids: Kafka's ids of the topics, as they were when these offsets were kept.
        follow: wait for more at the end; else the iteration ends there.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        relations: Relations,
        wanted: WantedTables,
        start: Mapping[PartitionId, int],
        kept_ids: Mapping[str, str],
        *,
        follow: bool,
    ) -> None:
        self._relations, self._wanted, self._follow = relations, wanted, follow
        self._consumer = reader(kafka)
        decoder = EventDecoder(relations.version, relations.key_schema)
        self._events = SingleEvents(decoder, relations.version_of_key)
        self._failure: Exception | None = None
        self._positions = ReadPositions()
        self._topics = AssignedTopics(self._consumer, kafka, wanted, self._positions, start, kept_ids)
        self._refreshed_s = time.monotonic()
        self._topics.assign_new()

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """By topic and partition: the next offset to read. A target that stores them with its data may give them back
        as ``start``."""
        return self._positions.offsets

    def poll(self, timeout_s: float) -> Event | None:
        """The next event; None where none comes in time. After an error this stream is over: a new one continues from
        the committed offsets.

        Raises:
            OperatorError: records are gone, are not of this pipeline, or may not be read.
            KafkaAway: the broker answers with an error that may pass.
        """
        if self._failure is not None:
            raise self._failure  # reading on would skip a record that could not be decoded
        try:
            return self._poll(timeout_s)
        except Exception as error:
            self._failure = error
            raise

    def _poll(self, timeout_s: float) -> Event | None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._refresh_if_due()
            message = self._consumer.poll(min(max(deadline_s - time.monotonic(), 0), SLICE_S))
            if message is not None and message.error() is None:
                event = self._event(message)
                if event is not None:
                    return event
            elif message is not None:
                self._on_error_or_end(message)
            if time.monotonic() >= deadline_s or self._is_over:
                return None

    def __iter__(self) -> Iterator[Event]:
        while not self._is_over:
            event = self.poll(SLICE_S)
            if event is not None:
                yield event

    @property
    def _is_over(self) -> bool:
        return not self._follow and not self._topics.has_blocked and self._positions.are_at_end

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's ids of the topics of ``offsets``, to be stored with them."""
        return self._topics.ids

    def commit(self) -> None:
        """Commit for the group what was returned so far. Raises as ``poll``."""
        commit(self._consumer, self.offsets)

    def close(self) -> None:
        """Commits nothing."""
        self._consumer.close()
        self._relations.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _event(self, message: Message) -> Event | None:
        """The event of a record; None for a tombstone whose delete was read before it, and for what another program
        wrote."""
        record = record_of(message)
        partition = record.topic, record.partition
        event: Event | None = None
        if message.value() is None:
            next_offset, (_, timestamp_ms) = self._positions.behind_record(partition), message.timestamp()
            event = decoded(partial(self._events.tombstone, next_offset=next_offset, timestamp_ms=timestamp_ms), record)
        elif is_event(record.value):
            event = decoded(self._events.decode, record)
        self._positions.on_record(partition, record.offset)
        return event

    def _on_error_or_end(self, message: Message) -> None:
        error, partition = message.error(), (message.topic() or "", message.partition() or 0)
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self._positions.on_end(partition, message.offset() or 0)
            if self._topics.has_blocked:
                self._topics.assign_new()
        elif (refused := refusal(error, f"{partition[0]}[{partition[1]}]")) is not None:
            # One that was made again has no such offset either, and may not have been looked at since.
            with suppress(KafkaAway):
                self._topics.stop_reading_deleted()
            raise refused

    def _refresh_if_due(self) -> None:
        if time.monotonic() - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = time.monotonic()
        # While the broker is away, poll waits for it.
        with suppress(KafkaAway):
            self._topics.stop_reading_deleted()
            self._relations.read_new()
            self._wanted.refresh()
            self._topics.assign_new()
