"""The topics of tables: chooses the topic of each, and makes or checks it.

In: tables as they are announced or published. Out: the topic of each with its number of partitions. A table with
records keeps the topic that they are in. A topic is made or checked once a session, not for each announcement.
"""

from collections.abc import Iterable, Iterator, Mapping

from walbridge.producer.errors.compaction import compacted_without_key, compacted_without_values
from walbridge.producer.errors.tables import UnfitTable, key_altered, key_lost, key_replaced
from walbridge.producer.errors.topics import topic_grown
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.kafka.topic_specs import TopicSpec, data_topic_spec, event_topics_of_no_table
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import IDENTITY_IN_STREAM, describe
from walbridge.producer.relations.table_names import first_topics
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import COMPACTED_OPTION
from walbridge.schemas.control.table_progress import DROPPED, TableProgress
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import data_topic


def uncompactable(settings: Settings, table: TableSchema) -> Iterator[UnfitTable]:
    """Why a compacted topic cannot keep the rows of this table, if it is to have one."""
    if table.qualified_name not in settings.topics.compacted:
        return
    unsent = [each.name for each in table.columns if each.column_type.may_be_toasted and not each.is_key]
    if not table.key_columns:
        yield compacted_without_key(table)
    elif unsent and table.replica_identity != "f":
        yield compacted_without_values(table, unsent)


