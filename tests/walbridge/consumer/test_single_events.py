"""Deletes of which compaction left the tombstone alone, in the recorded topics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest

from tests.conformance.expected import texts
from tests.conformance.recorded import CONTROL, Recording, records
from tests.in_soak import others_in_variants
from walbridge.consumer.event import Event, KafkaRecord, Operation
from walbridge.consumer.single_events import SingleEvents, decoded
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.json_format.codec import has_key
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

RECORDS = records()
RECORDING = Recording(RECORDS)
TAKEN_MS = 1_700_000_000_000


def version_of_key(key: bytes, topic: str) -> RelationRecord:
    return [each for each in RECORDING.relations if each.topic == topic and has_key(each, key)][-1]


def single_events() -> SingleEvents:
    return SingleEvents(RECORDING.decoder(), version_of_key)


def partitions() -> list[list[KafkaRecord]]:
    """Of topics whose records have keys."""
    found: dict[tuple[str, int], list[KafkaRecord]] = {}
    for record in RECORDS:
        if not record.topic.endswith(CONTROL):
            found.setdefault((record.topic, record.partition), []).append(record)
    return [each for each in found.values() if any(record.key for record in each)]


def compacted(partition: list[KafkaRecord], before: int) -> list[KafkaRecord]:
    """The newest record of each key, of those before an offset; and all that follow. What is of a table stays."""
    newest = {record.key: record.offset for record in partition if record.offset < before}
    return [each for each in partition if each.offset >= before or not each.key or newest[each.key] == each.offset]


def read(found: Iterable[KafkaRecord], next_offset: int) -> Iterator[Event]:
    """As a reader that begins at this offset."""
    stream = single_events()
    for record in found:
        if record.offset < next_offset:
            continue
        event = stream.decode(record) if record.value else stream.tombstone(record, next_offset, TAKEN_MS)
        next_offset = record.offset + 1
        if event is not None:
            yield event


class Keys:
    """Of the rows that a target has, as the documents tell a reader."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.named: set[str] | None = None

    def apply(self, found: Iterable[Event]) -> Keys:
        for event in found:
            key = json.dumps([*(texts(event.key) or {}).values()])  # its columns may be renamed meanwhile
            match event.operation:
                case Operation.TRUNCATE:
                    self.there.clear()
                case Operation.COPY_BEGIN:
                    self.named = set()
                case Operation.COPY_END:
                    self.there &= self.there if self.named is None else self.named
                    self.named = None
                case _:
                    (set() if self.named is None else self.named).add(key)
                    (self.there.discard if event.operation == Operation.DELETE else self.there.add)(key)
        return self


@pytest.mark.parametrize("apart", others_in_variants([15, 3], [15]))
def test_reader_that_stops_anywhere_has_the_rows_of_one_that_never_stopped_however_far_its_topic_is_compacted(
    apart: int,
) -> None:
    """I7: every place to stop, and every one that compaction has come to since."""
    for partition in partitions():
        last = partition[-1].offset
        whole = Keys().apply(read(partition, 0)).there
        for at, stopped in enumerate(record.offset for record in partition):
            seen = [*read(partition[:at], 0)]
            for cleaned in range(stopped, last + 2, apart):
                keys = Keys().apply(seen)
                keys.apply(read(compacted(partition, cleaned), stopped))
                assert keys.there == whole, (partition[0].topic, partition[0].partition, stopped, cleaned)


def deletes() -> list[tuple[KafkaRecord, KafkaRecord]]:
    """With their tombstones."""
    return [
        (record, tombstone)
        for partition in partitions()
        for record, tombstone in pairwise(partition)
        if not tombstone.value
    ]


def test_tombstone_alone_is_a_delete_with_the_columns_of_its_key() -> None:
    assert deletes()
    for record, tombstone in deletes():
        (event,) = read([tombstone], record.offset)
        delete = RECORDING.decoder().decode(record)
        assert event.before is not None
        assert (event.operation, event.key, event.after) == ("delete", event.before, None)
        assert [*event.before.values()] == [*(delete.key or {}).values()]
        assert event.relation.table.relation_id == delete.relation.table.relation_id
        assert event.table == event.relation.table.qualified_name
        assert [*event.before] == [column.name for column in event.relation.table.key_columns]
        assert (event.offset, event.xid, event.commit_time.timestamp()) == (tombstone.offset, None, TAKEN_MS / 1000)
        assert event.position == Position(Lsn(0), COPIED_ORDINAL)


def test_tombstone_behind_another_event_has_the_position_and_the_version_of_that() -> None:
    for partition in partitions():
        for before, tombstone in zip(partition, partition[2:], strict=False):
            if before.value and not tombstone.value and before.key:
                earlier, event = read([before, tombstone], before.offset)
                assert event.position == earlier.position
                assert event.relation == earlier.relation


def test_tombstone_is_passed_over_where_its_delete_was_read_now_or_before() -> None:
    for record, tombstone in deletes():
        assert [event.offset for event in read([record, tombstone], record.offset)] == [record.offset]
        assert list(read([tombstone], tombstone.offset)) == []


@pytest.mark.parametrize("key", [None, b"foreign"])
def test_record_of_another_writer_without_a_value_is_named_by_its_place_alone(key: bytes | None) -> None:
    """I10."""
    stream = single_events()

    with pytest.raises(OperatorError, match=r"shop\.t, partition 1, offset 7: ") as refused:
        decoded(lambda record: stream.tombstone(record, 0, TAKEN_MS), KafkaRecord("shop.t", 1, 7, key, b""))
    assert "foreign" not in str(refused.value)
