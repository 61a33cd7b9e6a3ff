"""Rows of which there is no record, or none that Kafka takes, with the remedy of each."""

import json

import fastavro

from walbridge.producer.errors.remedies import copied_again
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError, copy_command
from walbridge.schemas.json_format.codec import avro_value
from walbridge.schemas.position import Lsn, Position, format_lsn
from walbridge.schemas.table_schema import quoted

_RAISE_ROW_BYTES = "raise [producer] row_bytes_max, start the producer again"


class UnfitRow(OperatorError):
    """A row of which there is no record, or none that Kafka takes. A copy of its table meets it as well."""


def unfit_row(relation: RelationRecord, position: Position, error: ProtocolError | UnfitRow) -> UnfitRow:
    """Bytes that are no value of their type as this code knows it."""
    if isinstance(error, UnfitRow):
        return error
    name = relation.table.qualified_name
    return UnfitRow(
        f"a row of table {name} cannot be published, at {format_lsn(position.commit_lsn)}: {error}",
        remedy=f"report this with the server's version; {copied_again(name)}",
    )


def row_too_large(relation: RelationRecord, value: bytes, row_bytes_max: int) -> UnfitRow:
    """Named by its table, its place and its key's columns: what stands in them is nobody's here (I10)."""
    source = decode_body(avro_value(value, relation), fastavro.parse_schema(json.loads(relation.value_schema)))[
        "source"
    ]
    if relation.table.relation_id == MESSAGES_RELATION_ID:
        return UnfitRow(
            f"a logical message takes {len(value):,} bytes, at {format_lsn(Lsn(source['commit_lsn']))}: "
            f"[producer] row_bytes_max is {row_bytes_max:,}",
            remedy=f"{_RAISE_ROW_BYTES}; or leave its prefix out by [postgres] message_prefixes",
        )
    table = relation.table
    names = ", ".join(quoted(column.name) for column in table.key_columns or table.columns[:1])
    return UnfitRow(
        f"a row of table {table.qualified_name} (key: {', '.join(each.name for each in table.key_columns) or 'none'}) "
        f"takes {len(value):,} bytes, at {format_lsn(Lsn(source['commit_lsn']))}, ordinal {source['ordinal']}: "
        f"[producer] row_bytes_max is {row_bytes_max:,}",
        remedy=f"{_RAISE_ROW_BYTES}; where walbridge tables calls the table quarantined, then "
        f"{copy_command(table.qualified_name)}; which row it is: SELECT {names} FROM {table.quoted_name} AS r "
        "ORDER BY octet_length(r::text) DESC LIMIT 1",
    )


def record_too_large(topic: str, value: bytes, row_bytes_max: int) -> OperatorError:
    """As ``row_too_large``, of a record whose relation is not known."""
    return OperatorError(
        f"a record for topic {topic} has {len(value):,} bytes, [producer] row_bytes_max is {row_bytes_max:,}",
        remedy=_RAISE_ROW_BYTES,
    )
