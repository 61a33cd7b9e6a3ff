"""Records of ``<p>.metadata``: one immutable record a relation version or type version.

The key names relation and schema id, so compaction never removes the decoder of an old event;
a value never changes. From when a schema holds is told by the cuts, not here.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.avro.framing import (
    CONFLUENT,
    JSON,
    SINGLE_OBJECT,
    Framing,
    json_frame_id,
    prefix_of,
    registry_frame_id,
)
from walbridge.schemas.avro.schema import OPERATIONS_PROPERTY
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts, column_type, type_of_avro
from walbridge.schemas.table_schema import Column, TableSchema

SYSTEM_HEADER = "walbridge.system_id"
"""Kafka header of a metadata record: the cluster whose relation ids it names. Earlier code wrote none."""


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
    value_registry_id: int | None = None
    """Where values are in Confluent's wire format: the registry's id of their schema."""
    key_registry_id: int | None = None
    is_json: bool = False
    """Keys and values are JSON (``json_format``), which has the content of these schemas."""

    @property
    def framing(self) -> Framing:
        """Of keys and values."""
        if self.is_json:
            return JSON
        return SINGLE_OBJECT if self.value_registry_id is None else CONFLUENT

    @property
    def frame_id(self) -> str:
        """What the framing of its values says (``framing``)."""
        if self.is_json:
            return json_frame_id(self.schema_id)
        return self.schema_id if self.value_registry_id is None else registry_frame_id(self.value_registry_id)

    @property
    def key_frame_id(self) -> str | None:
        """What the framing of its keys says; None without keys. Keys in JSON say nothing: it is that of their Avro."""
        return self.key_schema_id if self.key_registry_id is None else registry_frame_id(self.key_registry_id)

    @property
    def avro_prefix(self) -> bytes:
        """What stands before the Avro that its values are, or that JSON is made of."""
        return prefix_of(self.schema_id if self.is_json else self.frame_id)

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
        facts = {name: getattr(record.facts, name) for name in _TYPE_FIELDS} | {"version": record.version}
        facts["fields"] = [{"name": name, "type_oid": oid} for name, oid in record.facts.fields]
        return encode_control("Type", facts)
    table = record.table
    columns = [{name: getattr(column, name) for name in _COLUMN_FIELDS} for column in table.columns]
    # Earlier code reads what it can, and refuses what is framed in a way that it does not know, or what gives rows that
    # it has a value (I7).
    name, fields = ("Relation", _RECORD_FIELDS) if record.value_registry_id is None else ("Relation2", _FRAMED_FIELDS)
    if any(column.missing_value is not None for column in table.columns):
        name, fields = "Relation3", _FRAMED_FIELDS
    told: dict[str, Any] = {}
    if record.is_json:
        name, fields, told = "Relation4", _RECORD_FIELDS, {"format": _JSON}
    return encode_control(
        name,
        told
        | {name: getattr(table, name) for name in _TABLE_FIELDS}
        | {name: getattr(record, name) for name in fields}
        | {"columns": columns},
    )


_JSON = "json"
_SCHEMA_ID = re.compile("[0-9a-f]{16}")
_TYPE_FIELDS = ("oid", "namespace", "name", "kind", "enum_labels", "base_type", "element_type")
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
_FRAMED_FIELDS = (*_RECORD_FIELDS, "value_registry_id", "key_registry_id")
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
    name, record = decode_control(value, ("Relation", "Type", "Relation2", "Relation3", "Relation4"))
    if name == "Type":
        fields = tuple((field["name"], field["type_oid"]) for field in record["fields"])
        kept = {name: record[name] for name in _TYPE_FIELDS}
        facts = TypeFacts(**kept | {"enum_labels": tuple(record["enum_labels"]), "fields": fields})
        return TypeRecord(facts, record["version"])
    try:
        envelope = json.loads(record["value_schema"])
        avro_fields = envelope["fields"][0]["type"][1]["fields"]
        operations = tuple(envelope[OPERATIONS_PROPERTY]) if OPERATIONS_PROPERTY in envelope else None
        columns = tuple(_column(column, field) for column, field in zip(record["columns"], avro_fields, strict=True))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"the value schema of {record['namespace']}.{record['name']} is no Envelope") from error
    table = TableSchema(**{name: record[name] for name in _TABLE_FIELDS}, columns=columns, operations=operations)
    is_json = name == "Relation4"
    of_version = _RECORD_FIELDS if name in ("Relation", "Relation4") else _FRAMED_FIELDS
    if any((record.get(each) or 0) < 0 for each in ("value_registry_id", "key_registry_id")):
        raise ProtocolError(f"a registry's id of {record['namespace']}.{record['name']} is below 0")
    if record.get("value_registry_id") is None and record.get("key_registry_id") is not None:
        raise ProtocolError(f"keys of {record['namespace']}.{record['name']} are framed otherwise than its values")
    if is_json and (record["format"] != _JSON or not _SCHEMA_ID.fullmatch(record["schema_id"])):
        raise ProtocolError(f"{table.qualified_name} is in a format that this code does not know")
    return RelationRecord(table, **{name: record[name] for name in of_version}, is_json=is_json)


def _column(column: Mapping[str, Any], avro_field: Mapping[str, Any]) -> Column:
    avro = avro_field["type"][1]
    known = type_of_avro(avro, is_text=avro_field.get("pg.text", False))
    built_in = column_type(column["type_oid"], column["typmod"], {})
    if known is None or (column["type_oid"] in BUILTIN_NAMES and known != built_in):
        # Newer code may map a type otherwise; its bytes must not be read by our table (I7).
        ours = f", this code knows {built_in.avro}" if column["type_oid"] in BUILTIN_NAMES else ""
        raise ProtocolError(f"type {column['type_name']} travels as {avro}{ours}")
    base_type, base_typmod = avro_field.get("pg.base"), avro_field.get("pg.base_typmod", -1)
    return Column(**column, column_type=known, base_type=base_type, base_typmod=base_typmod)
