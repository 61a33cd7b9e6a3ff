"""Checks that the topics are still those that were written to: at each session, now and then, and before a commit.

In: topics as the broker has them, and as progress and the metadata topic remember them. Out: tables in doubt whose
topic is gone, was made anew, or has other partitions: their next copy goes into another topic. What holds for a topic
of all tables is refused (I7).

    deleted                      noticed at a start, within two looks, or by the first row that is not taken
    made anew                    likewise; before the first rows of a session that a partition got are committed, since
                                 its id is another one; afterwards by its offsets (``kafka/publisher.py``)
    partitions added             likewise; before the first commit of rows to it (I3)
    its newest records lost      at the beginning of a session, by the newest cuts
    [topics] partitions changed  at a start
    [topics] format changed      likewise
    [topics.cleanup] changed     likewise

So nothing is ever committed to a topic that somebody else made under a name of ours.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.compaction import cleanup_set
from walbridge.producer.errors.topics import (
    format_set,
    metadata_gone,
    partitions_set,
    table_topic_cut_short,
    table_topic_gone,
    table_topic_remade,
    topic_given_up,
    topic_grown,
)
from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.kafka.topic_descriptions import TopicDescriptions
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.relations.registry_ids import format_name
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import PARTITIONS_OPTION
from walbridge.schemas.control.table_progress import GIVEN_UP, QUARANTINED, STALE, TableProgress
from walbridge.schemas.errors import KafkaAway, OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import free_topic

_UNKNOWN = TableProgress(0, STALE)
INTERVAL_S = 10.0
"""The time between two requests for all topics: looks may come with each cut."""
SUSPECT_S = 1.0
"""The time between two requests while Kafka does not acknowledge rows."""


def refuse_unknown(tables: Tables, copied: Iterable[int], metadata: str) -> None:
    """Every copied table has its record.

    Raises:
        OperatorError: records are missing from the metadata topic, so old events cannot be read.
    """
    known = tables.versions.names(copied)
    if missing := [str(relation_id) for relation_id in copied if relation_id not in known]:
        raise metadata_gone(metadata, missing)


class TopicWatch:
    """Watches the topics for one session."""

    def __init__(
        self, settings: Settings, admin: TopicAdmin, tables: Tables, tracker: ProgressTracker, doubts: Doubts
    ) -> None:
        self._partitions = settings.topics.partitions
        self._admin, self._tables, self._tracker, self._doubts = admin, tables, tracker, doubts
        self._asked: TopicDescriptions | None = None
        self._asked_s = 0.0
        self._suspected: TopicDescriptions | None = None
        self._suspect_due_s = 0.0
        self.published_ends: Callable[[], Mapping[PartitionId, int]] = dict
        """By partition, where the records of the newest cuts end; asked for by ``open`` alone."""
        self._cut_short: Collection[str] = ()
        """Topics that lack records which were published, as this session found them."""

    def open(self) -> tuple[Collection[int], Mapping[str, DescribedTopic]]:
        """Compare all of them, and [topics] partitions; returns the tables that need another topic, and what is there.

        Raises:
            OperatorError: a topic of all tables is another one; or settings say that one table's stops all.
            RetryableError: Kafka is away.
        """
        asked = self._ask()
        found = asked.found()
        self._refuse_other_control_topics(found)  # before the topic of cuts is read, which may be gone
        self._cut_short = self._admin.cut_short(self.published_ends())
        lost = self._compare(asked.names, found)
        self._compare_setting()
        return lost, found

    def look(self) -> None:
        """Request descriptions of all topics, if the last time was a while ago, without waiting for the answer."""
        if self._asked is None and time.monotonic() - self._asked_s >= INTERVAL_S:
            self._asked, self._asked_s = self._ask(), time.monotonic()

    def receive_answers(self) -> None:
        """Compare the topics if the answer has come. If the request failed, the next look makes another one.

        Raises:
            OperatorError: as ``open``.
        """
        if self._asked is not None and self._asked.is_answered:
            asked, self._asked = self._asked, None
            try:
                found = asked.found()
            except RetryableError:
                return
            self._refuse_other_control_topics(found)
            self._compare(asked.names, found)

    def _ask(self) -> TopicDescriptions:
        baseline, followed = Baseline.of(self._tracker.progress), self._tracker.progress.relation_ids
        control = baseline.control_topics if baseline is not None else ()
        return self._admin.describe([*control, *(record.topic for record in self._tables.versions.newest(followed))])

    def _compare(self, asked: Collection[str], found: Mapping[str, DescribedTopic]) -> dict[int, OperatorError]:
        """Tables that are followed, and need another topic."""
        lost = {}
        for record in self._tables.versions.newest(self._tracker.progress.relation_ids):
            if record.topic in asked and (reason := self._reason(record, found)) is not None:
                lost[record.table.relation_id] = reason
        self._doubts.add(lost)
        return lost

    def _refuse_other_control_topics(self, found: Mapping[str, DescribedTopic]) -> None:
        baseline = Baseline.of(self._tracker.progress)
        if baseline is not None:
            baseline.refuse_other_control_topics(found)

    def _reason(self, record: RelationRecord, found: Mapping[str, DescribedTopic]) -> OperatorError | None:
        relation_id, topic, table = record.table.relation_id, record.topic, record.table.qualified_name
        known = self._tracker.progress.tables.get(relation_id, _UNKNOWN)
        is_known = known.topic == topic
        here = found.get(topic)
        if is_known and known.topic_id == GIVEN_UP:
            return topic_given_up(table, topic)
        if here is None:
            return table_topic_gone(table, topic)
        if is_known and known.topic_id not in (None, here.topic_id):
            return table_topic_remade(table, topic)
        if topic in self._cut_short:
            return table_topic_cut_short(table, topic)
        counts = self._tables.topics.partition_counts_of(relation_id, topic)
        if counts and here.partition_count not in counts:
            return topic_grown(table, topic, here.partition_count, max(counts))
        registry = self._tables.registry
        if registry.is_other_format(record):
            return format_set(table, topic, format_name(record.framing), format_name(registry.wanted))
        if self._tables.topics.is_other_cleanup(table, topic):
            return cleanup_set(table, topic, is_compacted=topic in self._tables.topics.compacted)
        return None

    def _compare_setting(self) -> None:
        """Tables with a key whose topic has not as many partitions as settings say by now."""
        progress, now = self._tracker.progress, str(self._partitions)
        if progress.options.get(PARTITIONS_OPTION, now) == now:
            self._tracker.remember_options({PARTITIONS_OPTION: now})
            return
        concerned = {
            record.table.relation_id: record
            for record in self._tables.versions.newest(progress.tables)
            if record.table.key_columns and record.partition_count != self._partitions
        }
        followed = {*progress.relation_ids}
        left = {each: table for each, table in progress.tables.items() if table.state in (STALE, QUARANTINED)}
        # A table that waits for its copy gives the topic up now; one that is followed, in the cut that leaves it.
        self._tracker.remember_tables(
            {
                each: replace(left[each], topic=concerned[each].topic, topic_id=GIVEN_UP)
                for each in left.keys() & concerned.keys()
            }
        )
        reasons = {
            each: partitions_set(record.table.qualified_name, record.topic, record.partition_count, self._partitions)
            for each, record in concerned.items()
            if each in followed
        }
        self._doubts.add(reasons, {PARTITIONS_OPTION: now})

    def why_lost(self, record: RelationRecord) -> OperatorError | None:
        """Why a table's copy needs another topic than that of its newest record; None where it does not.

        Raises:
            OperatorError, RetryableError: as ``open``.
        """
        return self._reason(record, self._admin.describe([record.topic]).found())

    def found(self, topic: str) -> DescribedTopic | None:
        """The topic as it is; None where there is none.

        Raises:
            RetryableError: Kafka is away.
        """
        return self._admin.describe([topic]).found().get(topic)

    def free_topic(self, wanted: str, taken: Iterable[str]) -> str:
        """The first name with a suffix that no topic of the broker has, and none of those."""
        return free_topic(wanted, [*taken, *self._admin.partition_counts()])

    def refuse_others(self, topics: Collection[str]) -> None:
        """Check the ids of these topics, since partitions that this session had not written to have taken rows.

        Raises:
            RetryableError: one is another topic. The next session begins with ``open``, which finds the same.
        """
        if wanted := self._written(topics):
            _refuse_other(wanted, self._admin.describe(wanted).found())

    def suspect(self, topics: Collection[str]) -> None:
        """Check whether these topics are still there, since rows for them are not acknowledged. It does not wait for
        the answer, and is called again.

        Raises:
            RetryableError: as ``refuse_others``.
        """
        if self._suspected is None:
            if time.monotonic() >= self._suspect_due_s and (wanted := self._written(topics)):
                self._suspected, self._suspect_due_s = self._admin.describe(wanted), time.monotonic() + SUSPECT_S
        elif self._suspected.is_answered:
            asked, self._suspected = self._suspected, None
            try:
                found = asked.found()
            except RetryableError:
                return
            _refuse_other({each: an_id for each, an_id in self._written(topics).items() if each in asked.names}, found)

    def _written(self, topics: Collection[str]) -> dict[str, str]:
        """The remembered ids of those of these topics that are tables'."""
        tables = self._tracker.progress.tables.values()
        return {
            table.topic: table.topic_id for table in tables if table.topic and table.topic in topics and table.topic_id
        }


def _refuse_other(wanted: Mapping[str, str], found: Mapping[str, DescribedTopic]) -> None:
    for topic, topic_id in wanted.items():
        if topic not in found or found[topic].topic_id != topic_id:
            raise KafkaAway(f"topic {topic} was deleted while it was written to")
