"""Keys of rows whose table was altered in a way that leaves its topic the keys that it has, in each format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.written_record import NULL, SOURCE, TS_MS
from tests.schemas.strategies import column, table
from walbridge.consumer.event import Event, EventDecoder
from walbridge.consumer.event import KafkaRecord as Read
from walbridge.producer.encoding.json_record import JsonRecordWriter
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import INTERPRETED_ROWS, RecordWriter
from walbridge.producer.pgoutput.messages import Delete, Insert, Update
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.readable_event import EventDecoder as ReadableDecoder
from walbridge.schemas.control.metadata_record import RelationRecord

TOPIC = DataTopic("p.public.days", 4)
NOTE = column("note", 25, attnum=3)
BEFORE = table(column("code", 1043, 24, is_key=True, attnum=1), column("day", 1082, is_key=True, attnum=2), NOTE)
AFTER = replace(
    BEFORE,
    columns=(
        column("day", 25, is_key=True, attnum=1),  # under the name that the other one had
        column("on", 1082, is_key=True, attnum=2),
        replace(NOTE, name="code"),
    ),
)
FORMATS: dict[str, Callable[[RelationRecord], RelationRecord]] = {
    "single-object": lambda record: record,
    "confluent": lambda record: replace(record, value_registry_id=record.revision + 1, key_registry_id=7),
    "json": lambda record: replace(record, is_json=True),
}
DAYS = st.sampled_from([b"2024-05-06", b"infinity", b"12000-01-01"])
CODES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20).map(str.encode)


class Versions:
    """A table before and after it was altered, as a producer publishes it."""

    def __init__(self, in_format: str) -> None:
        cache, of = RelationCache("p"), FORMATS[in_format]
        self.records: list[RelationRecord] = []
        for each in (BEFORE, AFTER):
            record = of(cache.version_of(each, TOPIC, is_registered=in_format == "confluent", is_json=False))
            record = replace(record, value_registry_id=record.value_registry_id and len(self.records) + 1)
            cache.remember(record)
            self.records.append(record)
        writer = JsonRecordWriter if in_format == "json" else RecordWriter
        self.writers = [writer(each, "p", "shop", tombstones=True) for each in self.records]

    def events(self, records: list[KafkaRecord]) -> list[Event]:
        """As ``walbridge.consumer`` reads them."""
        by_frame = {each.frame_id: each for each in self.records}
        keys = {each.key_frame_id: each.key_schema or "" for each in self.records}
        decoder = EventDecoder(lambda frame_id, _: by_frame[frame_id], lambda frame_id: keys[frame_id])
        return [
            decoder.decode(Read(TOPIC.name, 0, 0, each.key, each.value, tuple(each.headers or ())))  # type: ignore[arg-type]
            for each in records
            if each.value is not None
        ]

    def shown(self, record: KafkaRecord) -> dict[str, object]:
        """As ``walbridge tail`` prints it."""
        parts = {"value": record.value, "key": record.key, "headers": record.headers, "partition": 0, "offset": 0}
        message = SimpleNamespace(**{name: (lambda part=part: part) for name, part in parts.items()})
        return ReadableDecoder(lambda: self.records).decode(cast(Message, message)).shown


def changes(writer: RecordWriter, code: bytes, day: bytes) -> list[KafkaRecord]:
    """All records that a row may become, those of a change of its key among them."""
    row, key, other = tuple_data(code, day, b"a"), tuple_data(code, day, NULL), tuple_data(b"other", day, b"b")
    return [
        *writer.insert(Insert(1, row), SOURCE, 0, TS_MS),
        writer.copied(row, SOURCE, writer.snapshot_source, TS_MS),
        *writer.update(Update(1, None, None, row), SOURCE, 1, TS_MS),
        *writer.update(Update(1, key, None, other), SOURCE, 2, TS_MS),
        *writer.delete(Delete(1, key, None), SOURCE, 4, TS_MS),
    ]


@pytest.mark.parametrize("in_format", FORMATS)
@given(code=CODES, day=DAYS)
def test_row_has_the_bytes_of_its_key_whatever_the_columns_of_the_key_are_called_by_now(
    in_format: str, code: bytes, day: bytes
) -> None:
    """I3: in records, tombstones and headers, in the first rows of a version and in those of its generated code; also
    of values that are texts in the key."""
    before, after = Versions(in_format).writers

    for _ in range(INTERPRETED_ROWS):
        was, now = changes(before, code, day), changes(after, code, day)
        assert [each.key for each in was] == [each.key for each in now]
        assert [each.headers for each in was] == [each.headers for each in now]
        assert before.row_key(tuple_data(code, day, b"a")) == after.row_key(tuple_data(code, day, b"a"))


@pytest.mark.parametrize("in_format", FORMATS)
@pytest.mark.parametrize("day", [b"2024-05-06", b"infinity"])
def test_readers_find_the_columns_of_a_key_under_the_names_that_the_rows_have(in_format: str, day: bytes) -> None:
    versions = Versions(in_format)
    records = changes(versions.writers[1], b"c", day)
    events = versions.events(records)

    assert {tuple(each.key or ()) for each in events} == {("day", "on")}
    key = {name: value for name, value in (events[0].after or {}).items() if name != "code"}
    assert events[0].key == events[-1].key == events[-1].before == key
    gone, came = events[3:5]
    assert (gone.new_key, came.old_key) == (key | {"day": "other"}, key)
    shown = versions.shown(records[0])
    assert shown["key"] == {name: shown["after"][name] for name in ("day", "on")}  # type: ignore[index]


def test_names_in_keys_are_those_of_when_the_topic_began() -> None:
    """What a stranger sees of it."""
    _, after = Versions("json").writers

    keys = [json.loads(each.key or b"") for each in changes(after, b"c", b"infinity")]

    assert keys[0] == {"code": "c", "day": None, "_exceptional": {"day": "infinity"}}
