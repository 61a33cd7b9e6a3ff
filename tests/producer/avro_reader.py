"""What a reader of the topics finds: keys and envelopes decoded by fastavro, with the record's own schemas."""

import json
from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro

from tests.schemas.strategies import table
from walbridge.producer.pgoutput.messages import Field, Unsent
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import Column, TableSchema


def record_of(*columns: Column, of: TableSchema | None = None) -> RelationRecord:
    """The metadata record of a table, as the producer makes it."""
    return RelationCache("p").version_of(of or table(*columns), DataTopic("p.public.orders", 4))


@lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


def _expect_header(record_schema_id: str | None, data: bytes) -> None:
    assert record_schema_id is not None
    assert prefix_of(record_schema_id) == data[:10]


def envelope(record: RelationRecord, value: bytes) -> dict[str, Any]:
    """The Envelope of a Kafka value."""
    _expect_header(record.schema_id, value)
    return decode_body(value, _parsed(record.value_schema))


def key(record: RelationRecord, data: bytes | None) -> dict[str, Any]:
    """The Key of a Kafka key."""
    assert data is not None
    assert record.key_schema is not None
    _expect_header(record.key_schema_id, data)
    return decode_body(data, _parsed(record.key_schema))


def row(record: RelationRecord, data: bytes) -> Sequence[Any]:
    """The values of a Row, in the columns' order."""
    schema = json.loads(record.value_schema)["fields"][0]["type"][1]
    source = BytesIO(data)
    found = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    assert source.tell() == len(data)
    return list(found.values())  # type: ignore[union-attr]


def encoded_key(record: RelationRecord, values: dict[str, Any]) -> bytes:
    """The key that fastavro writes."""
    assert record.key_schema is not None
    assert record.key_schema_id is not None
    out = BytesIO()
    fastavro.schemaless_writer(out, _parsed(record.key_schema), values)
    return prefix_of(record.key_schema_id) + out.getvalue()


def text_fields(*texts: str | None) -> list[Field]:
    """Fields of these texts; None is null."""
    return [Unsent.NULL if text is None else text.encode() for text in texts]
