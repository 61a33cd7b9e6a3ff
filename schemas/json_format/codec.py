"""A record in Avro to the same record in JSON, and back to the same bytes.

In: keys and values of one relation version, in single-object encoding. Out: Debezium's schemaless JSON. The envelope
has the fields of ours in Avro, with the same names; columns are called as in Postgres. It begins with ``schema_id``,
which names the relation version: ``framing`` finds it there. Debezium's finer times are told beside ours, and are not
read back. A key is an object of its columns and nothing else, but for ``_exceptional`` where a value of it is
exceptional.

So the producer makes JSON of what it has encoded, and a reader makes Avro of it before anything else: neither has
another way for it in between. A JSON number has no bounds here: integers beyond 2^53 are exact.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from walbridge.schemas.avro.codec import decode_body, encode_body
from walbridge.schemas.avro.framing import frame_of, prefix_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.json_format.values import (
    Convert,
    base64_bytes,
    base64_text,
    dumped_text,
    from_json,
    json_text,
    to_json,
)
from walbridge.schemas.pg_types import ColumnType, type_of_avro

Json = Any
Row = dict[str, Any]
SCHEMA_ID = "schema_id"
"""The first field of an event."""
EXCEPTIONAL = "_exceptional"
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_ROWS = ("before", "after")
FinerTimes = Mapping[str, tuple[str, int]]
FINER_OF_ENVELOPE: FinerTimes = {"ts_us": ("ts_ms", 1_000), "ts_ns": ("ts_ms", 1_000_000)}
"""Debezium's finer times: for each, the field of ours that it is made of, and how many go into one unit of that."""
FINER_OF_SOURCE: FinerTimes = {"ts_ns": ("ts_us", 1_000)}
_PG_NAME = "pg.name"


class JsonCodec:
    """Converts keys and values of one relation version between Avro and JSON; schemas are JSON text.

    Args:
        columns_of_key: the names of the key's columns in rows of this version, in the key's order. In keys the columns
            keep the names that they had when the topic began.
    """

    def __init__(
        self,
        schema_id: str,
        value_schema: str,
        key_schema_id: str | None,
        key_schema: str | None,
        columns_of_key: Sequence[str],
    ) -> None:
        self._columns_of_key = columns_of_key
        self.schema_id, self.avro_prefix = schema_id, prefix_of(schema_id)
        value = json.loads(value_schema)
        self.schema = _physical(value)
        """Without logical types."""
        self._value_schema = fastavro.parse_schema(self.schema)
        self.fields = [each["name"] for each in value["fields"] if not _is_revision(each)]
        """Those that are in JSON."""
        self.row = _RowCodec.of(value["fields"][0]["type"][1]["fields"])
        self._key: _RowCodec | None = None
        if key_schema is not None and key_schema_id is not None:
            key = json.loads(key_schema)
            self._key_prefix, self._key_schema = prefix_of(key_schema_id), fastavro.parse_schema(_physical(key))
            self._key = _RowCodec.of([each for each in key["fields"] if _PG_NAME in each], is_key=True)

    def value(self, avro: bytes) -> bytes:
        """The event in JSON.

        Raises:
            ProtocolError: it is not of this version, or holds text that is not UTF-8.
        """
        envelope = decode_body(avro, self._value_schema)
        event = {SCHEMA_ID: self.schema_id} | {name: envelope[name] for name in self.fields}
        for name in _ROWS:
            if event[name] is not None:
                event[name] = self.row.to_json(event[name])
        if event.get("message") is not None:
            event["message"]["content"] = base64_text(event["message"]["content"])
        event["source"] = with_finer(event["source"], FINER_OF_SOURCE)
        return dumped(with_finer(event, FINER_OF_ENVELOPE))

    def avro_value(self, value: bytes) -> bytes:
        """The event in Avro, made of its JSON.

        Raises:
            ProtocolError: it is not of this version.
        """
        try:
            event = _loaded(value)
            if event.pop(SCHEMA_ID) != self.schema_id:
                raise ProtocolError(f"an event of another schema than {self.schema_id}")
            if event.keys() - FINER_OF_ENVELOPE.keys() != {*self.fields}:
                raise ProtocolError("an event with other fields")
            for name in _ROWS:
                if event[name] is not None:
                    event[name] = self.row.from_json(event[name])
            if event.get("message") is not None:
                event["message"]["content"] = base64_bytes(event["message"]["content"])
            return encode_body(self.avro_prefix, self._value_schema, event)
        except _MALFORMED as error:
            raise ProtocolError(f"malformed event of schema {self.schema_id}: {type(error).__name__}") from None

    def key(self, avro: bytes) -> bytes:
        """The key in JSON. Raises as ``value``."""
        assert self._key is not None, "a key of a table without one"
        found = decode_body(avro, self._key_schema)
        key = self._key.to_json(found)
        if found.get(EXCEPTIONAL):
            key[EXCEPTIONAL] = found[EXCEPTIONAL]
        return dumped(key)

    def avro_key(self, key: bytes) -> bytes:
        """The key in Avro, made of its JSON. Raises as ``avro_value``."""
        if self._key is None:
            raise ProtocolError("a key of a table without one")
        try:
            found = _loaded(key)
            texts = found.pop(EXCEPTIONAL, None)
            return encode_body(self._key_prefix, self._key_schema, self._key.from_json(found) | {EXCEPTIONAL: texts})
        except _MALFORMED as error:
            raise ProtocolError(f"malformed key of schema {self.schema_id}: {type(error).__name__}") from None

    @property
    def key_columns(self) -> list[tuple[str, str]] | None:
        """Names in a key, each with what its column is called in rows of this version; None without a key."""
        return None if self._key is None else [*zip(self._key.names, self._columns_of_key, strict=True)]

    def whole_table_key(self, number: int) -> bytes:
        """A key that no row has: all its columns are null. Those of two numbers are the same JSON in other bytes."""
        assert self._key is not None, "a key of a table without one"
        return dumped(dict.fromkeys(self._key.names))[:-1] + b" " * number + b"}"


