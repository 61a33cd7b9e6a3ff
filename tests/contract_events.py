"""Events as values, and their bytes as the contract has them: what the producer would write.

In: changes by Postgres column name. Out: Kafka keys and values, encoded by fastavro and so without
the producer's own code.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

import fastavro

from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.schema import Json
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.json_format.codec import json_codec
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts, column_type
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.schemas.table_schema import Column
from walbridge.schemas.topics import avro_name

_OIDS = {name: oid for oid, name in BUILTIN_NAMES.items()}
Row = Mapping[str, Any]
Barriers = Sequence[tuple[RelationRecord, Barrier]]


@dataclass(frozen=True)
class ColumnSpec:
    """``type_name``: a built-in type's name (``_int4`` is an array), or any other for one that travels as text."""

    name: str
    type_name: str = "text"
    is_key: bool = False
    typmod: int = -1


@dataclass(frozen=True)
class Event:
    """One change. Rows map Postgres column names to values; a column left out is null."""

    relation: RelationRecord
    op: str
    commit_lsn: int
    ordinal: int
    after: Row | None = None
    before: Row | None = None
    unchanged: Sequence[str] | None = None
    before_image: str | None = None
    exceptional: Mapping[str, str] | None = None
    before_exceptional: Mapping[str, str] | None = None
    partition: int | None = None
    """None: by the key, as the producer does; a truncate or a marker without one goes to every partition."""
    snapshot: str | None = None
    """Of copied rows and markers; None: as the first copy of earlier versions has it."""

    @property
    def has_no_row(self) -> bool:
        """Truncates and the markers of a copy."""
        return self.op in ("t", "m")


def described(spec: ColumnSpec, attnum: int, replica_identity: str) -> Column:
    oid = _OIDS.get(spec.type_name, 600_000 + attnum)
    types: dict[int, TypeFacts] = {}
    return Column(
        spec.name,
        oid,
        spec.type_name,
        spec.typmod,
        column_type(oid, spec.typmod, types),
        in_replica_identity=spec.is_key or replica_identity == "f",
        is_key=spec.is_key,
        attnum=attnum,
        nullable=not spec.is_key,
    )


def copy_barriers(relation: RelationRecord, lsn: int) -> list[tuple[RelationRecord, Barrier]]:
    """copy_begin and copy_end of a copy whose snapshot is at ``lsn``."""
    return [
        (relation, Barrier("copy_begin", Position(Lsn(lsn), -1), relation.schema_id)),
        (relation, Barrier("copy_end", Position(Lsn(lsn), 0))),
    ]


def copy_begin(relation: RelationRecord, lsn: int) -> tuple[Event, tuple[RelationRecord, Barrier]]:
    """The marker and the barrier that begin a copy beside the stream, behind all that ended at or before ``lsn``."""
    marker = Event(relation, "m", lsn, -1, snapshot="first_in_data_collection")
    return marker, (relation, Barrier("copy_begin", Position(Lsn(lsn), -1), relation.schema_id))


def copy_end(relation: RelationRecord, lsn: int) -> tuple[Event, tuple[RelationRecord, Barrier]]:
    """The marker and the barrier that end it."""
    marker = Event(relation, "m", lsn, -1, snapshot="last_in_data_collection")
    return marker, (relation, Barrier("copy_end", Position(Lsn(lsn), -1)))


def copied(relation: RelationRecord, lsn: int, *rows: Row, **more: Any) -> list[Event]:
    """Rows of a copy beside the stream, as the source has them at ``lsn``."""
    return [Event(relation, "r", lsn, -1, after=row, snapshot="incremental", **more) for row in rows]


def last_commit(events: Iterable[Event]) -> int | None:
    """The LSN of the last commit: what a copy brings is of no transaction."""
    return max((event.commit_lsn for event in events if event.ordinal != COPIED_ORDINAL), default=None)


def encode_event(event: Event, pipeline: str) -> bytes:
    """The Kafka value of an event."""
    table = event.relation.table
    source = {
        "version": "0",
        "connector": "walbridge",
        "name": pipeline,
        "db": "test",
        "schema": table.namespace,
        "table": table.name,
        "relation_id": table.relation_id,
        "snapshot": event.snapshot or ("true" if event.op == "r" else None),
        "ts_ms": 0,
        "ts_us": 1_700_000_000_000_000 + event.commit_lsn,
        "lsn": event.commit_lsn,
        "commit_lsn": event.commit_lsn,
        "ordinal": event.ordinal,
    }
    record = {
        "before": _row(event.before),
        "after": _row(event.after),
        "source": source,
        "op": event.op,
        "unchanged": list(event.unchanged) if event.unchanged else None,
        "before_image": event.before_image,
        "exceptional": dict(event.exceptional) if event.exceptional else None,
        "before_exceptional": dict(event.before_exceptional) if event.before_exceptional else None,
    }
    value = _encode(event.relation.value_schema, event.relation.schema_id, record)
    return json_codec(event.relation).value(value) if event.relation.is_json else value


def encode_key(event: Event) -> bytes | None:
    """The Kafka key: the key columns of the row that the event is about."""
    relation = event.relation
    if relation.key_schema is None or relation.key_schema_id is None:
        return None
    gone = event.op == "d"
    row = (event.before if gone else event.after) or {}
    key: dict[str, Any] = {avro_name(c.name): row.get(c.name) for c in relation.table.key_columns}
    texts = (event.before_exceptional if gone else event.exceptional) or {}
    names = {column.name for column in relation.table.key_columns}
    key["_exceptional"] = {name: text for name, text in texts.items() if name in names} or None
    encoded = _encode(relation.key_schema, relation.key_schema_id, key)
    return json_codec(relation).key(encoded) if relation.is_json else encoded


@cache
def _parsed(schema: str) -> Json:
    return fastavro.parse_schema(json.loads(schema))


def _encode(schema: str, with_id: str, record: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    out.write(prefix_of(with_id))
    fastavro.schemaless_writer(out, _parsed(schema), record)
    return out.getvalue()


def _row(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {avro_name(name): value for name, value in row.items()}
