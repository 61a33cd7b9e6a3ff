"""Events as they come, in the order of each partition.

In: the topics of some tables. Out: one event at a time, and the offsets behind it. Reading a partition begins at the
offset that the group committed, else at the first record that Kafka keeps, and goes on without a gap: a record that
Kafka deletes before it was read stops the reader (I7). When a table gets a new topic, its old topic is first read to
the end: all events there are older, and no more come. A reader that restarts also finishes such an old topic first.
A topic that is deleted stops the reader unless it had been read to its end. Where compaction kept only the tombstone
of a delete, the reader returns the delete (``single_events``).
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, TopicPartition

from walbridge.consumer.client import (
    TopicIds,
    bounds,
    commit,
    committed,
    partitions_of,
    reader,
    record_of,
    refusal,
    refuse_forgotten,
    refuse_remade,
    topic_deleted,
)
from walbridge.consumer.event import Event, EventDecoder
from walbridge.consumer.relations import Relations
from walbridge.consumer.single_events import SingleEvents, decoded
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway

SLICE_S = 0.5
REFRESH_S = 5.0
"""How often the reader looks in the metadata topic for new topics of its tables, and whether its topics still exist."""


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
        self._relations, self._wanted = relations, wanted
        self._kafka, self._start, self._kept_ids, self._follow = kafka, start, kept_ids, follow
        self._consumer = reader(kafka)
        decoder = EventDecoder(relations.version, relations.key_schema)
        self._events = SingleEvents(decoder, relations.version_of_key)
        self._failure: Exception | None = None
        self._ids_asked = TopicIds(kafka)
        self._ids: dict[str, str] = {}
        """Kafka's id of each topic that is read, asked for before the topic's first offset."""
        self._missing: set[str] = set()
        """Topics that the last refresh did not find."""
        self._deleted_topics: set[str] = set()
        """Topics that were read to their end and then deleted."""
        self._at_end: set[PartitionId] = set()
        """Partitions whose end was reached, and that have brought no record since."""
        self._read_to: dict[PartitionId, int] = {}
        """The offset behind the last event that was returned."""
        self._end_offsets: dict[PartitionId, int] = {}
        """The offset of a partition's end when it was reached: transaction markers behind the last event count."""
        self._blocked: dict[str, dict[PartitionId, int]] = {}
        """Topics not read yet: the partitions of earlier topics that must be read first, and up to which offset."""
        self._refreshed_s = time.monotonic()
        self._earlier = self._unfinished_earlier_topics()
        """Earlier topics of the tables that the previous reader of this group did not read to their end."""
        self._assign_new()

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """By topic and partition: the next offset to read. A target that stores them with its data may give them back
        as ``start``."""
        return {
            partition: max(offset, self._end_offsets.get(partition, 0)) for partition, offset in self._read_to.items()
        }

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
        return not self._follow and not self._blocked and self._at_end >= self._read_to.keys()

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's ids of the topics of ``offsets``, to be stored with them."""
        return dict(self._ids)

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
        """The event of a record; None for a tombstone whose delete was read before it."""
        record = record_of(message)
        partition = record.topic, record.partition
        event: Event | None
        if message.value() is not None:
            event = decoded(self._events.decode, record)
        else:
            next_offset, (_, timestamp_ms) = self._read_to.get(partition, 0), message.timestamp()
            event = decoded(partial(self._events.tombstone, next_offset=next_offset, timestamp_ms=timestamp_ms), record)
        self._read_to[partition] = record.offset + 1
        self._at_end.discard(partition)
        return event

    def _on_error_or_end(self, message: Message) -> None:
        error, partition = message.error(), (message.topic() or "", message.partition() or 0)
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(partition)
            self._end_offsets[partition] = message.offset() or 0
            if self._blocked:
                self._assign_new()
        elif (refused := refusal(error, f"{partition[0]}[{partition[1]}]")) is not None:
            raise refused

    def _refresh_if_due(self) -> None:
        if time.monotonic() - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = time.monotonic()
        # While the broker is away, poll waits for it.
        with suppress(KafkaAway):
            self._stop_reading_deleted()
            self._relations.read_new()
            self._wanted.refresh()
            self._assign_new()

    def _assign_new(self) -> None:
        new = (self._wanted.topics | self._earlier) - self._ids.keys() - self._deleted_topics
        there = {topic: found for topic in sorted(new) if (found := partitions_of(self._consumer, topic)) is not None}
        blocked = {topic: self._unread_earlier(topic, there) for topic in there}
        self._blocked = {topic: unread for topic, unread in blocked.items() if unread is not None}
        partitions = [(topic, each) for topic, found in there.items() if topic not in self._blocked for each in found]
        if not partitions:
            return
        # Ids before offsets: if a topic is made again just now, its offsets come with the old id and are refused later.
        ids = self._ids_of({topic for topic, _ in partitions})
        known = self._resume_offsets(partitions)
        refuse_remade({topic for topic, _ in known}, ids, self._kept_ids)
        if not self._ids and not known:
            refuse_forgotten(self._kafka, self._kept_ids)
        # Offsets of partitions without any event are committed, too: records that come and expire unread are noticed.
        begin = {
            partition: known[partition] if partition in known else bounds(self._consumer, *partition)[0]
            for partition in partitions
        }
        self._consumer.incremental_assign([TopicPartition(*partition, offset) for partition, offset in begin.items()])
        self._read_to |= begin
        self._ids |= ids

    def _ids_of(self, topics: Collection[str]) -> dict[str, str]:
        ids = self._ids_asked.of(topics)
        for topic in topics - ids.keys():
            raise KafkaAway(f"Kafka does not tell of {topic}")  # which it knew just now
        return ids

    def _resume_offsets(self, partitions: Collection[PartitionId]) -> dict[PartitionId, int]:
        """The offsets to continue at, of the partitions that have one: from ``start``, else from the group."""
        of_group = committed(self._consumer, [partition for partition in partitions if partition not in self._start])
        return of_group | {partition: self._start[partition] for partition in partitions if partition in self._start}

    def _unfinished_earlier_topics(self) -> set[str]:
        """Earlier topics that this reader has to finish, from where the previous reader of the group was.

        The previous reader was in the last topic of a table that has a known offset; all topics before that one were
        read to their end. If that topic, or its unread part, was deleted, nothing is missed: the copy in the next topic
        brings all rows.
        """
        topic_histories = [history for history in self._wanted.topic_histories if len(history) > 1]
        topics = {topic for history in topic_histories for topic in history}
        there = {topic: found for topic in topics if (found := partitions_of(self._consumer, topic)) is not None}
        known = (
            self._resume_offsets([(topic, each) for topic, found in there.items() for each in found]) if there else {}
        )
        begun = {topic for topic, _ in known}
        unfinished = set[str]()
        for history in topic_histories:
            last = max((index for index, topic in enumerate(history) if topic in begun), default=len(history))
            if history[last:-1] and self._can_resume(history[last], known):
                unfinished |= there.keys() & set(history[last:-1])
        return unfinished

    def _can_resume(self, topic: str, known: Mapping[PartitionId, int]) -> bool:
        """Whether the topic is still the one of these offsets, and still holds the records behind them."""
        if topic in self._kept_ids and self._ids_asked.of([topic]).get(topic) != self._kept_ids[topic]:
            return False
        for partition, offset in known.items():
            if partition[0] == topic:
                first, end = bounds(self._consumer, *partition)
                if not first <= offset <= end:
                    return False
        return True

    def _unread_earlier(self, topic: str, new: Collection[str]) -> dict[PartitionId, int] | None:
        """What must be read before this topic: partitions of its tables' earlier topics that are not read to the end
        that they had when this topic was first seen, with these ends. Empty where an earlier topic is itself not read
        yet; None where all was read. A deleted topic does not count: the copy in the new topic replaces it."""
        before = self._wanted.topics_before(topic)
        if not before.isdisjoint(new):
            return {}
        ends = self._blocked.get(topic)
        if not ends:
            earlier = [partition for partition in self._read_to if partition[0] in before]
            named = {name for name, _ in earlier}
            there = {name for name in named if partitions_of(self._consumer, name) is not None}
            ends = {each: bounds(self._consumer, *each)[1] for each in earlier if each[0] in there}
        offsets = self.offsets
        unread = {partition: end for partition, end in ends.items() if offsets.get(partition, end) < end}
        return unread or None

    def _stop_reading_deleted(self) -> None:
        """Stop reading topics that were deleted. Twice not found is deleted: a broker that has just started may not
        know a topic for a moment.

        Raises:
            OperatorError: one was not read to its end.
        """
        now = self._ids_asked.of(self._ids.keys())
        missing = {topic for topic, an_id in self._ids.items() if now.get(topic) != an_id}
        left, self._missing = missing & (self._missing | now.keys()), missing
        for topic in sorted(left):
            partitions = [partition for partition in self._read_to if partition[0] == topic]
            if not self._at_end.issuperset(partitions):
                raise topic_deleted(topic)
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
            for partition in partitions:
                del self._read_to[partition]
                self._at_end.discard(partition)
            del self._ids[topic]
            self._deleted_topics.add(topic)
