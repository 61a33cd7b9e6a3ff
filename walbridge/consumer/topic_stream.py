"""Events as they come, in the order of each partition.

In: the topics of some tables. Out: one event at a time, and the offsets behind it. Each partition begins where the
group committed, else with the first record that is kept, and is read on without a gap: a record that is gone before it
was read stops the reader (I7). A table that gets another topic is followed there, once its topic before is read to the
end: nothing more of the table comes there, and all of it is older. A reader that begins again finishes such a topic,
too. A topic that is deleted is left where it was read to its end, else it stops the reader. A delete of which
compaction left the tombstone alone is the event that it was (``single_events``).
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
    gone,
    partitions_of,
    reader,
    record_of,
    refusal,
    refuse_forgotten,
    refuse_remade,
)
from walbridge.consumer.event import Event, EventDecoder
from walbridge.consumer.relations import Relations, WantedTables
from walbridge.consumer.single_events import SingleEvents, decoded
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway

SLICE_S = 0.5
LOOK_S = 5.0
"""How often the metadata topic is asked for a table's new topic, and Kafka whether those that are read are there."""


class EventStream:
    """A context manager and an iterator. Nothing is committed but by ``commit``.

    Args:
        start: offsets to begin at, instead of those that the group committed.
        kept_ids: of the topics whose offsets these are.
        follow: wait for more at the end; else that ends it.
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
        self._events = SingleEvents(decoder, relations.of_key)
        self._failure: Exception | None = None
        self._ids_asked = TopicIds(kafka)
        self._ids: dict[str, str] = {}
        """Of the topics that are read, as they were before the first offset was taken of them."""
        self._missing: set[str] = set()
        """Topics that the last look did not find."""
        self._gone: set[str] = set()
        """Topics that were read to their end and are there no more."""
        self._at_end: set[PartitionId] = set()
        """Partitions whose end the client has told since the last record of them."""
        self._read_to: dict[PartitionId, int] = {}
        """Behind the last event that was returned."""
        self._passed: dict[PartitionId, int] = {}
        """Where a partition was at its end: markers behind the last event take offsets, too."""
        self._held: dict[str, dict[PartitionId, int]] = {}
        """By topic that is to be read: what of earlier topics of its tables has to be read before, up to where."""
        self._looked_s = time.monotonic()
        self._earlier = self._unfinished()
        """Topics that tables had before, and that the reader before this one did not read to their end."""
        self._assign_new()

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """By topic and partition: behind all that was returned, and behind what follows it and is no event. A target
        that keeps them beside what it got may give them back as ``start``."""
        return {place: max(offset, self._passed.get(place, 0)) for place, offset in self._read_to.items()}

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
        return not self._follow and not self._held and self._at_end >= self._read_to.keys()

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's ids of the topics that ``offsets`` are of, to be kept beside them."""
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
        """None for a tombstone whose delete came before it."""
        record = record_of(message)
        place = record.topic, record.partition
        event: Event | None
        if message.value() is not None:
            event = decoded(self._events.decode, record)
        else:
            next_offset, (_, taken_ms) = self._read_to.get(place, 0), message.timestamp()
            event = decoded(partial(self._events.tombstone, next_offset=next_offset, taken_ms=taken_ms), record)
        self._read_to[place] = record.offset + 1
        self._at_end.discard(place)
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
            self._leave_gone()
            self._relations.learn()
            self._wanted.refresh()
            self._assign_new()

    def _assign_new(self) -> None:
        new = (self._wanted.topics | self._earlier) - self._ids.keys() - self._gone
        there = {topic: found for topic in sorted(new) if (found := partitions_of(self._consumer, topic)) is not None}
        held = {topic: self._unread_before(topic, there) for topic in there}
        self._held = {topic: unread for topic, unread in held.items() if unread is not None}
        places = [(topic, each) for topic, found in there.items() if topic not in self._held for each in found]
        if not places:
            return
        # First: should the topic be made again in this moment, the offsets are those of another id, and refused later.
        ids = self._ids_of({topic for topic, _ in places})
        known = self._known(places)
        refuse_remade({topic for topic, _ in known}, ids, self._kept_ids)
        if not self._ids and not known:
            refuse_forgotten(self._kafka, self._kept_ids)
        # Also what nothing was read of is committed: what comes there and goes before it is read is missed then.
        begin = {place: known[place] if place in known else bounds(self._consumer, *place)[0] for place in places}
        self._consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in begin.items()])
        self._read_to |= begin
        self._ids |= ids

    def _ids_of(self, topics: Collection[str]) -> dict[str, str]:
        ids = self._ids_asked.of(topics)
        for topic in topics - ids.keys():
            raise KafkaAway(f"Kafka does not tell of {topic}")  # which it knew just now
        return ids

    def _known(self, places: Collection[PartitionId]) -> dict[PartitionId, int]:
        """Offsets to go on at."""
        of_group = committed(self._consumer, [place for place in places if place not in self._start])
        return of_group | {place: self._start[place] for place in places if place in self._start}

    def _unfinished(self) -> set[str]:
        """Topics before those of now that are to be read from where the reader before this one was.

        The last topic of a table of which an offset is known tells where it was: all before were read to their end. Of
        one that is gone, or of which what was not read is gone, nothing is missed: the copy in the next topic brings
        all rows.
        """
        chains = [chain for chain in self._wanted.chains if len(chain) > 1]
        topics = {topic for chain in chains for topic in chain}
        there = {topic: found for topic in topics if (found := partitions_of(self._consumer, topic)) is not None}
        known = self._known([(topic, each) for topic, found in there.items() for each in found]) if there else {}
        begun = {topic for topic, _ in known}
        unfinished = set[str]()
        for chain in chains:
            last = max((index for index, topic in enumerate(chain) if topic in begun), default=len(chain))
            if chain[last:-1] and self._goes_on(chain[last], known):
                unfinished |= there.keys() & set(chain[last:-1])
        return unfinished

    def _goes_on(self, topic: str, known: Mapping[PartitionId, int]) -> bool:
        """Whether these offsets are of what the topic holds."""
        if topic in self._kept_ids and self._ids_asked.of([topic]).get(topic) != self._kept_ids[topic]:
            return False
        for place, offset in known.items():
            if place[0] == topic:
                first, end = bounds(self._consumer, *place)
                if not first <= offset <= end:
                    return False
        return True

    def _unread_before(self, topic: str, new: Collection[str]) -> dict[PartitionId, int] | None:
        """Of the topics that tables of this one had before: partitions that are not read to where they ended when this
        one was first seen, and these ends; none yet, of one that is to be read itself. None where all is read. One that
        was deleted has none: the copy in the new topic takes its place."""
        before = self._wanted.topics_before(topic)
        if not before.isdisjoint(new):
            return {}
        ends = self._held.get(topic)
        if not ends:
            earlier = [place for place in self._read_to if place[0] in before]
            ends = {place: bounds(self._consumer, *place)[1] for place in earlier if self._is_there(place[0])}
        offsets = self.offsets
        unread = {place: end for place, end in ends.items() if offsets.get(place, end) < end}
        return unread or None

    def _leave_gone(self) -> None:
        """Leave topics that are there no more; a broker that has just started may not know of one for a moment.

        Raises:
            OperatorError: one was not read to its end.
        """
        now = self._ids_asked.of(self._ids.keys())
        missing = {topic for topic, an_id in self._ids.items() if now.get(topic) != an_id}
        left, self._missing = missing & (self._missing | now.keys()), missing
        for topic in sorted(left):
            places = [place for place in self._read_to if place[0] == topic]
            if not self._at_end.issuperset(places):
                raise gone(topic)
            self._consumer.incremental_unassign([TopicPartition(*place) for place in places])
            for place in places:
                del self._read_to[place]
                self._at_end.discard(place)
            del self._ids[topic]
            self._gone.add(topic)

    def _is_there(self, topic: str) -> bool:
        return partitions_of(self._consumer, topic) is not None
