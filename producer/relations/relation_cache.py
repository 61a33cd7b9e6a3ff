"""Relation versions: from what the stream announces to records with immutable ids.

In: Relation messages with the catalogue's facts beside them, and the metadata topic as it was
read back. Out: ``RelationRecord``s, new or known. A repeated Relation is no schema change
(ANALYZE repeats it too): contents are compared, and an equal record keeps its id, also across
restarts. No I/O.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.recorded_key import is_key_of
from walbridge.schemas.avro.schema import Json, key_schema, value_schema
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.errors import NEW_PIPELINE, OperatorError
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class DataTopic:
    """The topic that a table's events go to."""

    name: str
    partition_count: int


def _is_alike(one: RelationRecord, other: RelationRecord) -> bool:
    """Whether two records differ at most in the id of their relation."""
    relation_id = one.table.relation_id
    return one == replace(other, table=replace(other.table, relation_id=relation_id))


def _is_equal_key(recorded: str, table: TableSchema, pipeline: str, forms: Iterable[bool]) -> bool:
    """Whether this recorded key schema could be the one of a topic that begins now.

    Its namespace, which is the name that the table had then, is not compared. Nor is a column's number that one of the
    two lacks: the table may have been dropped from the catalogue since.

    Args:
        forms: whether a registry is to know it, as ``revision_field`` has it; the schema is in one of these.
    """
    known = json.loads(recorded)["fields"]
    # Fields that are no column: the one of exceptional texts, and that of no bytes whose name ends in the revision.
    ours = (each["name"] for each in known if "pg.name" not in each and each["name"] != "_exceptional")
    revision = next((int(name.rpartition("_")[2]) for name in ours), 0)
    wanted = [key_schema(pipeline, table, revision, is_registered=each) for each in forms]
    return any(each is not None and _are_equal(each["fields"], known) for each in wanted)


def _are_equal(one: Json, other: Json) -> bool:
    return len(one) == len(other) and all(map(_is_equal_field, one, other))


def _is_equal_field(one: Json, other: Json) -> bool:
    number = "pg.attnum"
    if number in one and number in other:
        return bool(one == other)
    return {**one, number: None} == {**other, number: None}


