"""One change of a row, or what happened to a whole table, with Python values by column name.

In: a record of a data topic, and the relation version that wrote it. Out: an ``Event``. Unknown is neither null nor a
value (I6): what Postgres did not send is not in ``after`` at all, so asking for it is a KeyError, and of an old row of
which only the key is known there is only the key. A value that its Avro type cannot hold is there as ``PostgresText``,
which equals no number and no date.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.avro.value_encoders import encoder_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.json_format.codec import avro_key, avro_value
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_schema import Column

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresText(str):
    """What Postgres prints of a value that its Avro type cannot hold: NaN, infinity, the year 10000."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"PostgresText({str(self)!r})"


class Operation(StrEnum):
    """What an event says. ``docs/kafka.md`` tells what a reader does at each."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    """The table is emptied: by TRUNCATE, or to make room for a first copy."""
    COPY = "copy"
    """The row as it is in the source, whatever a reader has of its key."""
    COPY_BEGIN = "copy_begin"
    COPY_END = "copy_end"
    """Of a copy beside the stream: rows that no event has named since its begin are gone."""


_OPERATIONS = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "t": Operation.TRUNCATE,
    "r": Operation.COPY,
}
_MARKERS = {"first_in_data_collection": Operation.COPY_BEGIN, "last_in_data_collection": Operation.COPY_END}
_OF_TABLE = ("t", "m")
"""In a compacted topic they have keys, which are of no row."""
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


@dataclass(frozen=True, slots=True)
class Event:
    """Rows are by Postgres column name. ``topic``, ``partition`` and ``offset``: of its record in Kafka."""

    operation: Operation
    table: str
    """``schema.table``, as it was called then."""
    position: Position
    """Of a delete of which compaction left a tombstone alone (``single_events``): at or before its own."""
    key: Row | None
    before: Row | None
    after: Row | None
    unchanged: tuple[str, ...]
    """Columns that are not in ``after``: an update left them alone, and Postgres did not send them."""
    is_before_whole: bool
    """Whether ``before`` has all columns; else it has those of the key."""
    new_key: Row | None
    """In the ``delete`` of a row whose key changed: the key that its ``insert``, which follows, has."""
    old_key: Row | None
    """In that ``insert``: the key before. Unchanged columns keep the values that the row had under it."""
    xid: int | None
    commit_time: datetime
    topic: str
    partition: int
    offset: int
    relation: RelationRecord = field(repr=False)
    """The version of the table that wrote it: ``relation.table.columns`` has names, types and key."""

    @property
    def exceptional(self) -> tuple[str, ...]:
        """Columns of ``after`` that are ``PostgresText``; of ``before`` where there is no ``after``."""
        row = self.after if self.after is not None else self.before or {}
        return tuple(name for name, value in row.items() if isinstance(value, PostgresText))

    @property
    def older_values(self) -> Row:
        """What rows that are older than a column have in it: the constant default that they got with the column, of
        which Postgres sends no change. In a column that is not here they have null.

        It is of rows that are there when the first event with that column comes, and of no later one.
        """
        columns = self.relation.table.columns
        return {each.name: _value_of(each, each.missing_value) for each in columns if each.missing_value is not None}


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """What a consumer was given."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    """A schema, ready to decode with; ``names``: Avro field → Postgres column. Fields of our own have none."""

    schema: Any
    names: Mapping[str, str]


Version = Callable[[str, int | None], RelationRecord]
"""The relation version of a frame id, and of a relation id where several relations have that schema."""


class EventDecoder:
    """Decodes the events of a pipeline.

    Args:
        version: raises ProtocolError for an id that the metadata topic does not have.
    """

    def __init__(self, version: Version, key_schema: Callable[[str], str]) -> None:
        self._version = version
        self._key_schema = key_schema

    def decode(self, record: KafkaRecord) -> Event:
        """The event of a record.

        Raises:
            ProtocolError: not an event of this pipeline.
        """
        frame_id = frame_of(record.value).frame_id
        relation = self._version(frame_id, None)
        layout = _value_layout(relation.value_schema)
        envelope = decode_body(avro_value(record.value, relation), layout.schema)
        source, is_before_whole = envelope["source"], envelope["before_image"] == "full"
        if source["relation_id"] != relation.table.relation_id:
            # A table that was made again may have the very schema of the one before.
            relation = self._version(frame_id, source["relation_id"])
        headers = dict(record.headers)
        unchanged = tuple(envelope["unchanged"] or ())
        return Event(
            operation=_operation(envelope["op"], source["snapshot"]),
            table=f"{source['schema']}.{source['table']}",
            position=Position(Lsn(source["commit_lsn"]), source["ordinal"]),
            key=self.key(record.key, relation) if envelope["op"] not in _OF_TABLE else None,
            before=_before(envelope, layout, relation, is_before_whole),
            after=_row(envelope["after"], layout.names, envelope["exceptional"], unchanged),
            unchanged=unchanged,
            is_before_whole=is_before_whole,
            new_key=self.key(headers.get(NEW_KEY), relation),
            old_key=self.key(headers.get(OLD_KEY), relation),
            xid=source["txId"],
            commit_time=time_of(source["ts_us"]),
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            relation=relation,
        )

    def key(self, key: bytes | None, relation: RelationRecord) -> Row | None:
        """The columns of a key, as this version calls them. In Avro it names its schema; in JSON it is of this version.
        Raises as ``decode``."""
        if key is None:
            return None
        key = avro_key(key, relation)
        of_version = relation.key_schema if relation.is_json else None
        schema = of_version or self._key_schema(frame_of(key).frame_id)
        layout = _key_layout(schema)
        found = decode_body(key, layout.schema)
        row = _row(found, layout.names, found.get("_exceptional"))
        if row is None or schema != relation.key_schema:
            return row
        called = [column.name for column in relation.table.key_columns]
        return dict(zip(called, row.values(), strict=True))


def _value_of(column: Column, text: str) -> Any:
    """Of what Postgres prints, as an event would have it."""
    encoded = encoder_of(column.column_type)(text.encode())
    if encoded is None:
        return PostgresText(text)
    return fastavro.schemaless_reader(BytesIO(encoded), _union_with_null(json.dumps(column.column_type.avro)), None)


@lru_cache(1_000)
def _union_with_null(avro: str) -> Any:
    return fastavro.parse_schema(["null", json.loads(avro)])


def time_of(us: int) -> datetime:
    """Of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=us)