@dataclass(frozen=True, slots=True)
class _RowCodec:
    """Columns: their names in Avro, in JSON, and what becomes of their values."""

    names: Sequence[str]
    column_names: Sequence[str]
    columns: Sequence[tuple[str, str, Convert | None, Convert | None]]
    texts: Sequence[tuple[str, Callable[[Any], str]]]
    """Names in Avro, and what makes the text of JSON of their values."""

    @classmethod
    def of(cls, fields: Sequence[Json], *, is_key: bool = False) -> "_RowCodec":
        names = column_names = [each[_PG_NAME] for each in fields]
        if is_key and EXCEPTIONAL in names:
            names = [each["name"] for each in fields]  # in which that name is escaped
        types = [_type_of(each) for each in fields]
        of_columns = [*zip(fields, names, types, strict=True)]
        return cls(
            names,
            column_names,
            [(each["name"], name, to_json(known), from_json(known)) for each, name, known in of_columns],
            [(each["name"], json_text(known)) for each, _, known in of_columns],
        )

    def to_json(self, record: Mapping[str, Any]) -> Row:
        return {
            name: value if (value := record[avro]) is None or convert is None else convert(value)
            for avro, name, convert, _ in self.columns
        }

    def from_json(self, row: Row) -> Row:
        if row.keys() != {*self.names}:
            raise ValueError("other columns")
        return {
            avro: value if (value := row[name]) is None or convert is None else convert(value)
            for avro, name, _, convert in self.columns
        }


def _type_of(field: Json) -> ColumnType:
    known = type_of_avro(field["type"][1], is_text=field.get("pg.text", False))
    if known is None:
        raise ProtocolError(f"column {field[_PG_NAME]} travels as {field['type'][1]}, which this code does not know")
    return known


def dumped(value: Row) -> bytes:
    """An object in JSON, in UTF-8."""
    return dumped_text(value).encode()


def with_finer(fields: Row, finer: FinerTimes) -> Row:
    """These fields with the finer times added, each after the field that it is made of."""
    found: Row = {}
    for name, value in fields.items():
        found[name] = value
        for each, (of, count) in finer.items():
            if of == name:
                found[each] = None if value is None else value * count
    return found


def _no_constant(_: str) -> None:
    raise ValueError("no JSON")


def _loaded(value: bytes) -> Row:
    found = json.loads(value, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _is_revision(field: Json) -> bool:
    return str(field["name"]).startswith("_revision_")


def _physical(schema: Json) -> Json:
    """Without logical types: dates are days, timestamps microseconds, numerics bytes."""
    if isinstance(schema, list):
        return [_physical(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    nested = {name: _physical(schema[name]) for name in ("type", "items", "fields", "values") if name in schema}
    return {name: each for name, each in schema.items() if name != "logicalType"} | nested


@lru_cache(1_000)
def _codec(
    schema_id: str, value_schema: str, key_schema_id: str | None, key_schema: str | None, columns_of_key: Sequence[str]
) -> JsonCodec:
    return JsonCodec(schema_id, value_schema, key_schema_id, key_schema, columns_of_key)


def json_codec(relation: RelationRecord) -> JsonCodec:
    """The codec of a relation version whose topic holds JSON."""
    called = tuple(column.name for column in relation.table.key_columns)
    return _codec(relation.schema_id, relation.value_schema, relation.key_schema_id, relation.key_schema, called)


def avro_value(value: bytes, relation: RelationRecord) -> bytes:
    """The value in Avro, in this version's schema, whether the topic's format is JSON or Avro.

    Raises:
        ProtocolError: it is JSON, and not of this version.
    """
    return json_codec(relation).avro_value(value) if relation.is_json else value


def avro_key(key: bytes, relation: RelationRecord) -> bytes:
    """The key in Avro, whether the topic's format is JSON or Avro. Raises as ``avro_value``."""
    return json_codec(relation).avro_key(key) if relation.is_json else key


def has_key(relation: RelationRecord, key: bytes) -> bool:
    """Whether this is a key of that version. In JSON it is one of each version whose columns can hold it."""
    if not relation.is_json:
        return frame_of(key).frame_id == relation.key_frame_id
    try:
        avro_key(key, relation)
    except ProtocolError:
        return False
    return True
