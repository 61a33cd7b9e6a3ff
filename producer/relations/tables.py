"""The tables of this session: relation versions, their topics, their record writers.

In: Relation messages (or published tables, for a copy). Out: a ``RecordWriter`` per relation,
after its metadata record is acknowledged (I2). The first event of a table in a session, and the
first of each new version, gets a shape barrier: the job makes the shape so, whatever it was.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import structlog

from walbridge.producer.encoding.binary.lines import binary_columns
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.errors import column_uncertain, dropped_meanwhile, key_lost, not_published, topic_grown
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.kafka.topics import TopicAdmin, data_topic_spec
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.relations.binary_support import refuse_unreadable, type_readers
from walbridge.producer.relations.catalogue_facts import CatalogueFacts
from walbridge.producer.relations.column_matching import uncertain_columns
from walbridge.producer.relations.partition_sessions import PartitionSessions
from walbridge.producer.relations.relation_cache import RelationCache, TopicPlace, announced, describe
from walbridge.producer.relations.table_names import Name, TableNames, first_topics
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.errors import COPY_AGAIN, OperatorError
from walbridge.schemas.message_schema import message_relation
from walbridge.schemas.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.pg_types import FIRST_USER_OID, TypeFacts
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_progress import DROPPED, TableProgress
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import data_topic, messages_topic

log = structlog.get_logger()

NOTHING_KNOWN: Mapping[int, TableProgress] = MappingProxyType({})


class Tables:
    """Announced tables by relation id."""

    def __init__(
        self,
        settings: Settings,
        connection: SqlConnection,
        admin: TopicAdmin,
        cache: RelationCache,
        metadata: MetadataWriter,
        publisher: Publisher,
        database: str,
    ) -> None:
        self._settings = settings
        self._facts = CatalogueFacts(connection)
        self._admin = admin
        self._cache = cache
        self._metadata = metadata
        self._publisher = publisher
        self.database = database
        self.partition_sessions = PartitionSessions()
        self._writers: dict[int, RecordWriter] = {}
        self._foreign: dict[int, Relation] = {}
        self._unbarred: set[int] = set()
        self._names = TableNames()
        self._displaced: set[int] = set()
        self._places: dict[tuple[str, bool], TopicPlace] = {}
        """By topic, and whether its rows have a key: what this session made or compared. Partitions that are added
        later are noticed before a commit (``Publisher.expect``)."""
        self._readers = type_readers(connection, self._settings)
        """With ``binary``: of the types of this session."""

    def forget_session(self, connection: SqlConnection) -> None:
        """A new session announces every relation again; until then none is known."""
        self._facts = CatalogueFacts(connection)
        self._readers = type_readers(connection, self._settings)
        self._places.clear()
        self._writers.clear()
        self._foreign.clear()
        self._unbarred.clear()
        self._names = TableNames()

    def read_metadata(self) -> int:
        """Another producer may have announced versions between our sessions: their numbers and ids are taken.

        Returns the end of the metadata topic.

        Raises:
            OperatorError: a record that this code cannot read.
            RetryableError: Kafka is away.
        """
        for record in self._metadata.written_since():
            self._cache.remember(record)
        return self._metadata.end_offset

    def begin_metadata_at(self, offset: int) -> None:
        """As ``RelationCache.begin_at``."""
        self._cache.begin_at(offset)

    def message_relation(self) -> RelationRecord:
        """Of logical messages: their topic is there, and their schema in the metadata topic (I2).

        Raises:
            OperatorError: the topic is not what it must be.
        """
        record = message_relation(self._settings.name)
        self._admin.ensure([data_topic_spec(self._settings, record.topic, has_key=False)])
        self._write_metadata({}, [record])
        self._publisher.expect(record)
        return record

    def writer(self, relation_id: int) -> RecordWriter:
        """The writer of an announced relation.

        Raises:
            OperatorError: a change of a table whose copy this pipeline does not hold (I7).
        """
        try:
            return self._writers[relation_id]
        except KeyError:
            raise self._unknown(relation_id) from None

    def _unknown(self, relation_id: int) -> OperatorError:
        relation = self._foreign.get(relation_id)
        if relation is None:
            return OperatorError(
                f"a change of relation {relation_id}, which the stream did not announce",
                remedy="report this with the server's version; nothing was confirmed",
            )
        # The publication is looked up as of the change: taking the table out later does not help.
        return OperatorError(
            f"table {relation.namespace}.{relation.name} (relation {relation_id}) was added to the "
            "publication, or created again, after the copy",
            remedy=f"nothing was confirmed; {COPY_AGAIN}",
        )

    def name_of_foreign(self, relation_id: int) -> str:
        """``schema.table`` of a table that is not followed, as it was announced last.

        Raises:
            OperatorError: it never was.
        """
        relation = self._foreign.get(relation_id)
        if relation is not None:
            return f"{relation.namespace}.{relation.name}"
        record = self._cache.newest_of(relation_id)
        if record is None:
            raise self._unknown(relation_id)
        return record.table.qualified_name

    def had_name(self, relation_ids: Iterable[int], name: str) -> bool:
        """Whether one of these relations was last recorded under this name."""
        return name in self.names(relation_ids).values()

    def forget(self, relation_id: int) -> None:
        """Stop following the table: a later change of it is one of a table without a copy."""
        self._writers.pop(relation_id, None)

    def take_shape_barrier(self, relation_id: int) -> bool:
        """Whether the next event of this table begins a version; asked once per version."""
        if relation_id not in self._unbarred:
            return False
        self._unbarred.discard(relation_id)
        return True

    def receive(self, relation: Relation, copied: Collection[int], xid: int) -> None:
        """A Relation message. That of a partition comes also where only its root is published, so
        an unknown table is refused when a change of it comes, not before.

        Args:
            xid: of the transaction that is being read.

        Raises:
            UnfitTable: nothing can be published with this version.
            OperatorError: its topic got other partitions.
        """
        if relation.relation_id not in copied:
            self._foreign[relation.relation_id] = relation
            return
        facts, types = self._facts.of(relation, xid, copied)
        called = self._names.receive(relation)
        for column in uncertain_columns(relation, facts, self._cache.versions_of(relation.relation_id)):
            raise column_uncertain(f"{called.namespace}.{called.name}", column)
        record = self._record(called, facts, types)
        old = self._writers.get(relation.relation_id)
        if old is None or old.relation != record:
            self._install(record)

    def refuse_unfit(
        self,
        tables: list[PublishedTable],
        connection: SqlConnection,
        known: Mapping[int, TableProgress] = NOTHING_KNOWN,
    ) -> None:
        """Refuse what no copy can begin with.

        Raises:
            OperatorError: the publication is empty, or two tables want one topic, or one cannot come in binary.
        """
        if not tables:
            raise not_published(self._settings.postgres.publication)
        self._first_topics(tables, known)
        refuse_unreadable(connection, self._settings, tables)

    def prepare_copy(
        self,
        tables: list[PublishedTable],
        connection: SqlConnection,
        known: Mapping[int, TableProgress] = NOTHING_KNOWN,
    ) -> list[RecordWriter]:
        """Writers of the published tables as a snapshot shows them, with topics and metadata.

        Args:
            known: tables of the copy before, which keep their topics.
        """
        self.forget_session(connection)
        self.refuse_unfit(tables, connection, known)
        topics = self._first_topics(tables, known)
        described, types = self._described(tables)
        self._ensure_topics({topics[table.relation_id]: bool(table.key_columns) for table in described})
        records = [self._cache.version_of(table, self._place(table, topics[table.relation_id])) for table in described]
        self._write_metadata(types, records)
        writers = [self._install(record) for record in records]
        self._unbarred.clear()
        return writers

    def announce(
        self, table: PublishedTable, facts: TableFacts, types: Mapping[int, TypeFacts], topic: str
    ) -> RecordWriter:
        """The writer of a table that is copied beside the stream, with its topic and metadata (I2).

        Args:
            facts, types: of a moment in which nobody could alter the table.

        Raises:
            OperatorError: the topic is not what it must be.
        """
        self._names.tell(table.relation_id, (table.namespace, table.name))
        record = self._record(announced(table, facts), facts, types, topic)
        self._foreign.pop(table.relation_id, None)
        self._facts.forget()
        writer = self._writers.get(table.relation_id)
        return writer if writer is not None and writer.relation == record else self._install(record)

    def rename(self, relation_id: int, name: Name) -> RecordWriter | None:
        """The writer of a table from here on, which is called otherwise by now; None where nothing is new.

        All else is as it was announced last in this session, or as the newest version. The caller adds its barrier.

        Raises:
            RetryableError: Kafka is away.
        """
        known = self.announced_last(relation_id)
        if known is None or (known.table.namespace, known.table.name) == name:
            return None
        table = replace(known.table, namespace=name[0], name=name[1])
        record = self._cache.version_of(table, TopicPlace(known.topic, known.partition_count))
        self._write_metadata({}, [record])
        self._names.tell(relation_id, name)
        renamed = self._install(record)
        self._unbarred.discard(relation_id)
        return renamed

    def alter(self, table: PublishedTable, facts: TableFacts, types: Mapping[int, TypeFacts]) -> RecordWriter | None:
        """The writer of a table from here on, whose columns are others by now; None where nothing is new.

        Its name is told by ``rename``. The caller adds its barrier.

        Raises:
            UnfitTable: nothing can be published with this version.
            RetryableError: Kafka is away.
        """
        known = self.announced_last(table.relation_id)
        if known is None:
            return None
        relation = replace(announced(table, facts), namespace=known.table.namespace, name=known.table.name)
        record = self._record(relation, facts, types)
        if record == known:
            return None
        altered = self._install(record)
        self._unbarred.discard(table.relation_id)
        return altered

    def announced_last(self, relation_id: int) -> RelationRecord | None:
        """The version in which the next change of a table comes, as far as the stream or the metadata topic tells."""
        writer = self._writers.get(relation_id)
        return writer.relation if writer is not None else self._cache.newest_of(relation_id)

    def name_of(self, relation_id: int) -> Name | None:
        """Schema and name of a table from here on, as far as the stream or the metadata topic tells."""
        known = self.announced_last(relation_id)
        return None if known is None else (known.table.namespace, known.table.name)

    def is_free_name(self, name: Name) -> bool:
        """Whether no relation was last recorded under it."""
        return self._cache.called(".".join(name)) is None

    def take_displaced(self) -> set[int]:
        """Relations whose name another one has got since the last call."""
        displaced, self._displaced = self._displaced, set()
        return displaced

    def topic_of(self, table: PublishedTable) -> str:
        """Where its events go: a table that has records keeps the topic that they are in."""
        newest = self._cache.newest_of(table.relation_id)
        return self.topic_of_name(table) if newest is None else newest.topic

    def topic_of_name(self, table: PublishedTable) -> str:
        """The topic of a new table, if no other one has it."""
        return self._topic(table.namespace, table.name)

    def _first_topics(self, tables: Iterable[PublishedTable], known: Mapping[int, TableProgress]) -> dict[int, str]:
        named = {table.relation_id: self.topic_of_name(table) for table in tables}
        own = {
            table.relation_id: before.topic
            for table in tables
            if table.qualified_name not in self._settings.topics.names
            and (before := known.get(table.relation_id)) is not None
            and before.topic is not None
            and before.state != DROPPED
        }
        messages = [messages_topic(self._settings.name)] if self._settings.postgres.messages else []
        return first_topics(named, own, messages)

    def _record(
        self, relation: Relation, facts: TableFacts | None, types: Mapping[int, TypeFacts], topic: str | None = None
    ) -> RelationRecord:
        """The record of a Relation, acknowledged; its topic is there.

        Args:
            topic: None: that of its records.
        """
        versions = self._cache.versions_of(relation.relation_id)
        table = describe(relation, facts, types, versions)
        self._refuse_lost_key(table)
        record = self._cache.version_of(table, self._place_of(relation, table, topic))
        self._write_metadata(types, [record])
        return record

    def _place_of(self, relation: Relation, table: TableSchema, topic: str | None) -> TopicPlace:
        """A table that is followed has its topic: what became of that is for the source watch to say, and it is never
        made anew for a Relation."""
        newest = self._cache.newest_of(relation.relation_id)
        if topic is None and newest is not None:
            known = (self._places.get((newest.topic, has_key)) for has_key in (True, False))
            return next(filter(None, known), TopicPlace(newest.topic, newest.partition_count))
        place = self._place(table, topic or self._topic(relation.namespace, relation.name))
        self._refuse_grown(table, place)
        return place

    def _described(self, tables: list[PublishedTable]) -> tuple[list[TableSchema], dict[int, TypeFacts]]:
        """As they are now; a snapshot does not move, and nobody alters a table that it has locked."""
        self._facts.ask([table.relation_id for table in tables])
        described: list[TableSchema] = []
        all_types: dict[int, TypeFacts] = {}
        for table in tables:
            facts = self._facts.known(table.relation_id)
            if facts is None:
                raise dropped_meanwhile(table.qualified_name)
            relation = announced(table, facts)
            types = self._facts.types_of(relation)
            all_types |= types
            described.append(describe(relation, facts, types))
        return described, all_types

    def newest(self, relation_ids: Iterable[int]) -> list[RelationRecord]:
        """The last known record of each of these relations, as far as there is one."""
        return [record for relation_id in relation_ids if (record := self._cache.newest_of(relation_id)) is not None]

    def versions_of(self, relation_id: int) -> list[RelationRecord]:
        """All records of this relation, the oldest first."""
        return self._cache.versions_of(relation_id)

    def names(self, relation_ids: Iterable[int]) -> dict[int, str]:
        """``schema.table`` by relation id."""
        return {record.table.relation_id: record.table.qualified_name for record in self.newest(relation_ids)}

    def check_topics(self, copied: Iterable[int]) -> None:
        """Settings of the copied tables' topics, which are there.

        Raises:
            OperatorError: one differs from what its events were written with.
        """
        counts = self._admin.partition_counts()
        places = {
            (record.topic, record.key_schema_id is not None): TopicPlace(
                record.topic, counts.get(record.topic, record.partition_count)
            )
            for record in self.newest(copied)
        }
        self._admin.check(data_topic_spec(self._settings, topic, has_key=has_key) for topic, has_key in places)
        self._places |= places

    def partition_counts_of(self, relation_id: int, topic: str) -> set[int]:
        """Over how many partitions of this topic the rows of this relation were spread."""
        return self._cache.partition_counts_of(relation_id, topic)

    def topics_of(self, relation_id: int) -> set[str]:
        """Every topic that this relation ever had."""
        return {record.topic for record in self._cache.versions_of(relation_id)}

    def _topic(self, namespace: str, name: str) -> str:
        return data_topic(self._settings.name, namespace, name, self._settings.topics.names)

    def _install(self, record: RelationRecord) -> RecordWriter:
        self._publisher.expect(record)
        binary = None if self._readers is None else binary_columns(record.table, self._readers)
        writer = RecordWriter(record, self._settings.name, self.database, binary)
        self._writers[record.table.relation_id] = writer
        self._unbarred.add(record.table.relation_id)
        return writer

    def notice_types(self, copied: Iterable[int], connection: SqlConnection) -> None:
        """New versions of the user types of these relations: the stream tells no new label of an enum."""
        columns = (column for record in self.newest(copied) for column in record.table.columns)
        if wanted := {column.type_oid for column in columns if column.type_oid >= FIRST_USER_OID}:
            self._write_metadata(catalog.type_facts(connection, wanted))

    def _write_metadata(self, types: Mapping[int, TypeFacts], records: Iterable[RelationRecord] = ()) -> None:
        """Write those records that the metadata topic lacks; all are acknowledged when this returns (I2)."""
        user_types = {oid: fact for oid, fact in types.items() if oid >= FIRST_USER_OID}
        new: list[RelationRecord | TypeRecord] = [*self._cache.type_records(user_types)]
        new += [record for record in records if not self._cache.is_known(record)]
        if not new:
            return
        self._notice_displaced(new)
        kill_point("metadata:before-write")
        self._metadata.write(new)
        kill_point("metadata:acknowledged")
        for each in new:
            self._cache.remember(each)
            _log_new(each)

    def _notice_displaced(self, new: Iterable[RelationRecord | TypeRecord]) -> None:
        for record in new:
            if isinstance(record, RelationRecord):
                other = self._cache.called(record.table.qualified_name)
                if other is not None and other.table.relation_id != record.table.relation_id:
                    self._displaced.add(other.table.relation_id)

    def _refuse_lost_key(self, table: TableSchema) -> None:
        """Refuse a table that lost its key while its topic has several partitions."""
        counts = self._cache.partition_counts_of(table.relation_id)
        if not table.key_columns and max(counts, default=1) > 1:
            raise key_lost(table.qualified_name, max(counts))

    def _refuse_grown(self, table: TableSchema, place: TopicPlace) -> None:
        """Refuse a topic whose partition count changed: keys would leave the partition of their older events (I3)."""
        counts = self._cache.partition_counts_of(table.relation_id, place.topic)
        if counts and place.partition_count not in counts:
            raise topic_grown(table.qualified_name, place.topic, place.partition_count, max(counts))

    def _place(self, table: TableSchema, topic: str) -> TopicPlace:
        """The topic is there, and what it must be: made or compared once a session, not for each announcement."""
        wanted = topic, bool(table.key_columns)
        if wanted not in self._places:
            self._ensure_topics(dict([wanted]))
        return self._places[wanted]

    def _ensure_topics(self, wanted: Mapping[str, bool]) -> None:
        """``wanted``: whether the rows of each have a key."""
        specs = [data_topic_spec(self._settings, topic, has_key=has_key) for topic, has_key in wanted.items()]
        counts = self._admin.ensure(specs)
        self._places |= {(topic, has_key): TopicPlace(topic, counts[topic]) for topic, has_key in wanted.items()}


def _log_new(record: RelationRecord | TypeRecord) -> None:
    if isinstance(record, TypeRecord):
        log.info("new type", type=f"{record.facts.namespace}.{record.facts.name}", version=record.version)
    else:
        table = record.table
        log.info(
            "new relation version",
            table=table.qualified_name,
            schema_id=record.schema_id,
            columns=len(table.columns),
        )
