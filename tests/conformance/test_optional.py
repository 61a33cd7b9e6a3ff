"""The second recorded set, of the topics that are there by setting, says what is expected of every reader."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest

from tests.conformance import expected, optional
from tests.conformance.applied import Tables
from tests.conformance.formats import FORMATS
from tests.conformance.recorded import FOLDER, OPTIONAL, RECORDS, Recording, lines, records
from tests.conformance.strangers import of_strangers, read_by_a_stranger
from walbridge.consumer.cut_groups import CutGroups
from walbridge.consumer.event import Event, KafkaRecord, Operation
from walbridge.schemas.position import format_lsn

OF_TABLE = (Operation.TRUNCATE, Operation.COPY_BEGIN, Operation.COPY_END)


@cache
def recording() -> Recording:
    return Recording(records(OPTIONAL + RECORDS))


@cache
def events() -> dict[tuple[str, int, int], Event]:
    decoder = recording().decoder()
    return {(each.topic, each.partition, each.offset): decoder.decode(each) for each in recording().data}


@pytest.mark.parametrize("name", [RECORDS, *FORMATS])
def test_every_record_says_what_is_expected_of_it_in_each_format(name: str) -> None:
    stored = records(OPTIONAL + name)
    there = Recording(stored)
    decoder = there.decoder()

    assert name == RECORDS or FORMATS[name](records(OPTIONAL + RECORDS)) == stored
    assert [expected.event_line(decoder.decode(each)) for each in there.data] == lines(OPTIONAL + "events.jsonl")
    assert [*optional.message_lines(there)] == lines(OPTIONAL + "messages.jsonl")
    assert [*optional.boundary_lines(there)] == lines(OPTIONAL + "boundaries.jsonl")
    assert there.places == recording().places


def test_cuts_hold_messages_with_the_events_of_their_transactions_and_no_begins_and_ends() -> None:
    gathered = CutGroups(lambda relation_id, topic: True)
    found = [gathered.receive(cut, offset) for offset, cut in recording().cuts]
    wanted = [expected.transaction_line(each, recording().places) for each in found if each is not None and each.ranges]

    assert wanted == lines(OPTIONAL + "transactions.jsonl")
    held = {
        (each.topic, each.partition, offset)
        for _, cut in recording().cuts
        for each in cut.partitions
        for offset in range(each.start_offset, each.end_offset)
    }
    told = {(each.topic, each.partition, each.offset) for each in recording().boundaries}
    assert held == recording().places.keys() - told
    assert [cut for _, cut in recording().cuts if not cut.complete and cut.partitions]


def test_each_transaction_begins_and_ends_once_and_its_end_counts_its_events() -> None:
    """A transaction of messages alone, too; a truncate counts once for its table, tombstones and copies do not."""
    told = lines(OPTIONAL + "boundaries.jsonl")
    assert [each["status"] for each in told] == ["BEGIN", "END"] * (len(told) // 2)
    assert all(each["key"] == {"id": each["id"]} for each in told)
    begun, ended = told[::2], told[1::2]
    assert [each["id"] for each in begun] == [each["id"] for each in ended]
    commits = [int(each["id"].split(":")[1]) for each in ended]
    assert commits == sorted(set(commits))

    counted: dict[str, Counter[str]] = {}
    once = {(event.table, event.position): event for event in events().values() if event.xid is not None}
    for event in once.values():
        counted.setdefault(f"{event.xid}:{event.position.commit_lsn}", Counter())[event.table] += 1
    lsns = {format_lsn(commit): commit for commit in commits}
    for line in lines(OPTIONAL + "messages.jsonl"):
        if line["xid"] is not None:
            counted.setdefault(f"{line['xid']}:{lsns[line['commit_lsn']]}", Counter())[line["topic"]] += 1
    assert {each["id"]: _counts(each) for each in ended} == counted
    assert all(each["event_count"] == sum(_counts(each).values()) for each in ended)


def _counts(end: dict[str, object]) -> Counter[str]:
    return Counter({each["data_collection"]: each["event_count"] for each in end["data_collections"]})  # type: ignore[attr-defined]


def test_messages_are_those_of_the_source_but_for_what_was_rolled_back() -> None:
    """Of a transaction they have a place in it, else the one behind all that was committed before."""
    said = lines(OPTIONAL + "messages.jsonl")

    assert [(each["prefix"], each["content"]) for each in said] == [
        (prefix, expected.text_of(content)) for prefix, content in optional.SAID
    ]
    assert [(each["ordinal"] == -1) == (each["xid"] is None) for each in said] == [True] * len(said)


@pytest.mark.parametrize("recorded", ["", OPTIONAL])
def test_records_of_tables_that_are_no_change_of_a_row_are_told_by_their_op(recorded: str) -> None:
    """As the page tells a reader who takes rows alone, in JSON, to choose them."""
    found = Recording(records(recorded + "records-json.jsonl"))
    for record in found.data:
        event = json.loads(record.value)
        has_row = event["before"] is not None or event["after"] is not None
        assert has_row == (event["op"] in ("r", "c", "u", "d"))
        assert (event["op"] == "t") == ("walbridge.truncate" in dict(record.headers))
        if event["op"] == "m":
            assert event["source"]["snapshot"] in ("first_in_data_collection", "last_in_data_collection")
    first = {(each.topic, each.partition): json.loads(each.value)["op"] for each in reversed(found.data)}
    assert {*first.values()} <= {"t", "m"}


def compacted() -> list[KafkaRecord]:
    of_table = [
        each for each in (*recording().data, *recording().tombstones) if each.topic.endswith(optional.COMPACTED)
    ]
    return sorted(of_table, key=lambda each: (each.partition, each.offset))


def test_compacted_topic_has_keys_on_all_and_a_tombstone_behind_each_delete() -> None:
    """And complete rows. What is of the whole table has three keys that no row has, in each partition."""
    of_table: dict[bytes | None, set[Operation]] = {}
    for record in compacted():
        assert record.key is not None
        event = events().get((record.topic, record.partition, record.offset))
        if event is None:
            before = events()[record.topic, record.partition, record.offset - 1]
            assert (before.operation, recording().decoder().key(record.key, before.relation)) == ("delete", before.key)
        elif event.operation in OF_TABLE:
            of_table.setdefault(record.key, set()).add(event.operation)
            null = dict.fromkeys(column.name for column in event.relation.table.key_columns)
            assert recording().decoder().key(record.key, event.relation) == null
        assert event is None or not event.unchanged
    assert sorted(of_table.values(), key=str) == sorted(({each} for each in OF_TABLE), key=str)
    deletes = [each for each in events().values() if each.operation == "delete" and each.table == optional.COMPACTED]
    assert len(deletes) == len(recording().tombstones) > 0
    assert {each.partition for each in events().values() if each.operation in OF_TABLE} == {0, 1}


def test_newest_record_of_each_key_is_the_table_of_the_source() -> None:
    """What Kafka leaves for ever: I8. Partitions one after the other, as a new reader may take them."""
    newest = {(each.partition, each.key): each for each in compacted()}
    tables: dict[int, Tables] = {}
    for record in sorted(newest.values(), key=lambda each: (each.partition, each.offset)):
        event = events().get((record.topic, record.partition, record.offset))
        if event is not None:  # a tombstone of what nothing is left of
            tables.setdefault(record.partition, Tables()).apply([event])

    left = [row for each in tables.values() for row in each.texts()[optional.COMPACTED]]
    wanted = json.loads((FOLDER / OPTIONAL / "tables.json").read_text())
    assert expected.in_order(left) == wanted[optional.COMPACTED]


@of_strangers
@pytest.mark.parametrize("name", [RECORDS, *FORMATS])
def test_reader_in_another_language_finds_the_same(reader: list[str], name: str) -> None:
    done = read_by_a_stranger(reader, FOLDER / OPTIONAL, name)

    assert done.returncode == 0, done.stderr
    assert f"{len(events())} events" in done.stdout
