"""The tables of this session: relation versions, their topics, their record writers.

In: Relation messages (or published tables, for a copy). Out: a ``RecordWriter`` per relation,
after its metadata record is acknowledged (I2). The first event of a table in a session, and the
first of each new version, gets a shape barrier: the job makes the shape so, whatever it was.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import structlog

from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.errors.publications import not_published
from walbridge.producer.errors.tables import UnfitTable, dropped_meanwhile
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.postgres.publications.combined_publications import archived_operations
from walbridge.producer.relations.binary_support import refuse_unreadable, type_readers
from walbridge.producer.relations.catalogue_facts import CatalogueFacts
from walbridge.producer.relations.columns.uncertain_columns import IN_LOOKS, kinds_at_relation, refuse_uncertain
from walbridge.producer.relations.late_publications import LatePublications
from walbridge.producer.relations.partition_sessions import PartitionSessions
from walbridge.producer.relations.publication_sessions import PublicationSessions
from walbridge.producer.relations.recorded_versions import RecordedVersions
from walbridge.producer.relations.registry_ids import RegistryIds
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.session_writers import SessionWriters
from walbridge.producer.relations.table_description import announced, describe
from walbridge.producer.relations.table_names import Name, TableNames, refuse_names_alike
from walbridge.producer.relations.table_topics import TableTopics
from walbridge.producer.relations.told_tables import ToldTables
from walbridge.schemas.avro.framing import CONFLUENT, JSON
from walbridge.schemas.control.message_schema import message_relation
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import transaction_topic

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
        self._cache = cache
        self.registry = RegistryIds(settings, metadata.on_wait)
        self.versions = RecordedVersions(cache, metadata, self.registry)
        self.told = ToldTables(cache)
        self.topics = TableTopics(settings, admin, cache)
        self._publisher = publisher
        self.database = database
        self.writers = SessionWriters(settings, cache, database)
        self.partition_sessions, self.publication_sessions = PartitionSessions(), PublicationSessions()
        self.ddl_sessions = LatePublications[int]()
        """Decides whether a session asks for the publication of DDL rows."""
        self.named_sessions = LatePublications[frozenset[tuple[str, int]]]()
        """Decides whether a session asks for the publications that settings name: their names and oids."""
        self.awaited_publications: tuple[str, ...] = ()
        """The publications that settings name, while the session does not ask for them yet."""
        self.origin_sessions = LatePublications[str]()
        """Decides whether a session asks for the origin that settings name, if that leaves more out than before."""
        self.awaited_origin: str | None = None
        """The origin that settings name, while the session does not ask for it yet."""
        self.archives: dict[int, tuple[str, ...] | None] = {}
        """By relation id: ``TableSchema.operations``, which the stream does not send."""
        self._names = TableNames()
        self.writers.begin(type_readers(connection, settings))

    def forget_session(self, connection: SqlConnection) -> None:
        """A new session announces every relation again; until then none is known."""
        self._facts = CatalogueFacts(connection)
        self.topics.forget_session()
        self.writers.begin(type_readers(connection, self._settings))
        self._names = TableNames()

    def message_relation(self) -> RelationRecord:
        """The relation version of logical messages, with their topic made and their schema written (I2).

        Raises:
            OperatorError: the topic is not what it must be.
        """
        record = message_relation(self._settings.name)
        is_json = self.registry.framing_of(record.topic) == JSON
        record = self.registry.framed(replace(record, is_json=is_json))
        self.topics.ensure({record.topic: False})
        self.versions.write({}, [record])
        self._publisher.expect(record)
        return record

    def ensure_transaction_topic(self) -> None:
        """Make or check the topic of transactions' begins and ends.

        Raises:
            OperatorError: it is not what it must be.
        """
        self.topics.ensure({transaction_topic(self._settings.name): False})

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
            self.writers.note_unfollowed(relation)
            return
        facts, types = self._facts.of(relation, xid, copied)
        called = self._names.receive(relation)
        versions = self._cache.versions_of(relation.relation_id)
        told = self.told.of(called, facts)
        refuse_uncertain(called, facts, versions, kinds_at_relation(told))
        self._writer_for(self._record(describe(called, facts, types, versions, told=told), types))

    def refuse_unfit(
        self,
        tables: list[PublishedTable],
        connection: SqlConnection,
        known: Mapping[int, TableProgress] = NOTHING_KNOWN,
    ) -> None:
        """Refuse tables with which no copy can begin.

        Raises:
            OperatorError: the publication is empty, or two tables want one name or topic, or one cannot come in
                binary, or be kept in a compacted topic.
        """
        if not tables:
            raise not_published(self._settings.postgres.publication_names)
        refuse_names_alike(tables)
        self.topics.first(tables, known)
        refuse_unreadable(connection, self._settings, tables)
        compacted = [table for table in tables if table.qualified_name in self._settings.topics.compacted]
        if compacted:
            self._facts = CatalogueFacts(connection)
            for described in self._described(compacted)[0]:
                self.topics.refuse_uncompactable(described)

    def prepare_copy(
        self,
        tables: list[PublishedTable],
        connection: SqlConnection,
        known: Mapping[int, TableProgress] = NOTHING_KNOWN,
    ) -> tuple[list[RecordWriter], dict[int, UnfitTable]]:
        """Writers of the published tables as a snapshot shows them, with topics and metadata; and by relation id why
        some have none.

        Args:
            known: tables of the copy before, which keep their topics.
        """
        self.forget_session(connection)
        self.refuse_unfit(tables, connection, known)
        topics = self.topics.first(tables, known)
        described, types = self._described(tables)
        for table in described:
            self.topics.begin(table.qualified_name, topics[table.relation_id])
        self.topics.ensure({topics[table.relation_id]: bool(table.key_columns) for table in described})
        records: list[RelationRecord] = []
        refused: dict[int, UnfitTable] = {}
        for table in described:
            try:
                records.append(self._version(table, self.topics.ensured(table, topics[table.relation_id])))
            except UnfitTable as reason:
                refused[table.relation_id] = reason
        self.versions.write(types, records)
        writers = [self._install(record) for record in records]
        for record in records:
            self.writers.take_shape_barrier(record.table.relation_id)
        return writers, refused

    def announce(
        self, table: PublishedTable, facts: TableFacts, types: Mapping[int, TypeFacts], topic: str
    ) -> RecordWriter:
        """The writer of a table that is copied beside the stream, with its topic and metadata (I2).

        Args:
            facts, types: of a moment in which nobody could alter the table.

        Raises:
            OperatorError: the topic is not what it must be.
        """
        self._names.rename(table.relation_id, (table.namespace, table.name))
        self.archives[table.relation_id] = archived_operations(table.memberships)
        relation, versions = announced(table, facts), self._cache.versions_of(table.relation_id)
        record = self._record(describe(relation, facts, types, versions, is_of_catalogue=True), types, topic)
        self.writers.forget_unfollowed(table.relation_id)
        self._facts.forget()
        return self._writer_for(record)

    def rename(self, relation_id: int, name: Name) -> RecordWriter | None:
        """The writer of a table from here on, which is called otherwise by now; None where nothing is new.

        All else is as it was announced last in this session, or as the newest version. The caller adds its barrier.

        Raises:
            UnfitTable: it is to leave its topic, where the new name would need the schema registry.
            RetryableError: Kafka is away.
        """
        known = self.writers.current_version(relation_id)
        if known is None or (known.table.namespace, known.table.name) == name:
            return None
        table = replace(known.table, namespace=name[0], name=name[1])
        record = self._version(table, DataTopic(known.topic, known.partition_count))
        self.versions.write({}, [record])
        self._names.rename(relation_id, name)
        renamed = self._install(record)
        self.writers.take_shape_barrier(relation_id)
        return renamed

    def alter(self, table: PublishedTable, facts: TableFacts, types: Mapping[int, TypeFacts]) -> RecordWriter | None:
        """The writer of a table from here on, whose columns are others by now; None where nothing is new.

        Its name is told by ``rename``. The caller adds its barrier.

        Raises:
            UnfitTable: nothing can be published with this version.
            RetryableError: Kafka is away.
        """
        known = self.writers.current_version(table.relation_id)
        if known is None:
            return None
        relation = replace(announced(table, facts), namespace=known.table.namespace, name=known.table.name)
        versions = self._cache.versions_of(table.relation_id)
        refuse_uncertain(relation, facts, versions, IN_LOOKS)
        record = self._record(describe(relation, facts, types, versions, is_of_catalogue=True), types)
        if record == known:
            return None
        altered = self._install(record)
        self.writers.take_shape_barrier(table.relation_id)
        return altered

    def _record(self, table: TableSchema, types: Mapping[int, TypeFacts], topic: str | None = None) -> RelationRecord:
        """The record of a table that was announced, acknowledged; its topic is there.

        Args:
            topic: None: that of its records.
        """
        table = replace(table, operations=self.archives.get(table.relation_id))
        self.topics.refuse_lost_key(table, topic)
        self.topics.refuse_uncompactable(table)
        if topic is None:
            self.topics.refuse_other_key(table)
        record = self._version(table, self.topics.topic_of(table, topic))
        self.versions.write(types, [record])
        return record

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
            self.archives[table.relation_id] = operations = archived_operations(table.memberships)
            described.append(replace(describe(relation, facts, types), operations=operations))
        return described, all_types

    def _version(self, table: TableSchema, topic: DataTopic) -> RelationRecord:
        """The known or new version of this schema, with the ids that its topic's framing needs."""
        framing = self.registry.framing_of(topic.name)
        record = self._cache.version_of(table, topic, is_registered=framing == CONFLUENT, is_json=framing == JSON)
        return self.registry.framed(record)

    def _install(self, record: RelationRecord) -> RecordWriter:
        self._publisher.expect(record)
        return self.writers.install(record, is_compacted=record.topic in self.topics.compacted)

    def _writer_for(self, record: RelationRecord) -> RecordWriter:
        """The writer of this version: the one there is, if it writes this very version."""
        known = self.writers.known(record.table.relation_id)
        return known if known is not None and known.relation == record else self._install(record)
