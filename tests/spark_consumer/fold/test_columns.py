"""Records decoded column by column give the rows that they give one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from tests.spark_consumer.fold.folded_events import ITEMS, VALUES, schema_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.spark_consumer.fold.columns.avro_bytes import NotPlain
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka import slices as module_of_slices
from walbridge.spark_consumer.kafka.many import spooled_records
from walbridge.spark_consumer.kafka.slices import conformed
from walbridge.spark_consumer.plan.plan import Segment

LISTED = ("_", "hstore", "vector", "counts")
WIDE = "numeric", (38 << 16 | 10) + 4
PLAIN = {
    of: [each for each in choices if not isinstance(each, str) or of[0] in ("text", "point")]
    for of, choices in VALUES.items()
    if not of[0].startswith(LISTED) and of != WIDE
}
"""Values that are decoded by columns, by type."""
ROWS = 400


def plain_relation(identity: str = "d") -> RelationRecord:
    key = [column("id", "int8", is_key=True), column("on", "text", is_key=True)]
    columns = [*key, *[column(f"c{at}", name, typmod=typmod) for at, (name, typmod) in enumerate(PLAIN)]]
    return relation(columns, identity=identity)


def both(log: Log, of: RelationRecord, segment: Segment, *, folded: bool) -> tuple[list[str], list[str]]:
    """Rows as text, by columns and one by one."""
    shape = TableShape(of)
    schema = schema_of(shape, folded=folded)
    records = log.on_driver(of.topic)
    with closing(log.on_disk()) as found:
        engines = (SegmentRows(replace(records, spooled=each), shape, segment) for each in (found, None))
        made = [each.folded_by_key(schema) if folded else each.unfolded(schema) for each in engines]
        return in_order(made[0], shape, schema), in_order(made[1], shape, schema)


def in_order(slices: Iterator[pa.Table], shape: TableShape, schema: pa.Schema) -> list[str]:
    """NaN equals NaN, 0.0 is not -0.0. Of a row that is gone nobody asks for more than its key."""
    others = {place_name(place) for place in range(len(shape.columns)) if place not in shape.key_places}
    found = [row for some in slices for row in conformed(some, schema).to_pylist()]
    return sorted(
        repr(dict.fromkeys(others) | {name: row[name] for name in row.keys() - others})
        if row["change"]["op"] == "d"
        else repr(row)
        for row in found
    )


def sizes_by_column(log: Log, of: RelationRecord, segment: Segment) -> list[int]:
    """How many rows each slice has to which the records fold by columns."""
    shape = TableShape(of)
    with closing(log.on_disk()) as found:
        rows = SegmentRows(replace(log.on_driver(of.topic), spooled=found), shape, segment)
        return [some.num_rows for some in rows.folded_by_key(schema_of(shape, folded=True))]


def test_each_chunk_that_is_read_is_progress() -> None:
    """A supervisor that starts a job again because of one long plan would never see that plan done."""
    of, beats = plain_relation(), []
    log = random_log(1, of, 30)
    with closing(log.on_disk()) as found:
        found.on_step = lambda: beats.append(1)
        chunks = len(list(found.chunks()))
        rows = SegmentRows(replace(log.on_driver(of.topic), spooled=found), TableShape(of), whole(of))
        list(rows.folded_by_key(schema_of(TableShape(of), folded=True)))
    assert len(beats) == 3 * chunks  # here, for the keys, and for the rows


def whole(of: RelationRecord) -> Segment:
    return Segment(0, of.schema_id, None, None)


def random_row(chooser: random.Random) -> dict[str, Any]:
    # Of some types most values are null, of some none.
    return {f"c{at}": chooser.choice(choices) for at, choices in enumerate(PLAIN.values()) if chooser.random() < 0.9}


def random_log(seed: int, of: RelationRecord, keys: int) -> Log:
    """Changes in the order of their positions, each key in one partition."""
    chooser, log = random.Random(seed), Log()
    for number in range(ROWS):
        at = chooser.randrange(keys) if keys < ROWS else number
        key = {"id": at * 10**16 - 5 * 10**17, "on": "ä" * (at % 3)}
        lsn, ordinal = 0x1000 + 8 * (number // 5), number % 5
        old = {"before": key | (random_row(chooser) if of.table.replica_identity == "f" else {}), "before_image": "key"}
        op = chooser.choice("cuuuud")
        row = {"before": None, "after": key | random_row(chooser)} if op != "d" else old
        log.add(Event(of, op, lsn, ordinal, **row), partition=at % 3)
    return log


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled_records, "CHUNK_ROWS", 37)


@pytest.mark.parametrize("identity", ["d", "f"])
@pytest.mark.parametrize("keys", [30, ROWS], ids=["keys come often", "keys come once"])
@pytest.mark.parametrize("seed", range(3))
def test_plain_events_fold_to_the_rows_that_they_do_one_by_one(seed: int, keys: int, identity: str) -> None:
    """I5"""
    of = plain_relation(identity)
    found, one_by_one = both(random_log(seed, of, keys), of, whole(of), folded=True)
    assert found == one_by_one
    assert len(found) == min(keys, ROWS)


@pytest.mark.parametrize(("limit", "slices"), [(ROWS, 1), (100, 5)])
def test_chunks_are_gathered_to_slices(monkeypatch: pytest.MonkeyPatch, limit: int, slices: int) -> None:
    """I9. Rows of one slice are in memory, and may be merged by Spark."""
    monkeypatch.setattr(module_of_slices, "SLICE_ROWS_MAX", limit)
    of = plain_relation()
    assert len(sizes_by_column(random_log(1, of, ROWS), of, whole(of))) == slices


@pytest.mark.parametrize("seed", range(3))
def test_plain_rows_of_a_copy_are_those_that_they_are_one_by_one(seed: int) -> None:
    of, chooser, log = plain_relation(), random.Random(seed), Log()
    log.add(Event(of, "t", 0x1000, -1))
    for number in range(ROWS):
        log.add(Event(of, "r", 0x1000, COPIED_ORDINAL, after={"id": number, "on": ""} | random_row(chooser)))
    found, one_by_one = both(log, of, whole(of), folded=False)
    assert found == one_by_one
    assert len(found) == ROWS


def test_only_events_of_the_segment_and_of_its_schema_are_taken() -> None:
    of = plain_relation()
    other = relation([column("id", "int8", is_key=True), column("other")])
    log = random_log(1, of, ROWS)
    log.add(Event(of, "t", 0x1100, 1), partition=1)
    log.add(Event(other, "c", 0x1101, 1, after={"id": 1, "other": "x"}), partition=1)
    part = Segment(1, of.schema_id, Position(Lsn(0x1010), 1), Position(Lsn(0x1080), 2))
    found, one_by_one = both(log, of, part, folded=False)
    assert found == one_by_one
    assert 0 < len(found) < ROWS


@pytest.mark.parametrize("value", [0, -1, 2**55, -(2**55), 2**56 - 1, 2**62, 2**63 - 1, -(2**63), 127, -65])
def test_whole_numbers_of_any_size_are_read(value: int) -> None:
    of, log = relation([column("id", "int8", is_key=True)]), Log()
    log.add(Event(of, "c", 0x1000, 0, after={"id": value}))
    found, one_by_one = both(log, of, whole(of), folded=True)
    assert found == one_by_one
    assert str(value) in found[0]


OF_TYPES = relation([column("id", "int4", is_key=True), column("v"), column("d", "date"), column("a", "_int4")])


@pytest.mark.parametrize(
    "events",
    [
        [Event(OF_TYPES, "u", 0x1000, 0, after={"id": 1}, unchanged=["v"])],
        [Event(OF_TYPES, "c", 0x1000, 0, after={"id": 1}, exceptional={"d": "infinity"})],
        [Event(OF_TYPES, "c", 0x1000, 0, after={"id": 1, "a": [1]})],
        [Event(OF_TYPES, "c", lsn, 0, after={"id": 1}) for lsn in (0x1001, 0x1000)],
        [Event(OF_TYPES, "d", 0x1000, 0, after={"id": 1})],
        [Event(OF_TYPES, "u", 0x1000, 0, before={"id": 1}, before_image="key")],
        [Event(OF_TYPES, "d", 0x1000, 0)],
    ],
    ids=[
        "a column is left out",
        "a value has a text",
        "an array",
        "out of order",
        "gone and there",
        "an old row alone",
        "no row",
    ],
)
def test_what_is_not_plain_is_left_to_others(events: Sequence[Event]) -> None:
    """I5, I6"""
    log, of = Log(), events[0].relation
    for event in events:
        log.add(event)
    with pytest.raises(NotPlain):
        sizes_by_column(log, of, whole(of))


@pytest.mark.parametrize("end", [Position(Lsn(0x1080), 2), None])
def test_keys_that_come_often_in_a_part_of_a_plan_fold_to_the_rows_that_they_do_one_by_one(
    end: Position | None,
) -> None:
    """I5: the last event of the plan may lie behind the segment, the first one before it."""
    of = plain_relation()
    log = random_log(1, of, 30)
    log.add(Event(of, "t", 0x1011, 1))
    part = Segment(1, of.schema_id, Position(Lsn(0x1010), 1), end)
    found, one_by_one = both(log, of, part, folded=True)
    assert found == one_by_one
    assert 0 < len(found) <= 30


def test_copied_rows_that_a_segment_leaves_out_are_in_no_group() -> None:
    of = plain_relation()
    log = random_log(1, of, 30)
    for partition in range(3):
        for number in range(30):
            if number % 3 == partition:
                key = {"id": number * 10**16 - 5 * 10**17, "on": "ä" * (number % 3)}
                log.add(Event(of, "r", 0x9000, -1, after=key), partition=partition)
    part = Segment(0, of.schema_id, None, None, ignores_copied_rows=True)
    found, one_by_one = both(log, of, part, folded=True)
    assert found == one_by_one


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside a key that comes often"])
def test_a_change_without_a_key_is_left_to_others(others: int) -> None:
    of, log = relation([column("id", "int8", is_key=True)]), Log()
    log.add(Event(of, "u", 0x1000, 0, after={"id": 1}))
    log.rows[0]["key"] = None
    for ordinal in range(others):
        log.add(Event(of, "u", 0x1001, ordinal, after={"id": 2}))
    with pytest.raises(NotPlain):
        sizes_by_column(log, of, whole(of))


def test_a_key_in_two_partitions_is_left_to_others() -> None:
    """I3: nothing orders them."""
    of, log = relation([column("id", "int8", is_key=True)]), Log()
    for partition in range(2):
        log.add(Event(of, "u", 0x1000 + partition, 0, after={"id": 1}), partition=partition)
    with pytest.raises(NotPlain):
        sizes_by_column(log, of, whole(of))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_is_cut_off_is_left_to_others(cut: int) -> None:
    """I7: who decodes it one by one tells its place."""
    of, log = plain_relation(), random_log(1, plain_relation(), ROWS)
    log.rows[5]["value"] = cast("bytes", log.rows[5]["value"])[:-cut]
    with pytest.raises(NotPlain):
        sizes_by_column(log, of, whole(of))


def test_a_record_that_goes_on_behind_its_last_field_is_left_to_others() -> None:
    """I7"""
    of, log = plain_relation(), random_log(1, plain_relation(), ROWS)
    log.rows[5]["value"] = cast("bytes", log.rows[5]["value"]) + b"\x00"
    with pytest.raises(NotPlain):
        sizes_by_column(log, of, whole(of))


def test_all_types_together_fold_alike_or_are_left_to_others() -> None:
    of, log = ITEMS, Log()
    log.add(Event(of, "c", 0x1000, 0, after={"id": 1}))
    found, one_by_one = both(log, of, whole(of), folded=True)
    assert found == one_by_one