class RelationCache:
    """All records of the metadata topic, and the newest version of each relation on the present cluster.

    Records of a cluster that the pipeline followed before keep their schema ids for ever. Their relation ids mean
    nothing any more, so such records are no versions of a relation until they are written again.
    """

    def __init__(self, pipeline: str, known: Iterable[RelationRecord | TypeRecord] = ()) -> None:
        self._pipeline = pipeline
        self._by_key: dict[bytes, RelationRecord | TypeRecord] = {}
        """By the key that the record has in the topic."""
        self._by_schema: dict[str, list[RelationRecord]] = {}
        """By the id of the value's schema, of whatever cluster."""
        self._schema_of_id: dict[str, str] = {}
        """Schemas of keys and of values, as JSON text."""
        self._id_of_schema: dict[str, str] = {}
        """Ids by schema text, since an id takes long to compute."""
        self._types: dict[int, TypeRecord] = {}
        """By oid, the newest version of each."""
        self._versions: dict[int, list[RelationRecord]] = {}
        """By relation id, in the order in which they were written first."""
        self._newest: dict[int, RelationRecord] = {}
        """By relation id, the one that was written last."""
        self._keyed: dict[str, RelationRecord] = {}
        """By topic, the one with a key that was written last, of whatever relation and cluster."""
        self._relation_id_of_name: dict[str, int] = {}
        """By qualified name; what had the name last may be called otherwise by now (``named``)."""
        self._cluster_begins_at = 0
        self._of_older_cluster: set[bytes] = set()
        """Keys of records that no table of this cluster has had written again."""
        for record in known:
            self.remember(record)

    def begin_at(self, offset: int) -> None:
        """Records of another cluster are known, all below this offset of the metadata topic.

        Their schema ids stay taken, but from here on their relation ids may mean other tables.
        """
        # A session that begins again on the same cluster tells the same offset: what was read since then is kept.
        if offset == self._cluster_begins_at:
            return
        self._cluster_begins_at, self._of_older_cluster = offset, {*self._by_key}
        for of_relations in (self._versions, self._newest, self._relation_id_of_name):
            of_relations.clear()

    def remember(self, record: RelationRecord | TypeRecord) -> None:
        """Add a record that the metadata topic holds.

        Raises:
            OperatorError: another value stands under its key (a value never changes).
        """
        other = self._by_key.get(record.key)
        if other is not None and other != record:
            # One of the two needs topics and a lake of its own: no copy parts what both wrote into these.
            raise OperatorError(
                f"the metadata topic holds two different records under {record.key.decode()}",
                remedy="two pipelines share one name; for one of them run walbridge drop --slot-only, then "
                + NEW_PIPELINE,
            )
        if isinstance(record, TypeRecord):
            # The version decides, in whatever order records were read.
            self._types[record.facts.oid] = max(
                record, self._types.get(record.facts.oid, record), key=lambda each: each.version
            )
        else:
            # A version that is written again is the newest once more: the table may have its old columns or name back.
            self._newest[record.table.relation_id] = record
            if record.key_schema is not None:
                self._keyed[record.topic] = record
            self._relation_id_of_name[record.table.qualified_name] = record.table.relation_id
            if other is None or record.key in self._of_older_cluster:
                self._versions.setdefault(record.table.relation_id, []).append(record)
            if other is None:
                self._by_schema.setdefault(record.schema_id, []).append(record)
            self._reserve(record)
        self._by_key[record.key] = record
        self._of_older_cluster.discard(record.key)

    def _reserve(self, record: RelationRecord) -> None:
        """Reserve the record's ids for its schemas."""
        pairs = ((record.schema_id, record.value_schema), (record.key_schema_id, record.key_schema))
        for an_id, schema in pairs:
            if an_id is not None and schema is not None:
                self._schema_of_id[an_id], self._id_of_schema[schema] = schema, an_id

    def is_known(self, record: RelationRecord | TypeRecord) -> bool:
        """Whether the metadata topic holds it already, and it need not be written.

        The last record of a relation tells what the table is called and where its events go. So one that is there, but
        before a record with another name or topic, is not known: it has to be written again.
        """
        if record.key not in self._by_key or isinstance(record, TypeRecord):
            return record.key in self._by_key
        newest = self._newest.get(record.table.relation_id)
        last = None if newest is None else (newest.topic, newest.table.qualified_name)
        return last == (record.topic, record.table.qualified_name)

    def version_of(
        self, table: TableSchema, topic: DataTopic, *, is_registered: bool = False, is_json: bool = False
    ) -> RelationRecord:
        """The record of this schema: the known equal one, or a new one with a free id, which is then taken.

        An id may be of two relations only where all but the relation is equal: readers look a record up by its id.

        Args:
            is_registered: a registry is to know the schema. A new record has no ids of it yet, and will get some.
            is_json: events in the topic are JSON.
        """
        key_id, key = self._key_of(table, topic, is_registered=is_registered)
        # The id is a fingerprint, which other schemas may share; with a revision a schema has another one.
        for revision in count():
            value_id, value = self._value_of(table, revision, is_registered=is_registered)
            others = self._by_schema.get(value_id, ())
            registered = (others[0].value_registry_id, others[0].key_registry_id) if others else (None, None)
            record = RelationRecord(
                table, topic.name, topic.partition_count, value_id, value, key_id, key, revision, *registered, is_json
            )
            if self._is_free(value_id, value) and all(_is_alike(each, record) for each in others):
                self._reserve(record)
                return record
        raise AssertionError("there is always a free id")

    def _value_of(self, table: TableSchema, revision: int, *, is_registered: bool) -> tuple[str, str]:
        """Id and text of a row's schema with this revision.

        Without a registry a revision's field has another type. Where earlier code wrote that into a topic of a
        registry, it stays so there; what is of another topic is another version, and this one gets the next revision.
        """
        found = self._identified(value_schema(self._pipeline, table, revision))
        if not is_registered or not revision or found[1] in self._id_of_schema:
            return found
        return self._identified(value_schema(self._pipeline, table, revision, is_registered=True))

    def _key_of(self, table: TableSchema, topic: DataTopic, *, is_registered: bool) -> tuple[str | None, str | None]:
        """The key's schema, with a revision of its own: no new shape of the row, and no new name, may change the bytes
        of keys, which choose the partition (I3). So a topic keeps the one that it began with as long as that is a key
        of the table; whether it may get another one is for the caller to say.

        Another topic has no such bytes yet: it begins with the columns' names of now, and a registry gets no form there
        that its readers cannot take.
        """
        begun = self._keyed_in(topic.name, table.relation_id)
        if begun is not None and self._has_key_of(begun, table):
            return begun.key_schema_id, begun.key_schema
        for version in reversed(self._versions.get(table.relation_id, ())):
            forms = (False, True) if version.topic == topic.name or not is_registered else (True,)
            if version.key_schema is not None and _is_equal_key(version.key_schema, table, self._pipeline, forms):
                return version.key_schema_id, version.key_schema
        for revision in count():
            key = key_schema(self._pipeline, table, revision, is_registered=is_registered)
            if key is None:
                return None, None
            an_id, text = self._identified(key)
            if self._is_free(an_id, text):
                return an_id, text
        raise AssertionError("there is always a free id")

    def has_other_key(self, topic: str, table: TableSchema) -> bool:
        """Whether rows of this table would get keys of another schema than the topic has, so that one row could stand
        under two keys and in two partitions."""
        begun = self._keyed_in(topic, table.relation_id)
        return bool(table.key_columns) and begun is not None and not self._has_key_of(begun, table)

    def _keyed_in(self, topic: str, relation_id: int) -> RelationRecord | None:
        """The version whose key schema the topic keeps: the newest with a key, of this relation if there is one. If it
        is of another relation, as of another cluster, only names tell whether it is the same key."""
        newest = self._newest.get(relation_id)
        own = [*reversed(self._versions.get(relation_id, ()))]
        found = (each for each in ([newest] if newest else []) + own if each.topic == topic and each.key_schema)
        return next(found, self._keyed.get(topic))

    def _has_key_of(self, version: RelationRecord, table: TableSchema) -> bool:
        is_same = version.table.relation_id == table.relation_id and version.key not in self._of_older_cluster
        return version.key_schema is not None and is_key_of(version.key_schema, table, is_same_relation=is_same)

    def _identified(self, schema: Json) -> tuple[str, str]:
        """The id and the JSON text of a schema."""
        text = json.dumps(schema)
        return self._id_of_schema.get(text) or schema_id(schema), text

    def _is_free(self, an_id: str, schema: str) -> bool:
        return self._schema_of_id.get(an_id, schema) == schema

    def records(self) -> list[RelationRecord]:
        """All relation records that the metadata topic holds, of whatever cluster."""
        return [record for record in self._by_key.values() if isinstance(record, RelationRecord)]

    def newest_of(self, relation_id: int) -> RelationRecord | None:
        """The record that was written last of this relation."""
        return self._newest.get(relation_id)

    def named(self, name: str) -> RelationRecord | None:
        """The newest record of the relation that was last recorded under this name, if that is its name still."""
        newest = self._newest.get(self._relation_id_of_name.get(name, 0))
        return newest if newest is not None and newest.table.qualified_name == name else None

    def partition_counts_of(self, relation_id: int, topic: str | None = None) -> set[int]:
        """The numbers of partitions over which rows of this relation were spread, in this topic or in any."""
        versions = self._versions.get(relation_id, ())
        return {record.partition_count for record in versions if topic in (None, record.topic)}

    def versions_of(self, relation_id: int) -> list[RelationRecord]:
        """All records of this relation, in the order in which they were written first."""
        return [*self._versions.get(relation_id, ())]

    def type_facts(self, type_oid: int) -> TypeFacts | None:
        """The facts of a user type as they were recorded last; None where none are."""
        known = self._types.get(type_oid)
        return None if known is None else known.facts

    def type_records(self, types: Mapping[int, TypeFacts]) -> list[TypeRecord]:
        """Records of these types that the metadata topic lacks, with the next version each."""
        records = []
        for oid, facts in sorted(types.items()):
            latest = self._types.get(oid)
            if latest is None or latest.facts != facts:
                records.append(TypeRecord(facts, latest.version + 1 if latest else 1))
        return records
