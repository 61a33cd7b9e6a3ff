"""Events as they come, in the order of each partition.

In: the topics of some tables. Out: one event at a time, and the offsets behind it. Each partition begins where the
group committed, else with the first record that is kept, and is read on without a gap: a record that is gone before it
was read stops the reader (I7). A table that gets another topic is followed there, once its topic before is read to the
end: nothing more of the table comes there, and all of it is older.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, TopicPartition

from walbridge.consumer.client import bounds, commit, committed, partitions_of, reader, record_of, refusal, topic_ids
from walbridge.consumer.event import Event, EventDecoder, KafkaRecord
from walbridge.consumer.relations import Relations, WantedTables
from walbridge.schemas.errors import KafkaAway, OperatorError, ProtocolError

SLICE_S = 0.5
LOOK_S = 5.0
"""How often the metadata topic is asked for a table's new topic."""
Place = tuple[str, int]


class EventStream:
    """A context manager and an iterator. Nothing is committed but by ``commit``.

    Args:
        start: offsets to begin at, instead of those that the group committed.
        follow: wait for more at the end; else that ends it.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        relations: Relations,
        wanted: WantedTables,
        start: Mapping[Place, int],
        *,
        follow: bool,
    ) -> None:
        self._relations, self._wanted = relations, wanted
        self._kafka, self._start, self._follow = kafka, start, follow
        self._consumer = reader(kafka)
        self._decoder = EventDecoder(relations.version, relations.key_schema)
        self._failure: Exception | None = None
        self._topics: set[str] = set()
        self._at_end: set[Place] = set()
        self._passed: dict[Place, int] = {}
        """Where a partition was at its end: markers behind the last event take offsets, too."""
        self._held: dict[str, dict[Place, int]] = {}
        """By topic that is to be read: what of earlier topics of its tables has to be read before, up to where."""
        self._looked_s = time.monotonic()
        self.offsets: dict[Place, int] = {}
        """By topic and partition: behind the last event that was returned. A target that keeps them beside what it
        got may give them back as ``start``."""
        self._assign_new()

    def poll(self, timeout_s: float) -> Event | None:
        """The next event; None where none comes in time. An error ends the stream: another one goes on from what was
        committed.

        Raises:
            OperatorError: records are gone, are not of this pipeline, or may not be read.
            KafkaAway: the broker answers with an error that may pass.
        """
        if self._failure is not None:
            raise self._failure  # a record that could not be decoded would be passed over
        try:
            return self._poll(timeout_s)
        except Exception as error:
            self._failure = error
            raise

    def _poll(self, timeout_s: float) -> Event | None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._look_if_due()
            message = self._consumer.poll(min(max(deadline_s - time.monotonic(), 0), SLICE_S))
            if message is not None and message.error() is None:
                event = self._event(message)
                if event is not None:
                    return event
            elif message is not None:
                self._hear(message)
            if time.monotonic() >= deadline_s or self._is_over:
                return None

    def __iter__(self) -> Iterator[Event]:
        while not self._is_over:
            event = self.poll(SLICE_S)
            if event is not None:
                yield event

    @property
    def _is_over(self) -> bool:
        return not self._follow and not self._held and self._at_end >= self.offsets.keys()

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's ids of the topics that are read, to be kept beside ``offsets``. Raises as ``poll``."""
        return topic_ids(self._kafka, self._topics)

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
        """None for a tombstone: its delete came before it."""
        record = record_of(message)
        event = None if message.value() is None else decoded(self._decoder, record)
        self.offsets[record.topic, record.partition] = record.offset + 1
        self._at_end.discard((record.topic, record.partition))
        return event

    def _hear(self, message: Message) -> None:
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(place)
            self._passed[place] = message.offset() or 0
            if self._held:
                self._assign_new()
        elif (refused := refusal(error, f"{place[0]}[{place[1]}]")) is not None:
            raise refused

    def _look_if_due(self) -> None:
        if time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        # While the broker is away nothing new comes, and waiting for it is the poll's part.
        with suppress(KafkaAway):
            self._relations.learn()
            self._wanted.refresh()
            self._assign_new()

    def _assign_new(self) -> None:
        new = sorted(self._wanted.topics - self._topics)
        self._held = {topic: ends for topic in new if (ends := self._unread_before(topic))}
        places = [
            (topic, partition)
            for topic in new
            if topic not in self._held
            for partition in partitions_of(self._consumer, topic) or ()
        ]
        if not places:
            return
        known = committed(self._consumer, [place for place in places if place not in self._start])
        for place in places:
            # Also what nothing was read of is committed: what comes there and goes before it is read is missed then.
            self.offsets[place] = self._start.get(place, known.get(place, -1))
            if self.offsets[place] < 0:
                self.offsets[place] = bounds(self._consumer, *place)[0]
        self._consumer.incremental_assign([TopicPartition(*place, self.offsets[place]) for place in places])
        self._topics |= {topic for topic, _ in places}

    def _unread_before(self, topic: str) -> dict[Place, int]:
        """Of the topics that tables of this one had before: partitions that are not read to where they ended when this
        one was first seen, and these ends. One that was deleted has none: the copy in the new topic takes its place."""
        ends = self._held.get(topic)
        if ends is None:
            earlier = [place for place in self.offsets if place[0] in self._wanted.topics_before(topic)]
            ends = {place: bounds(self._consumer, *place)[1] for place in earlier if self._is_there(place[0])}
        return {
            place: end
            for place, end in ends.items()
            if max(self.offsets[place], self._passed.get(place, 0)) < end and self._is_there(place[0])
        }

    def _is_there(self, topic: str) -> bool:
        return partitions_of(self._consumer, topic) is not None


def decoded(decoder: EventDecoder, record: KafkaRecord) -> Event:
    """The event of a record.

    Raises:
        OperatorError: it is none of this pipeline; named by its place, never by its bytes (I10).
    """
    try:
        return decoder.decode(record)
    # LookupError, TypeError: sound Avro that is not an event.
    except (ProtocolError, LookupError, TypeError) as error:
        reason = str(error) if isinstance(error, ProtocolError) else "it is not an event"
        raise OperatorError(
            f"{record.topic}, partition {record.partition}, offset {record.offset}: {reason}",
            remedy="see who else writes to this topic; if walbridge itself did, read with the version that wrote it",
        ) from None
