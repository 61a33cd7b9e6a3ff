"""An event as a person reads it: decoded by the schema that the metadata topic names.

In: a Kafka message of a data topic. Out: its position and a JSON object. What Postgres did not
send is left out of ``after`` and named in ``unchanged``; a value that its Avro type cannot hold
is shown as Postgres prints it and named in ``exceptional``. If only the key of an old row is
known, only the key is shown: unknown is neither null nor a value (I6).
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

import fastavro
from confluent_kafka import Message

from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.json_format.codec import avro_key, avro_value
from walbridge.schemas.position import Lsn, Position, format_lsn

_OPERATIONS = {"r": "copy", "c": "insert", "u": "update", "d": "delete", "t": "truncate", "m": "message"}
_OF_TABLE = ("t", "m")
"""Operations of whole tables. In a compacted topic they have keys, which belong to no row."""
_KEY_HEADERS = {"__debezium.newkey": "new_key", "__debezium.oldkey": "old_key"}


@dataclass(frozen=True, slots=True)
class ReadableEvent:
    """``shown``: the JSON object that is printed."""

    position: Position
    shown: dict[str, Any]

    @property
    def line(self) -> str:
        """JSON on one line."""
        return json.dumps(self.shown, ensure_ascii=False)


class EventDecoder:
    """Decodes the events of all tables of a pipeline.

    Args:
        read_relations: reads the metadata topic; called again for a frame id that is not known
            yet, since a schema is there before any event that names it (I2).
    """

    def __init__(self, read_relations: Callable[[], Iterable[RelationRecord]]) -> None:
        self._read_relations = read_relations
        self._values: dict[str, tuple[RelationRecord, Any]] = {}
        self._keys: dict[str, tuple[dict[str, str], Any]] = {}

    def decode(self, message: Message) -> ReadableEvent:
        """The event of a message.

        Raises:
            OperatorError: not an event of ours, or its schema is not in the metadata topic.
        """
        try:
            return self._decode(message)
        except ProtocolError as error:
            raise OperatorError(
                f"{message.topic()}, partition {message.partition()}, offset {message.offset()}: {error}",
                remedy="see who else writes to this topic; if walbridge itself did, run the version that wrote it",
            ) from None

    def position(self, message: Message) -> Position:
        """The position of a message's event."""
        return self.decode(message).position

    def _decode(self, message: Message) -> ReadableEvent:
        value = message.value() or b""
        relation, parsed = self._schema(frame_of(value).frame_id)
        record = decode_body(avro_value(value, relation), parsed)
        source = record["source"]
        position = Position(Lsn(source["commit_lsn"]), source["ordinal"])
        shown = {
            "position": position_text(position),
            "op": _operation(record["op"], source["snapshot"]),
            **_subject(record, relation),
            "key": self._key(message.key(), relation) if record["op"] not in _OF_TABLE else None,
            **{_KEY_HEADERS[name]: self._key(key, relation) for name, key in _headers(message) if name in _KEY_HEADERS},
            "before": _before(record, relation),
            "after": _after(record, relation),
            "unchanged": record["unchanged"],
            "exceptional": sorted({*(record["exceptional"] or ()), *(record["before_exceptional"] or ())}),
            "commit_time": datetime.fromtimestamp(source["ts_us"] / 1_000_000, UTC).isoformat(),
            "xid": source["txId"],
            "partition": message.partition(),
            "offset": message.offset(),
        }
        return ReadableEvent(position, {name: value for name, value in shown.items() if value not in (None, [])})

    def _schema(self, frame_id: str) -> tuple[RelationRecord, Any]:
        if frame_id not in self._values:
            self._learn()
        try:
            return self._values[frame_id]
        except KeyError:
            raise ProtocolError(f"its schema {frame_id} is not in the metadata topic") from None

    def _key(self, key: bytes | None, relation: RelationRecord) -> dict[str, Any] | None:
        if key is None:
            return None
        key = avro_key(key, relation)
        frame_id = frame_of(key).frame_id
        if frame_id not in self._keys:
            self._learn()
        if frame_id not in self._keys:
            raise ProtocolError(f"the schema {frame_id} of its key is not in the metadata topic")
        names, parsed = self._keys[frame_id]
        record = decode_body(key, parsed)
        row = _row(record, names, record.get("_exceptional"))
        if frame_id != relation.key_frame_id:
            return row
        called = [column.name for column in relation.table.key_columns]  # they may be called otherwise by now
        return dict(zip(called, row.values(), strict=True))

    def _learn(self) -> None:
        for relation in self._read_relations():
            value = json.loads(relation.value_schema)
            self._values.setdefault(relation.frame_id, (relation, fastavro.parse_schema(value)))
            if relation.key_schema is not None and relation.key_frame_id is not None:
                key = json.loads(relation.key_schema)
                self._keys.setdefault(relation.key_frame_id, (_names(key["fields"]), fastavro.parse_schema(key)))


def _subject(record: Mapping[str, Any], relation: RelationRecord) -> dict[str, Any]:
    """The table; of a logical message its prefix and content, as text where it is some."""
    message = record.get("message")
    if message is None:
        return {"table": relation.table.qualified_name}
    try:
        content = message["content"].decode()
    except UnicodeDecodeError:
        content = _json_value(message["content"])
    return {"prefix": message["prefix"], "content": content}


def position_text(position: Position) -> str:
    """``16/B374D848/0``: LSN and ordinal."""
    return f"{format_lsn(position.commit_lsn)}/{position.ordinal}"


def _operation(op: str, snapshot: str | None) -> str:
    # The truncate that makes room for a copy is no TRUNCATE of the source's.
    return "copy begins" if op == "t" and snapshot not in (None, "false") else _OPERATIONS.get(op, op)


def _headers(message: Message) -> list[tuple[str, bytes]]:
    return cast(list[tuple[str, bytes]], message.headers() or [])


def _names(fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Avro field name → Postgres column name."""
    return {field["name"]: field["pg.name"] for field in fields if "pg.name" in field}


@lru_cache(1_000)
def _columns(value_schema: str) -> Mapping[str, str]:
    return _names(json.loads(value_schema)["fields"][0]["type"][1]["fields"])


def _after(record: Mapping[str, Any], relation: RelationRecord) -> dict[str, Any] | None:
    if record["after"] is None:
        return None
    row = _row(record["after"], _columns(relation.value_schema), record["exceptional"])
    return {name: value for name, value in row.items() if name not in (record["unchanged"] or ())}


def _before(record: Mapping[str, Any], relation: RelationRecord) -> dict[str, Any] | None:
    if record["before"] is None:
        return None
    row = _row(record["before"], _columns(relation.value_schema), record["before_exceptional"])
    if record["before_image"] == "full":
        return row
    keys = {column.name for column in relation.table.key_columns}
    return {name: value for name, value in row.items() if name in keys}


def _row(record: Mapping[str, Any], names: Mapping[str, str], exceptional: Mapping[str, str] | None) -> dict[str, Any]:
    row = {names[field]: _json_value(value) for field, value in record.items() if field in names}
    return row | dict(exceptional or {})


def _json_value(value: Any) -> Any:
    """As JSON can hold it without loss: what is no JSON number, text or truth value becomes text."""
    match value:
        case list():
            return [_json_value(each) for each in value]
        case bytes():
            return "\\x" + value.hex()
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
