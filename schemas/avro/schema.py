"""Avro schemas of a table's events: its Key and its Envelope.

In: a ``TableSchema``. Out: schemas as JSON values. The envelope is Debezium's, so that what
reads Debezium reads this, plus ``unchanged``, ``before_image``, ``exceptional``,
``before_exceptional`` and, in ``source``, ``commit_lsn``, ``ordinal``, ``relation_id``, ``origin_lsn``.
Every Row field is ``["null", T]`` with default null; the column's Postgres name,
type, typmod and attnum ride as field properties, so that readers need no escaping rules.

``source.lsn`` equals ``commit_lsn``: it orders transactions, ``ordinal`` the events in one.
"""

from collections.abc import Mapping
from typing import Any

from walbridge.schemas.table_schema import Column, TableSchema
from walbridge.schemas.topics import avro_name

Json = Any

OPERATIONS_PROPERTY = "walbridge.operations"
"""Of the envelope: as ``TableSchema.operations``."""
_NULL_STRING: Json = ["null", "string"]
_TEXT_BY_COLUMN: Json = ["null", {"type": "map", "values": "string"}]


def namespace_of(pipeline: str, table: TableSchema) -> str:
    """The Avro namespace of a table's records: ``<p>.<schema>.<table>``, each part escaped."""
    return ".".join(avro_name(part) for part in (pipeline, table.namespace, table.name))


def _optional(name: str, avro: Json, **properties: Json) -> Json:
    return {"name": name, "type": ["null", avro], "default": None, **properties}


def column_field(column: Column) -> Json:
    """The Avro field of one column."""
    properties: dict[str, Json] = {"pg.name": column.name, "pg.type": column.type_name, "pg.typmod": column.typmod}
    if column.base_type is not None:
        properties |= {"pg.base": column.base_type, "pg.base_typmod": column.base_typmod}
    if column.attnum is not None:
        properties["pg.attnum"] = column.attnum
    if column.column_type.is_text:
        properties["pg.text"] = True
    return _optional(avro_name(column.name), column.column_type.avro, **properties)


def key_schema(pipeline: str, table: TableSchema, revision: int = 0, *, is_registered: bool = False) -> Json | None:
    """The record of the key columns, None for a table without a key. ``is_registered``: as ``revision_field``.

    ``exceptional`` keeps the Postgres text of a key value that its Avro type cannot hold, so
    that ``infinity`` and the year 10000 stay two keys.
    """
    if not table.key_columns:
        return None
    fields = [column_field(column) for column in table.key_columns]
    if any(column.column_type.may_be_exceptional for column in table.key_columns):
        fields.append({"name": "_exceptional", "type": _TEXT_BY_COLUMN, "default": None})
    return {
        "type": "record",
        "name": "Key",
        "namespace": namespace_of(pipeline, table),
        "fields": fields + revision_field(revision, is_registered=is_registered),
    }


def value_schema(pipeline: str, table: TableSchema, revision: int = 0, *, is_registered: bool = False) -> Json:
    """The Envelope record of a table. ``revision`` tells apart schemas whose canonical form is equal;
    ``is_registered``: as ``revision_field``."""
    row = {"type": "record", "name": "Row", "fields": [column_field(column) for column in table.columns]}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": namespace_of(pipeline, table),
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Row"], "default": None},
            {"name": "source", "type": _source()},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
            {"name": "transaction", "type": ["null", _transaction()], "default": None},
            {"name": "unchanged", "type": ["null", {"type": "array", "items": "string"}], "default": None},
            {"name": "before_image", "type": _NULL_STRING, "default": None},
            {"name": "exceptional", "type": _TEXT_BY_COLUMN, "default": None},
            {"name": "before_exceptional", "type": _TEXT_BY_COLUMN, "default": None},
            *revision_field(revision, is_registered=is_registered),
        ],
    } | ({} if table.operations is None else {OPERATIONS_PROPERTY: [*table.operations]})


def revision_field(revision: int, *, is_registered: bool = False) -> list[Json]:
    """A field of no bytes: one id always means one schema, though its canonical form drops
    precision, scale and properties.

    Args:
        is_registered: for a schema registry, whose readers include Kafka Connect: converters there refuse a field of
            type null, and take a record without fields.
    """
    if not revision:
        return []
    name = f"_revision_{revision}"
    if is_registered:
        return [{"name": name, "type": {"type": "record", "name": "Revision", "fields": []}, "default": {}}]
    return [{"name": name, "type": "null", "default": None}]


def _source() -> Json:
    # Constant parts first, then those of the transaction, then those of the event: the
    # transcoder encodes each part as seldom as it changes.
    return {
        "type": "record",
        "name": "Source",
        "fields": [
            {"name": "version", "type": "string"},
            {"name": "connector", "type": "string"},
            {"name": "name", "type": "string"},
            {"name": "db", "type": "string"},
            {"name": "schema", "type": "string"},
            {"name": "table", "type": "string"},
            {"name": "relation_id", "type": "long"},
            {"name": "snapshot", "type": _NULL_STRING, "default": None},
            {"name": "ts_ms", "type": "long"},
            {"name": "ts_us", "type": "long"},
            {"name": "txId", "type": ["null", "long"], "default": None},
            {"name": "lsn", "type": ["null", "long"], "default": None},
            {"name": "sequence", "type": _NULL_STRING, "default": None},
            {"name": "origin", "type": _NULL_STRING, "default": None},
            {"name": "commit_lsn", "type": "long"},
            {"name": "ordinal", "type": "long"},
            {"name": "origin_lsn", "type": ["null", "long"], "default": None},
        ],
    }


def _transaction() -> Json:
    return {
        "type": "record",
        "name": "Transaction",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "total_order", "type": "long"},
            {"name": "data_collection_order", "type": "long"},
        ],
    }


def subset(schema: Json, wanted: Mapping[str, Json]) -> Json:
    """A reader schema with only the wanted fields, e.g. ``{"after": None, "source": {"ordinal": None}}``.

    A field mapped to None is taken whole. Named types are defined where first used, so ``after``
    without ``before`` gets the definition of Row.
    """
    named: dict[str, Json] = {}
    _collect_named(schema, named)
    return _subset(schema, wanted, named, set())


def _collect_named(schema: Json, named: dict[str, Json]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect_named(branch, named)
    elif isinstance(schema, dict) and schema.get("type") == "record":
        named[schema["name"]] = schema
        for each in schema["fields"]:
            _collect_named(each["type"], named)


def _subset(schema: Json, wanted: Mapping[str, Json] | None, named: dict[str, Json], defined: set[str]) -> Json:
    if isinstance(schema, list):
        return [_subset(branch, wanted, named, defined) for branch in schema]
    if isinstance(schema, str) and schema in named and schema not in defined:
        schema = named[schema]
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return schema
    defined.add(schema["name"])
    fields = [field for field in schema["fields"] if wanted is None or field["name"] in wanted]
    return schema | {
        "fields": [
            field | {"type": _subset(field["type"], (wanted or {}).get(field["name"]), named, defined)}
            for field in fields
        ]
    }
