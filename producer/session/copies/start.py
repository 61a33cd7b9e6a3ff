"""What a copy beside the stream needs before it begins, and what prevents one.

In: a table as the reader found it. Out: its writer, with topic and metadata acknowledged (I2), and its record of
progress; or why there can be no copy now.
"""

from collections.abc import Iterable
from dataclasses import replace

import structlog

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.postgres.copy_beside.copy_protocol import TableFound
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.relations.table_description import announced, describe
from walbridge.producer.relations.table_names import refuse_names_alike
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import DROPPED, STALE, TableProgress
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.table_schema import quoted
from walbridge.schemas.topics import free_topic, is_same_topic

log = structlog.get_logger()


class NotYet(RetryableError):
    """A table whose copy cannot begin now."""


class Refused(Exception):
    """A table whose copy cannot begin before a person mends what is told."""

    def __init__(self, reason: OperatorError) -> None:
        super().__init__(reason.what)
        self.reason = reason


class CopyStart:
    """Prepares the copies of one session."""

    def __init__(self, tables: Tables, tracker: ProgressTracker, watch: SourceWatch) -> None:
        self._tables, self._tracker, self._watch = tables, tracker, watch
        self._told: dict[int, tuple[str, str]] = {}
        """By table, the topic that it gets, and why, as the log has it already: a copy is tried again and again."""

    def writer_of(self, found: TableFound) -> RecordWriter:
        """The writer of the table as it was found.

        Raises:
            Refused, NotYet: there can be no copy of it.
            RetryableError: a server is away.
        """
        try:
            if found.key_names is None and _has_partial_identity(found.facts):
                raise _without_order(found.table)
            self._refuse_name_alike(found.table)
            topic = self._topic_of(found)
            self._watch.now.refuse_copy(found.table)
            self._tables.topics.begin(found.table.qualified_name, topic)
            writer = self._tables.announce(found.table, found.facts, found.types, topic)
            self._tracker.remember_options(self._tables.topics.options_besides(self._tracker.progress.options))
            return writer
        except OperatorError as error:
            raise Refused(error) from None

    def _refuse_name_alike(self, table: PublishedTable) -> None:
        states = self._tracker.progress.tables
        live = (each for each, known in states.items() if known.state != DROPPED and each != table.relation_id)
        others = (record.table for record in self._tables.versions.newest(live))
        refuse_names_alike([table, *(each for each in others if each.qualified_name == table.qualified_name)])

    def _topic_of(self, found: TableFound) -> str:
        """The topic of its records, or of its name. It gets another one if another table has that topic, or if cuts
        name offsets of an earlier topic of that name.

        Raises:
            NotYet: a table that was made again has to wait until the one before it is known to be gone.
        """
        table, held = found.table, self._topics_of_others(found.table)
        topic, newest = self._own_topic(table), self._tables.versions.newest([table.relation_id])
        for record in newest:
            if (lost := self._watch.topics.why_lost(record)) is not None:
                return self._other_topic(table, record.topic, held, lost)
        holders = {relation_id for each, relation_id in held.items() if is_same_topic(each, topic)}
        states = self._tracker.progress.tables
        live = {each for each in holders if states[each].state != DROPPED}
        if live and (gone := live - self._watch.now.names_of(live).keys()):
            raise NotYet(f"topic {topic} is still that of relation {min(gone)}")
        reason = f"{topic} is in use" if holders else self._why_not_own_topic(newest, found)
        if reason is None and not newest:
            reason = self._why_unfit(topic, found)
        if reason is None and self._tables.registry.suits(topic):
            return topic
        free = self._free_topic(found, [*held, topic])
        if self._is_new(table, free, reason := reason or f"{topic} has events in another format"):
            log.warning("a table gets another topic", table=table.qualified_name, topic=free, reason=reason)
        return free

    def _is_new(self, table: PublishedTable, topic: str, reason: str) -> bool:
        before, self._told[table.relation_id] = self._told.get(table.relation_id), (topic, reason)
        return before != (topic, reason)

    def _why_not_own_topic(self, newest: Iterable[RelationRecord], found: TableFound) -> str | None:
        """Why a table with records cannot keep the topic that they are in; None where it can."""
        topics, relation = self._tables.topics, announced(found.table, found.facts)
        for each in newest:
            described = topics.described(each, relation, found.facts, found.types)
            if topics.has_other_key(each.topic, described):
                return f"{each.topic} has rows under other keys"
            count = max(topics.partition_counts_of(each.table.relation_id, each.topic), default=1)
            if not described.key_columns and count > 1:
                return f"{each.topic} has {count} partitions, and the table has no key"
        return None

    def _free_topic(self, found: TableFound, taken: Iterable[str]) -> str:
        """The first name with a suffix that the table may have."""
        wanted, tried = self._tables.topics.of_name(found.table), [*taken]
        while True:
            topic = free_topic(wanted, tried)
            if self._tables.registry.suits(topic) and self._why_unfit(topic, found) is None:
                return topic
            tried.append(topic)

    def _why_unfit(self, topic: str, found: TableFound) -> str | None:
        """Why a table without records may not have this topic, though no other table has it; None where it may.

        A topic's name is taken again only where the topic is the very one that the table of this name had before it
        was dropped, or progress says that it is the table's own: of one that was deleted and made again, or was left,
        cuts name offsets that would mean other records (I7).
        """
        table, here = found.table, self._watch.topics.found(topic)
        is_recorded = self._tables.versions.is_recorded_topic(topic)
        if is_recorded and not (here and self._is_inherited_topic(table, topic, here)):
            return f"{topic} is another topic by now than the one that had this name, or was given up"
        if is_recorded and self._tables.topics.is_other_cleanup(table.qualified_name, topic):
            return f"{topic} was made for another cleanup"
        described = describe(announced(table, found.facts), found.facts, found.types)
        if here is not None and self._tables.topics.has_other_key(topic, described):
            return f"{topic} has rows under other keys"
        if here is not None and not described.key_columns and here.partition_count > 1:
            return f"{topic} has {here.partition_count} partitions, and the table has no key"
        return None

    def _is_inherited_topic(self, table: PublishedTable, topic: str, here: DescribedTopic) -> bool:
        progress = self._tracker.progress.tables
        names = self._tables.versions.names(progress)
        own = progress.get(table.relation_id)
        if own is not None and own.topic == topic and own.topic_id in (None, here.topic_id):
            return True
        return any(
            (known.topic, known.topic_id, known.state) == (topic, here.topic_id, DROPPED)
            and names.get(each) == table.qualified_name
            for each, known in progress.items()
        )

    def _own_topic(self, table: PublishedTable) -> str:
        """The topic of the table's records, or of its name. If its records are of another cluster, progress has it."""
        known = self._tracker.progress.tables.get(table.relation_id)
        if known is not None and known.topic is not None and not self._tables.versions.newest([table.relation_id]):
            return known.topic
        return self._tables.topics.of(table)

    def _other_topic(self, table: PublishedTable, left: str, held: Iterable[str], reason: OperatorError) -> str:
        """A new topic for a table that has lost its own, which stays as it is.

        Raises:
            NotYet: the table is still followed: a cut has to leave it first.
        """
        if table.relation_id in self._tracker.progress.relation_ids:
            raise NotYet(reason.what)
        taken = {*held, *self._tables.topics.all_of(table.relation_id)}
        topic = self._watch.topics.free_topic(self._tables.topics.of_name(table), taken)
        if self._is_new(table, topic, reason.what):
            log.warning(
                "a table gets another topic, the one before is left as it is",
                table=table.qualified_name,
                topic=topic,
                before=left,
                reason=reason.what,
            )
        return topic

    def _topics_of_others(self, table: PublishedTable) -> dict[str, int]:
        """The topics of other tables, with their relation ids. A dropped table passes its topic on to the next table of
        its name."""
        others = {each: known for each, known in self._tracker.progress.tables.items() if each != table.relation_id}
        names = self._tables.versions.names(others)
        topics = {record.table.relation_id: record.topic for record in self._tables.versions.newest(others)}
        return {
            topic: relation_id
            for relation_id, known in others.items()
            if (topic := known.topic or topics.get(relation_id)) is not None
            and (known.state != DROPPED or names.get(relation_id) != table.qualified_name)
        }

    def record_of(self, found: TableFound) -> TableProgress:
        """The table's record with its topic and membership as they are now.

        Raises:
            NotYet: it is no member any more, or for another reason than when it was found: with another row filter;
                or the broker does not tell of the topic yet, or another session has to begin.
        """
        table = found.table
        known = self._tracker.progress.tables.get(table.relation_id, TableProgress(table.relation_id, STALE))
        try:
            record = self._watch.now.baseline_of(replace(known, name=table.qualified_name))
        except RetryableError as error:
            raise NotYet(str(error)) from None
        if record.membership is None or record.membership != found.membership:
            raise NotYet(f"table {table.qualified_name} left the publication, or came to it anew")
        if not self._watch.walsender_cache.knows_partitions_of(record):
            raise NotYet(f"the server may not send all partitions of {table.qualified_name} in this session")
        if not self._watch.walsender_cache.knows_membership_of(record):
            raise NotYet(f"the server may not send all changes of {table.qualified_name} in this session")
        return record


def _has_partial_identity(facts: TableFacts) -> bool:
    """Whether old rows come with their key alone."""
    return facts.replica_identity != "f" and any(column.in_replica_identity for column in facts.columns)


def _without_order(table: PublishedTable) -> OperatorError:
    name = f"{quoted(table.namespace)}.{quoted(table.name)}"
    return OperatorError(
        f"the key of {table.qualified_name} has no order to read its rows by, and its old rows are not complete",
        remedy=f"ALTER TABLE {name} REPLICA IDENTITY FULL, or give it another primary key",
    )
