"""The recorded topics, read by our own consumer, say what is expected of every reader."""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.conformance import expected
from tests.conformance.applied import Tables
from tests.conformance.formats import FORMATS
from tests.conformance.recorded import FOLDER, RECORDS, Recording, lines, records
from tests.conformance.strangers import of_strangers, read_by_a_stranger
from walbridge.consumer.cut_groups import CutGroups, Group
from walbridge.consumer.event import Event, Operation


@cache
def recording() -> Recording:
    return Recording(records())


@cache
def events() -> dict[tuple[str, int, int], Event]:
    decoder = recording().decoder()
    return {(each.topic, each.partition, each.offset): decoder.decode(each) for each in recording().data}


@cache
def groups() -> list[Group]:
    gathered = CutGroups(lambda relation_id, topic: True)
    found = [gathered.receive(cut, offset) for offset, cut in recording().cuts]
    return [group for group in found if group is not None and group.ranges]


def test_every_record_says_what_is_expected_of_it() -> None:
    assert [expected.event_line(event) for event in events().values()] == lines("events.jsonl")


def test_cuts_make_the_expected_whole_transactions() -> None:
    """A transaction that several Kafka transactions hold comes as one."""
    assert [expected.transaction_line(group, recording().places) for group in groups()] == lines("transactions.jsonl")
    assert [cut for _, cut in recording().cuts if not cut.complete]


def test_tombstone_follows_each_delete_of_a_row_with_a_key_and_nothing_else() -> None:
    """Kafka's compaction then leaves nothing of the row, and a reader loses nothing that passes it over."""
    behind = {(each.topic, each.partition, each.offset - 1): each for each in records()}
    deletes = [(place, event) for place, event in events().items() if event.operation == Operation.DELETE and event.key]
    tombstones = [place for place, is_event in recording().places.items() if not is_event]

    assert sorted(tombstones) == sorted((topic, partition, offset + 1) for (topic, partition, offset), _ in deletes)
    keys = {(each.topic, each.partition, each.offset): each.key for each in recording().data}
    assert all(behind[place].key == keys[place] for place, _ in deletes)


def test_transactions_one_after_the_other_end_in_the_tables_of_the_source() -> None:
    """I8: Postgres wrote the tables; nothing of the pipeline has touched them."""
    tables = Tables()
    for line in lines("transactions.jsonl"):
        tables.apply(_in_order([events()[topic, partition, offset] for topic, partition, offset in line["records"]]))

    assert tables.texts() == json.loads((FOLDER / "tables.json").read_text())


def _in_order(found: list[Event]) -> list[Event]:
    """By position; at one of a copy the truncate or begin first, the end last. What is of a whole table comes once."""
    rank = {Operation.TRUNCATE: 0, Operation.COPY_BEGIN: 1, Operation.COPY_END: 3}
    once = {}
    for event in found:
        place = event.relation.table.relation_id, event.position, event.operation
        once[place if event.operation in rank else (event.topic, event.partition, event.offset)] = event
    return sorted(once.values(), key=lambda event: (event.position, rank.get(event.operation, 2)))


@pytest.mark.parametrize("name", FORMATS)
def test_records_in_another_format_are_what_the_codec_makes_of_them_and_say_the_same(name: str) -> None:
    """I4: the same places and positions, in the bytes that were stored."""
    stored = records(name)
    there = Recording(stored)
    decoder = there.decoder()

    assert FORMATS[name](records()) == stored
    assert [expected.event_line(decoder.decode(each)) for each in there.data] == lines("events.jsonl")
    assert there.places == recording().places
    ids = {each.schema_id for each in there.relations}
    assert {schema_id for _, cut in there.cuts for table in cut.tables for schema_id in table.schema_ids} <= ids


def test_set_has_every_operation_and_all_that_is_special() -> None:
    found = list(events().values())

    assert {event.operation for event in found} == set(Operation)
    assert [event for event in found if event.unchanged and event.operation is Operation.UPDATE]
    assert [event for event in found if event.unchanged and event.old_key is not None]
    assert [event for event in found if event.exceptional and event.operation is Operation.DELETE]
    assert {event.partition for event in found if event.operation is Operation.TRUNCATE} == {0, 1}
    assert [each for each in recording().relations if each.revision]
    assert [event for event in found if event.is_before_whole and event.key is None]
    assert {event.relation.table.name for event in found if event.older_values} >= {"log", "orders"}
    topics, ids = ({(event.table, of(event)) for event in found} for of in (_topic_of, _relation_of))
    assert {name: count for name, count in Counter(name for name, _ in topics).items() if count > 1} == {
        "public.visits": 2
    }
    assert {name: count for name, count in Counter(name for name, _ in ids).items() if count > 1} == {"public.notes": 2}
    renamed = [event for event in found if event.key and [*event.key] != _names_in_key(event)]
    assert {tuple(event.key or ()) for event in renamed} == {("door", "day"), ("door", "room")}
    assert [event for event in renamed if event.old_key is not None and event.unchanged]
    assert [event for event in renamed if event.exceptional]


def _topic_of(event: Event) -> str:
    return event.topic


def _relation_of(event: Event) -> int:
    return event.relation.table.relation_id


def _names_in_key(event: Event) -> list[str]:
    return [each["pg.name"] for each in json.loads(event.relation.key_schema or "")["fields"] if "pg.name" in each]


@of_strangers
@pytest.mark.parametrize("name", [RECORDS, *FORMATS])
def test_reader_in_another_language_finds_the_same(reader: list[str], name: str) -> None:
    done = read_by_a_stranger(reader, FOLDER, name)

    assert done.returncode == 0, done.stderr
    assert f"{len(events())} events" in done.stdout


@of_strangers
@pytest.mark.parametrize("name", [RECORDS, *FORMATS, "events.jsonl", "transactions.jsonl", "tables.json"])
def test_reader_in_another_language_notices_a_difference(reader: list[str], name: str, tmp_path: Path) -> None:
    """A check that cannot fail would show nothing."""
    shutil.copytree(FOLDER, tmp_path / "set")
    changed = tmp_path / "set" / name
    if name.startswith("records"):
        *kept, last = lines(name)
        value = bytearray(base64.b64decode(last["value"]))
        value[-1] ^= 2  # in JSON of the brace that ends it
        wrong = [*kept, last | {"value": base64.b64encode(bytes(value)).decode()}]
        changed.write_text("".join(json.dumps(line) + "\n" for line in wrong))
    else:
        text = changed.read_text()
        changed.write_text(text.replace(*{"tables.json": ("committed", "lost")}.get(name, ("shop.public.orders", "x"))))

    records_name = name if name in FORMATS else RECORDS
    assert read_by_a_stranger(reader, tmp_path / "set", records_name).returncode == 1
