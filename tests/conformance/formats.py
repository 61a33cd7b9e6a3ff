"""The recorded topics as they are in the other formats: ``python -m tests.conformance.formats`` writes them.

In: ``records.jsonl``, in single-object encoding. Out: ``records-confluent.jsonl`` and ``records-json.jsonl``, at the
same places: with the bytes that a producer makes where ``topics.format`` is that, so that what is expected of them is
the same. ``test_recorded.py`` makes them again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.conformance.recorded import (
    CONTROL,
    FOLDER,
    OPTIONAL,
    RECORDS,
    TRANSACTIONS,
    record_line,
    records,
    write_lines,
)
from walbridge.consumer.event import NEW_KEY, OLD_KEY, KafkaRecord
from walbridge.producer.encoding.whole_table_keys import whole_table_keys
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.framing import SINGLE_OBJECT, prefix_of, registry_frame_id
from walbridge.schemas.avro.schema import revision_field
from walbridge.schemas.control.cut import Cut, TableChanges, decode_cut, encode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata, encode_metadata
from walbridge.schemas.json_format.codec import json_codec

KEYS_FROM = 100
"""Ids of a registry: those of values count from 1, those of keys from here."""


def in_confluent(found: Sequence[KafkaRecord]) -> list[KafkaRecord]:
    """In Confluent's wire format."""
    versions = _versions(found)
    value_ids = {each.schema_id: number for number, each in enumerate(versions, 1)}
    keys = dict.fromkeys(each.key_schema_id for each in versions if each.key_schema_id)
    key_ids = {each: number for number, each in enumerate(keys, KEYS_FROM)}
    ids = {each: registry_frame_id(an_id) for each, an_id in (*value_ids.items(), *key_ids.items())}
    registered = {
        each.schema_id: replace(
            _registered(each),
            value_registry_id=value_ids[each.schema_id],
            key_registry_id=None if each.key_schema_id is None else key_ids[each.key_schema_id],
        )
        for each in versions
    }

    def framed(data: bytes) -> bytes:
        return prefix_of(ids[_schema_id(data)]) + data[SINGLE_OBJECT.body_at :]

    return [_of(each, registered, lambda data, _: framed(data), framed) for each in found]


def in_json(found: Sequence[KafkaRecord]) -> list[KafkaRecord]:
    """As JSON."""
    versions = {each.schema_id: replace(each, is_json=True) for each in _versions(found)}
    with_key = {each.key_schema_id: each for each in versions.values()}
    of_tables = {key: n for each in versions.values() for n, key in enumerate(whole_table_keys(each).values())}

    def key(data: bytes) -> bytes:
        codec = json_codec(with_key[_schema_id(data)])
        return codec.key(data) if data not in of_tables else codec.whole_table_key(of_tables[data])

    def value(data: bytes, version: RelationRecord) -> bytes:
        return json_codec(version).value(data)

    return [_of(each, versions, value, key) for each in found]


def _of(
    record: KafkaRecord,
    versions: dict[str, RelationRecord],
    value_of: Callable[[bytes, RelationRecord], bytes],
    key_of: Callable[[bytes], bytes],
) -> KafkaRecord:
    metadata, cuts = CONTROL
    if record.topic.endswith(cuts):
        renamed = {old: each.schema_id for old, each in versions.items()}
        return replace(record, value=encode_cut(_with_ids(decode_cut(record.value), renamed)))
    if record.topic.endswith(metadata):
        known = decode_metadata(record.value)
        if not isinstance(known, RelationRecord):
            return record
        version = versions[known.schema_id]
        return replace(record, key=version.key, value=encode_metadata(version))
    if record.topic.endswith(TRANSACTIONS):
        return record  # always JSON
    headers = tuple((name, key_of(each) if name in (NEW_KEY, OLD_KEY) else each) for name, each in record.headers)
    value = value_of(record.value, versions[_schema_id(record.value)]) if record.value else b""
    return replace(record, key=record.key and key_of(record.key), value=value, headers=headers)


def _versions(found: Sequence[KafkaRecord]) -> list[RelationRecord]:
    known = [decode_metadata(each.value) for each in found if each.topic.endswith(CONTROL[0])]
    return [each for each in known if isinstance(each, RelationRecord)]


def _schema_id(data: bytes) -> str:
    return data[len(SINGLE_OBJECT.marker) : SINGLE_OBJECT.body_at].hex()


def _registered(version: RelationRecord) -> RelationRecord:
    """A schema of which a registry is told has another field of no bytes, and so another id."""
    if not version.revision:
        return version
    value = _with_revision(version.value_schema, version.revision)
    key = version.key_schema and _with_revision(version.key_schema, version.revision)
    key_id = schema_id(json.loads(key)) if key else None
    return replace(
        version, value_schema=value, schema_id=schema_id(json.loads(value)), key_schema=key, key_schema_id=key_id
    )


def _with_revision(schema: str, revision: int) -> str:
    parsed: dict[str, Any] = json.loads(schema)
    (registered,) = revision_field(revision, is_registered=True)
    fields = [registered if each["name"] == registered["name"] else each for each in parsed["fields"]]
    return schema if fields == parsed["fields"] else json.dumps(parsed | {"fields": fields}, separators=(",", ":"))


def _with_ids(cut: Cut, renamed: dict[str, str]) -> Cut:
    def of_table(table: TableChanges) -> TableChanges:
        barriers = tuple(replace(each, schema_id=renamed.get(each.schema_id or "")) for each in table.barriers)
        return replace(table, schema_ids=tuple(renamed[each] for each in table.schema_ids), barriers=barriers)

    return replace(cut, tables=tuple(map(of_table, cut.tables)))


FORMATS: dict[str, Callable[[Sequence[KafkaRecord]], list[KafkaRecord]]] = {
    "records-confluent.jsonl": in_confluent,
    "records-json.jsonl": in_json,
}
"""By the file that has them."""


def write() -> None:
    """From what is recorded."""
    for recorded in ("", OPTIONAL):
        found = records(recorded + RECORDS)
        for name, of in FORMATS.items():
            write_lines(FOLDER, recorded + name, map(record_line, of(found)))


if __name__ == "__main__":
    write()
