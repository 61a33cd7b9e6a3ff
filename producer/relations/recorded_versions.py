"""The relation versions and user types that the metadata topic holds; new ones are written here.

In: records of what was announced. Out: the same records, acknowledged by Kafka before anything names them (I2); and
what is recorded of a relation.
"""

from collections.abc import Iterable, Mapping

import structlog

from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.relations.registry_ids import RegistryIds
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.table_names import Name
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.pg_types import FIRST_USER_OID, TypeFacts

log = structlog.get_logger()


class RecordedVersions:
    """What the metadata topic holds of relations and types."""

    def __init__(self, cache: RelationCache, metadata: MetadataWriter, registry: RegistryIds) -> None:
        self._cache = cache
        self._metadata = metadata
        self._registry = registry
        for record in cache.records():
            registry.remember(record)
        self._displaced: set[int] = set()

    def read(self) -> int:
        """Read what another producer may have recorded between our sessions: its numbers and ids are taken.

        Returns the end offset of the metadata topic.

        Raises:
            OperatorError: a record that this code cannot read.
            RetryableError: Kafka is away.
        """
        for record in self._metadata.written_since():
            self._remember(record)
        return self._metadata.end_offset

    def begin_at(self, offset: int) -> None:
        """As ``RelationCache.begin_at``."""
        self._cache.begin_at(offset)

    def newest(self, relation_ids: Iterable[int]) -> list[RelationRecord]:
        """The last known record of each of these relations, as far as there is one."""
        return [record for relation_id in relation_ids if (record := self._cache.newest_of(relation_id)) is not None]

    def versions_of(self, relation_id: int) -> list[RelationRecord]:
        """All records of this relation, the oldest first."""
        return self._cache.versions_of(relation_id)

    def type_facts(self, type_oid: int) -> TypeFacts | None:
        """The facts of a user type that a table has, or had; None where none are recorded."""
        return self._cache.type_facts(type_oid)

    def names(self, relation_ids: Iterable[int]) -> dict[int, str]:
        """``schema.table`` by relation id."""
        return {record.table.relation_id: record.table.qualified_name for record in self.newest(relation_ids)}

    def name(self, relation_id: int) -> str:
        """The name of one relation; a text with its id where nothing of it was ever recorded."""
        return self.names([relation_id]).get(relation_id, f"relation {relation_id}")

    def had_name(self, relation_ids: Iterable[int], name: str) -> bool:
        """Whether one of these relations was last recorded under this name."""
        return name in self.names(relation_ids).values()

    def is_free_name(self, name: Name) -> bool:
        """Whether no relation was last recorded under this name."""
        return self._cache.named(".".join(name)) is None

    def is_recorded_topic(self, topic: str) -> bool:
        """Whether this topic was ever recorded for a relation, of whatever cluster."""
        return any(record.topic == topic for record in self._cache.records())

    def take_displaced(self) -> set[int]:
        """Relations whose name went to another relation since the last call."""
        displaced, self._displaced = self._displaced, set()
        return displaced

    def notice_types(self, copied: Iterable[int], connection: SqlConnection) -> None:
        """Record new versions of these relations' user types: the stream does not announce a new label of an enum."""
        columns = (column for record in self.newest(copied) for column in record.table.columns)
        if wanted := {column.type_oid for column in columns if column.type_oid >= FIRST_USER_OID}:
            self.write(catalog.type_facts(connection, wanted))

    def write(self, types: Mapping[int, TypeFacts], records: Iterable[RelationRecord] = ()) -> None:
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
            self._remember(each)
            _log_new(each)

    def _remember(self, record: RelationRecord | TypeRecord) -> None:
        self._cache.remember(record)
        if isinstance(record, RelationRecord):
            self._registry.remember(record)

    def _notice_displaced(self, new: Iterable[RelationRecord | TypeRecord]) -> None:
        for record in new:
            if isinstance(record, RelationRecord):
                other = self._cache.named(record.table.qualified_name)
                if other is not None and other.table.relation_id != record.table.relation_id:
                    self._displaced.add(other.table.relation_id)


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