def _operation(op: str, snapshot: str | None) -> Operation:
    try:
        return _MARKERS[snapshot or ""] if op == "m" else _OPERATIONS[op]
    except KeyError:
        raise ProtocolError(f"an operation {op!r} that this code does not know") from None


@lru_cache(1_000)
def _value_layout(value_schema: str) -> _Layout:
    schema = json.loads(value_schema)
    return _layout(schema, schema["fields"][0]["type"][1]["fields"])


@lru_cache(1_000)
def _key_layout(key_schema: str) -> _Layout:
    schema = json.loads(key_schema)
    return _layout(schema, schema["fields"])


def _layout(schema: Any, fields: Iterable[Mapping[str, Any]]) -> _Layout:
    return _Layout(
        fastavro.parse_schema(schema), {each["name"]: each["pg.name"] for each in fields if "pg.name" in each}
    )


def _before(envelope: Mapping[str, Any], layout: _Layout, relation: RelationRecord, is_whole: bool) -> Row | None:
    row = _row(envelope["before"], layout.names, envelope["before_exceptional"])
    if row is None or is_whole:
        return row
    return {column.name: row[column.name] for column in relation.table.key_columns}


def _row(
    record: Mapping[str, Any] | None,
    names: Mapping[str, str],
    texts: Mapping[str, str] | None,
    without: tuple[str, ...] = (),
) -> Row | None:
    if record is None:
        return None
    row = {name: record[avro] for avro, name in names.items() if name not in without}
    if texts:
        row.update((name, PostgresText(text)) for name, text in texts.items() if name in row)
    return row
