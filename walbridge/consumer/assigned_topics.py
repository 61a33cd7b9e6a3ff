"""Which topics of some tables are read now, and from which offset each begins.

In: the tables' topics in their order, the offsets that a caller kept or the group committed, and Kafka's ids of the
topics. Out: partitions that the consumer is assigned, and where. When a table gets a new topic, the earlier one is
first read to its end: all events there are older, and no more come. A reader that restarts finishes such an earlier
topic first, too. A topic that is deleted ends the reading, unless it had been read to its end.
"""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from walbridge.consumer.client import (
    TopicIds,
    bounds,
    committed,
    partitions_of,
    refuse_forgotten,
    refuse_remade,
    topic_deleted,
)
from walbridge.consumer.read_positions import ReadPositions
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway


class AssignedTopics:
    """The topics of ``wanted`` that ``consumer`` reads.

    Args:
        positions: how far each partition was read; those of new topics are added here.
        start: offsets to begin at, instead of those that the group committed.
        kept_ids: Kafka's ids of the topics, as they were when these offsets were kept.
    """

    def __init__(
        self,
        consumer: Consumer,
        kafka: Mapping[str, Any],
        wanted: WantedTables,
        positions: ReadPositions,
        start: Mapping[PartitionId, int],
        kept_ids: Mapping[str, str],
    ) -> None:
        self._consumer, self._kafka, self._wanted, self._positions = consumer, kafka, wanted, positions
        self._start, self._kept_ids = start, kept_ids
        self._ids_asked = TopicIds(kafka)
        self._ids: dict[str, str] = {}
        """Kafka's id of each topic that is read, asked for before the topic's first offset."""
        self._missing: set[str] = set()
        """Topics that the last look did not find."""
        self._deleted: set[str] = set()
        """Topics that were read to their end and then deleted."""
        self._blocked: dict[str, dict[PartitionId, int]] = {}
        """Topics not read yet: the partitions of earlier topics that must be read first, and up to which offset."""
        self._earlier = self._unfinished_earlier_topics()
        """Earlier topics of the tables that the previous reader of this group did not read to their end."""

    @property
    def ids(self) -> dict[str, str]:
        """Kafka's id of each topic that is read."""
        return dict(self._ids)

    @property
    def has_blocked(self) -> bool:
        """Whether a topic is not read yet, since an earlier one comes first."""
        return bool(self._blocked)

    def assign_new(self) -> None:
        """Begin to read the topics that are not read yet, unless an earlier topic of the same table comes first.

        Raises:
            OperatorError: a topic was made again, or the group's offsets are forgotten.
            KafkaAway: the broker does not answer.
        """
        new = (self._wanted.topics | self._earlier) - self._ids.keys() - self._deleted
        there = {topic: found for topic in sorted(new) if (found := partitions_of(self._consumer, topic)) is not None}
        blocked = {topic: self._unread_earlier(topic, there) for topic in there}
        self._blocked = {topic: unread for topic, unread in blocked.items() if unread is not None}
        partitions = [(topic, each) for topic, found in there.items() if topic not in self._blocked for each in found]
        if partitions:
            self._begin(partitions)

    def _begin(self, partitions: Collection[PartitionId]) -> None:
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
        self._positions.begin(begin)
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
            earlier = self._positions.of_topics(before)
            named = {name for name, _ in earlier}
            there = {name for name in named if partitions_of(self._consumer, name) is not None}
            ends = {each: bounds(self._consumer, *each)[1] for each in earlier if each[0] in there}
        offsets = self._positions.offsets
        unread = {partition: end for partition, end in ends.items() if offsets.get(partition, end) < end}
        return unread or None

    def stop_reading_deleted(self) -> None:
        """Stop reading topics that were deleted. Twice not found is deleted: a broker that has just started may not
        know a topic for a moment.

        Raises:
            OperatorError: one was not read to its end.
        """
        now = self._ids_asked.of(self._ids.keys())
        missing = {topic for topic, an_id in self._ids.items() if now.get(topic) != an_id}
        left, self._missing = missing & (self._missing | now.keys()), missing
        for topic in sorted(left):
            partitions = self._positions.of_topics({topic})
            if not self._positions.reached_ends(partitions):
                raise topic_deleted(topic)
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
            self._positions.end(partitions)
            del self._ids[topic]
            self._deleted.add(topic)
