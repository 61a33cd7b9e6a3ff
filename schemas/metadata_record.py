"""Records of ``<p>.metadata``: one immutable record a relation version or type version.

The key names relation and schema id, so compaction never removes the decoder of an old event;
a value never changes. From when a schema holds is told by the cuts, not here.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from schemas.avro_codec import decode_control, encode_control
from schemas.errors import ProtocolError
from schemas.pg_types import TypeFacts, column_type
from schemas.table_schema import Column, TableSchema


@dataclass(frozen=True, slots=True)
class RelationRecord:
    """A table schema with its topic and its Avro schemas (JSON text)."""

    table: TableSchema
    topic: str
    partition_count: int
    schema_id: str
    value_schema: str
    key_schema_id: str | None
    key_schema: str | None
    revision: int = 0

    @property
    def key(self) -> bytes:
        """The Kafka key."""
        return f"relation/{self.table.relation_id}/{self.schema_id}".encode()


@dataclass(frozen=True, slots=True)
class TypeRecord:
    """A type's facts at one version, counted from 1."""

    facts: TypeFacts
    version: int

    @property
    def key(self) -> bytes:
        """The Kafka key."""
        return f"type/{self.facts.oid}/{self.version}".encode()


def encode_metadata(record: RelationRecord | TypeRecord) -> bytes:
    """The Kafka value of a metadata record."""
    if isinstance(record, TypeRecord):
        facts = asdict(record.facts) | {"version": record.version}
        facts["fields"] = [{"name": name, "type_oid": oid} for name, oid in record.facts.fields]
        return encode_control("Type", facts)
    table = record.table
    columns = [{name: getattr(column, name) for name in _COLUMN_FIELDS} for column in table.columns]
    return encode_control(
        "Relation",
        {name: getattr(table, name) for name in _TABLE_FIELDS}
        | {name: getattr(record, name) for name in _RECORD_FIELDS}
        | {"columns": columns},
    )


_TABLE_FIELDS = ("relation_id", "namespace", "name", "replica_identity", "root_relation_id")
_RECORD_FIELDS = (
    "topic",
    "partition_count",
    "schema_id",
    "value_schema",
    "key_schema_id",
    "key_schema",
    "revision",
)
_COLUMN_FIELDS = (
    "name",
    "type_oid",
    "type_name",
    "typmod",
    "in_replica_identity",
    "is_key",
    "attnum",
    "nullable",
    "missing_value",
)


def decode_metadata(value: bytes) -> RelationRecord | TypeRecord:
    """Decode a value of the metadata topic.

    Columns get their types back from the value schema, which is what the bytes follow.

    Raises:
        ProtocolError: not such a record.
    """
    name, record = decode_control(value, ("Relation", "Type"))
    if name == "Type":
        fields = tuple((field["name"], field["type_oid"]) for field in record["fields"])
        kept = {name: record[name] for name in ("oid", "namespace", "name", "kind", "base_type", "element_type")}
        facts = TypeFacts(**kept, enum_labels=tuple(record["enum_labels"]), fields=fields)
        return TypeRecord(facts, record["version"])
    try:
        avro_fields = json.loads(record["value_schema"])["fields"][0]["type"][1]["fields"]
        columns = tuple(_column(column, field) for column, field in zip(record["columns"], avro_fields, strict=True))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProtocolError(f"the value schema of {record['namespace']}.{record['name']} is no Envelope") from error
    table = TableSchema(**{name: record[name] for name in _TABLE_FIELDS}, columns=columns)
    return RelationRecord(table, **{name: record[name] for name in _RECORD_FIELDS})


def _column(column: Mapping[str, Any], avro_field: Mapping[str, Any]) -> Column:
    kind = "e" if avro_field["type"][1] == "string" and not avro_field.get("pg.text") else "b"
    types = {column["type_oid"]: TypeFacts(column["type_oid"], "", column["type_name"], kind)}
    avro = avro_field["type"][1]
    if isinstance(avro, dict) and avro["type"] == "array":
        element = TypeFacts(0, "", "", "e")
        types = {column["type_oid"]: TypeFacts(column["type_oid"], "", "", "a", element_type=0), 0: element}
    known = column_type(column["type_oid"], column["typmod"], types)
    if known.avro != avro:
        # Newer code may map a type otherwise; its bytes must not be read by our table (I7).
        raise ProtocolError(f"type {column['type_name']} travels as {avro}, this code knows {known.avro}")
    return Column(**column, column_type=known)