class TableTopics:
    """Topics of tables in one session."""

    def __init__(self, settings: Settings, admin: TopicAdmin, cache: RelationCache) -> None:
        self._settings = settings
        self._admin = admin
        self._cache = cache
        self._ensured: dict[tuple[str, bool], DataTopic] = {}
        """The topics that this session made or checked, by name and whether rows have a key. Partitions that are added
        later are noticed before a commit (``Publisher.expect``)."""

        self.compacted: set[str] = set()
        """Topics that Kafka compacts: a topic stays as it was made."""

    def remember(self, options: Mapping[str, str]) -> None:
        """Take over the options of progress about topics."""
        self.compacted = {*options.get(COMPACTED_OPTION, "").split()}

    def options_besides(self, known: Mapping[str, str]) -> dict[str, str]:
        """The options about topics that progress does not have yet."""
        told = " ".join(sorted(self.compacted))
        return {} if known.get(COMPACTED_OPTION, "") == told else {COMPACTED_OPTION: told}

    def is_other_cleanup(self, table: str, topic: str) -> bool:
        """Whether the settings ask for another cleanup of this table (``schema.table``) than its topic has."""
        return (table in self._settings.topics.compacted) != (topic in self.compacted)

    def begin(self, table: str, topic: str) -> None:
        """A copy of this table begins in this topic: whether that is compacted now follows the settings."""
        if table in self._settings.topics.compacted:
            self.compacted.add(topic)
        else:
            self.compacted.discard(topic)

    def refuse_uncompactable(self, table: TableSchema) -> None:
        """Refuse a table of which a compacted topic cannot keep the rows, if it is to have one.

        Raises:
            UnfitTable: it has no key, or updates may lack values.
        """
        for fault in uncompactable(self._settings, table):
            raise fault

    def refuse_other_key(self, table: TableSchema) -> None:
        """Refuse a version whose keys have other bytes than those of earlier rows in the topic, since a row would stand
        under two keys and in two partitions. Refuse also a version with another key that only the catalogue shows,
        since nobody knows from when on it holds (I3, I8).

        Raises:
            UnfitTable: a copy mends it.
        """
        newest = self._cache.newest_of(table.relation_id)
        if newest is None:
            return
        if _is_key_replaced(newest, table):
            raise key_replaced(table.qualified_name)
        if self.has_other_key(newest.topic, table):
            raise key_altered(table.qualified_name)

    def has_other_key(self, topic: str, table: TableSchema) -> bool:
        """Whether the keys of this table are others than the topic holds: it has to have another one."""
        return self._cache.has_other_key(topic, table)

    def described(
        self, newest: RelationRecord, now: Relation, facts: TableFacts, types: Mapping[int, TypeFacts]
    ) -> TableSchema:
        """The schema that a table with records has now, by a relation that was made of these facts."""
        versions = self._cache.versions_of(newest.table.relation_id)
        return describe(now, facts, types, versions, is_of_catalogue=True)

    def forget_session(self) -> None:
        """Another session: make or check every topic again."""
        self._ensured.clear()

    def of(self, table: PublishedTable) -> str:
        """The topic of a table: that of its records, or that of its name if it has none."""
        newest = self._cache.newest_of(table.relation_id)
        return self.of_name(table) if newest is None else newest.topic

    def of_name(self, table: PublishedTable) -> str:
        """The topic of a new table, if no other one has it."""
        return self._named(table.namespace, table.name)

    def first(self, tables: Iterable[PublishedTable], known: Mapping[int, TableProgress]) -> dict[int, str]:
        """Topics of tables that are copied together, by relation id.

        Raises:
            OperatorError: two tables want one topic.
        """
        named = {table.relation_id: self.of_name(table) for table in tables}
        own = {
            table.relation_id: before.topic
            for table in tables
            if table.qualified_name not in self._settings.topics.names
            and (before := known.get(table.relation_id)) is not None
            and before.topic is not None
            and before.state != DROPPED
        }
        return first_topics(named, own, event_topics_of_no_table(self._settings))

    def topic_of(self, table: TableSchema, topic: str | None) -> DataTopic:
        """The topic for an announced relation. That of a followed table is taken as recorded, never made again for a
        Relation: whether it is still there is for the source watch to say."""
        newest = self._cache.newest_of(table.relation_id)
        if topic is None and newest is not None:
            known = (self._ensured.get((newest.topic, has_key)) for has_key in (True, False))
            return next(filter(None, known), DataTopic(newest.topic, newest.partition_count))
        found = self.ensured(table, topic or self._named(table.namespace, table.name))
        self._refuse_grown(table, found)
        return found

    def ensured(self, table: TableSchema, name: str) -> DataTopic:
        """The topic, made or checked unless this session did so before."""
        wanted = name, bool(table.key_columns)
        if wanted not in self._ensured:
            self.ensure(dict([wanted]))
        return self._ensured[wanted]

    def ensure(self, wanted: Mapping[str, bool]) -> None:
        """Make or check topics. ``wanted``: by name, whether its rows have a key."""
        specs = [self._spec(topic, has_key) for topic, has_key in wanted.items()]
        counts = self._admin.ensure(specs)
        self._ensured |= {(topic, has_key): DataTopic(topic, counts[topic]) for topic, has_key in wanted.items()}

    def _spec(self, topic: str, has_key: bool) -> TopicSpec:
        return data_topic_spec(self._settings, topic, has_key=has_key, is_compacted=topic in self.compacted)

    def check(self, records: Iterable[RelationRecord], described: Mapping[str, DescribedTopic]) -> None:
        """Check the settings of these tables' topics, which exist. ``described``: by name.

        Raises:
            OperatorError: one differs from what its events were written with.
        """
        found: dict[tuple[str, bool], DataTopic] = {}
        for record in records:
            there = described.get(record.topic)
            count = record.partition_count if there is None else there.partition_count
            found[record.topic, record.key_schema_id is not None] = DataTopic(record.topic, count)
        self._admin.check(self._spec(topic, has_key) for topic, has_key in found)
        self._ensured |= found

    def partition_counts_of(self, relation_id: int, topic: str) -> set[int]:
        """The numbers of partitions that the topic had while rows of this relation were written."""
        return self._cache.partition_counts_of(relation_id, topic)

    def all_of(self, relation_id: int) -> set[str]:
        """Every topic that this relation ever had."""
        return {record.topic for record in self._cache.versions_of(relation_id)}

    def _named(self, namespace: str, name: str) -> str:
        return data_topic(self._settings.name, namespace, name, self._settings.topics.names)

    def refuse_lost_key(self, table: TableSchema, topic: str | None) -> None:
        """Refuse a table that lost its key while its topic has several partitions.

        Args:
            topic: None: that of its records.

        Raises:
            UnfitTable: a copy into another topic mends it.
        """
        newest = self._cache.newest_of(table.relation_id)
        wanted = topic or (newest.topic if newest is not None else None)
        counts = self._cache.partition_counts_of(table.relation_id, wanted) if wanted is not None else set()
        if not table.key_columns and wanted is not None and max(counts, default=1) > 1:
            raise key_lost(table.qualified_name, wanted, max(counts))

    def _refuse_grown(self, table: TableSchema, topic: DataTopic) -> None:
        """Refuse a topic whose partition count changed: keys would leave the partition of their older events (I3)."""
        counts = self._cache.partition_counts_of(table.relation_id, topic.name)
        if counts and topic.partition_count not in counts:
            raise topic_grown(table.qualified_name, topic.name, topic.partition_count, max(counts))


def _is_key_replaced(before: RelationRecord, now: TableSchema) -> bool:
    """Whether a key that only the catalogue shows was replaced, in a topic of several partitions. With one partition
    the table goes on without a key."""
    if now.replica_identity in IDENTITY_IN_STREAM or before.partition_count == 1:
        return False
    one, other = before.table.key_columns, now.key_columns
    if not one or not other or {each.name for each in one} == {each.name for each in other}:
        return False
    return {each.attnum for each in one} != {each.attnum for each in other}
