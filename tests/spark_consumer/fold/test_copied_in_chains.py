"""Rows that were read again by their keys, beside changes of keys that left columns out: whose life is whose (I6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from tests.spark_consumer.fold.folded_events import schema_of
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Segment

ITEMS = relation([column("id", "int4", is_key=True), column("v")])
MOVE, LATER = 0x1000, 0x1100
Row = tuple[int, str | None, str, int, list[int]]
Found = list[Row]


def moved(old: int, new: int, lsn: int = MOVE) -> list[Event]:
    return [
        Event(ITEMS, "d", lsn, 0, before={"id": old}, before_image="key"),
        Event(ITEMS, "c", lsn, 1, before={"id": old}, before_image="key", after={"id": new}, unchanged=["v"]),
    ]


def row(id_: int, v: str, lsn: int = LATER) -> Event:
    return Event(ITEMS, "r", lsn, -1, after={"id": id_, "v": v})


def gone(id_: int, lsn: int = LATER) -> Event:
    return Event(ITEMS, "d", lsn, -1, before={"id": id_}, before_image="key")


def folded(spark: SparkSession, events: list[Event]) -> Found:
    """Key, value, last operation, first key, unknown columns."""
    log = Log()
    for event in events:
        log.add(event)
    frame, shape = log.frame(spark), TableShape(ITEMS)
    records = TableRecords(lambda: frame, {ITEMS.schema_id: Volume(len(log.rows), 1)}, None)
    rows = SegmentRows(records, shape, Segment(0, ITEMS.schema_id, None, None))
    found: list[dict[str, Any]] = [
        each for some in rows.folded_by_chain(schema_of(shape, folded=True)) for each in some.to_pylist()
    ]
    return sorted(
        (each[place_name(0)], each[place_name(1)], each["change"]["op"], each[first_key_name(0)], each["unknown"])
        for each in found
    )


GONE_1: Row = (1, None, "d", 1, [])
UNKNOWN_2: Row = (2, None, "c", 1, [1])
CASES: dict[str, tuple[list[Event], Found]] = {
    "the old key has no row any more": ([*moved(1, 2), gone(1)], [GONE_1, UNKNOWN_2]),
    "the old key has another row": ([*moved(1, 2), row(1, "b")], [(1, "b", "r", 1, []), UNKNOWN_2]),
    "the new key is read": ([*moved(1, 2), row(2, "a")], [GONE_1, (2, "a", "r", 1, [])]),
    "the old key was read before": ([row(1, "a", 0x900), *moved(1, 2)], [(1, "a", "d", 1, []), (2, "a", "c", 1, [])]),
    "the new key had no row before": ([gone(2, 0x900), *moved(1, 2)], [GONE_1, UNKNOWN_2]),
    "and back again": ([*moved(1, 2), gone(1), *moved(2, 1, 0x1200)], [(1, None, "c", 1, [1]), (2, None, "d", 2, [])]),
}


def shifted(event: Event, by: int) -> Event:
    """To other keys, and to a place of its own: no two events of a table have one."""
    before, after = (row and {**row, "id": row["id"] + by} for row in (event.before, event.after))
    return replace(event, before=before, after=after, commit_lsn=event.commit_lsn + 0x1000 * by)


@pytest.mark.variant(of="test_row_keeps_its_value_whatever_becomes_of_its_key")
def test_a_copied_row_is_of_the_row_that_has_its_key_then(spark: SparkSession) -> None:
    """All cases in one fold, each with keys of its own."""
    keys = {case: 10 * number for number, case in enumerate(CASES)}
    found = folded(spark, [shifted(event, keys[case]) for case, (events, _) in CASES.items() for event in events])

    of_case = {
        case: [(key - by, v, op, first - by, unknown) for key, v, op, first, unknown in found if by <= key < by + 10]
        for case, by in keys.items()
    }
    assert of_case == {case: expected for case, (_, expected) in CASES.items()}
