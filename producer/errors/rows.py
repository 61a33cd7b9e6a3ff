"""Rows of which there is no record, or none that Kafka takes, with the remedy of each."""

import json
from collections.abc import Sequence

import fastavro

from walbridge.producer.errors.remedies import ON_UNKNOWN_VALUE, copied_again
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError, copy_command
from walbridge.schemas.json_format.codec import avro_value
from walbridge.schemas.position import Lsn, Position, format_lsn
from walbridge.schemas.table_schema import TableSchema, quoted

_RAISE_ROW_BYTES = "raise [producer] row_bytes_max, start the producer again"


class UnfitRow(OperatorError):
    """A row of which there is no record, or none that Kafka takes. A copy of its table meets it as well."""


class UnknownValue(OperatorError):
    """A row came without a value that exists nowhere: not in the row, and not in an older event of its key."""


def values_not_sent(table: TableSchema, unchanged: Sequence[str]) -> UnknownValue:
    """Of an INSERT: there is no older event of its key that would have them (I6)."""
    return UnknownValue(
        f"an INSERT into {table.qualified_name} lacks the unchanged TOAST value of {', '.join(unchanged)}: "
        "its row filter turned an UPDATE into it",
        remedy=f"{table.identity_full}; {copied_again(table.qualified_name)}; or {ON_UNKNOWN_VALUE}",
    )


def key_not_sent(table: TableSchema) -> OperatorError:
    """A fault of older servers."""
    name = table.qualified_name
    return OperatorError(
        f"an UPDATE of {name} came without the value of its key, which is stored out of line",
        remedy=f"update the server (fixed in 12.11, 13.7, 14.3), or {table.identity_full}; {copied_again(name)}",
    )


def old_row_not_sent(table: TableSchema) -> OperatorError:
    """Without it nobody knows which row of a table without a key was updated."""
    name = table.qualified_name
    return OperatorError(
        f"an UPDATE of {name} came without its old row, though its replica identity is FULL: "
        "the partition that holds the row has another one",
        remedy=f"ALTER TABLE <partition> REPLICA IDENTITY FULL, for each partition of {name}; {copied_again(name)}",
    )


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
