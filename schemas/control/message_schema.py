"""Logical messages (``pg_logical_emit_message``) as events: the topic ``<p>.messages`` and its schema.

Debezium's shape of them, ``op: m`` and ``message: {prefix, content}``, in the envelope that every
topic of a pipeline has: what reads one reads all. They are of no table, so their record in the
metadata topic is that of a relation without columns under an id that no relation has.
"""

import json

from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import Json, value_schema
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import TableSchema
from walbridge.schemas.topics import avro_name, messages_topic

MESSAGES_RELATION_ID = 0
"""In metadata and cuts; Postgres gives nothing this oid. Readers that make tables of events leave it out."""
NAME = "messages"


def message_relation(pipeline: str) -> RelationRecord:
    """What readers of the topic need: one partition, no key, one schema."""
    table = TableSchema(MESSAGES_RELATION_ID, "", NAME, "n", ())
    schema = message_schema(pipeline, table)
    return RelationRecord(table, messages_topic(pipeline), 1, schema_id(schema), json.dumps(schema), None, None)


def message_schema(pipeline: str, table: TableSchema) -> Json:
    """The envelope of a table without columns, and the message."""
    envelope = value_schema(pipeline, table) | {"namespace": f"{avro_name(pipeline)}.{NAME}"}
    fields = [{"name": "prefix", "type": "string"}, {"name": "content", "type": "bytes"}]
    message = {"type": "record", "name": "Message", "fields": fields}
    envelope["fields"] = [*envelope["fields"], {"name": "message", "type": ["null", message], "default": None}]
    return envelope
