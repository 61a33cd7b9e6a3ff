"""The driver's fold, case by case; that Spark's gives the same is asked in ``test_engines_agree.py``."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from tests.spark_consumer.fold.folded_events import ITEMS, schema_of
from walbridge.spark_consumer.fold.local_events import decoded_events
from walbridge.spark_consumer.fold.local_fold import needs_spark
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.plan.plan import Segment

NOTES = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])


def note(op: str, ordinal: int, texts: Mapping[str, str] | None = None, **row: Any) -> Event:
    """A change of row 1; columns of large values that it does not name are left out of an update."""
    if op == "d":
        return Event(NOTES, op, 0x1000, ordinal, before={"id": 1}, before_image="key")
    left_out = [name for name in ("body", "tags") if name not in {*row, *(texts or {})}]
    return Event(NOTES, op, 0x1000, ordinal, after={"id": 1, **row}, unchanged=left_out, exceptional=texts)


def made(**row: Any) -> Event:
    return Event(NOTES, "c", 0x1000, 0, after={"id": 1, **row})


FOLDS: Mapping[str, tuple[list[Event], dict[str, Any]]] = {
    "the last known value outlives an event that left it out": (
        [made(body="old"), note("u", 1, body="new"), note("u", 2, n=2)],
        {"op": "u", "body": "new", "n": 2},
    ),
    "what no event knew is unknown": (
        [note("u", 0, n=1), note("u", 1, n=2)],
        {"op": "u", "n": 2, "unknown": ["body", "tags"]},
    ),
    "a known null is known": ([made(body="x"), note("u", 1, body=None)], {"op": "u"}),
    "a text replaces a value and stays": (
        [made(tags=[1]), note("u", 1, {"tags": "{{1}}"}, body=None), note("u", 2, n=3)],
        {"op": "u", "n": 3, "texts": [("tags", "{{1}}")]},
    ),
    "a value replaces a text": (
        [note("u", 0, {"tags": "{{1}}"}, body="x"), note("u", 1, tags=[2]), note("u", 2, n=3)],
        {"op": "u", "body": "x", "tags": [2], "n": 3},
    ),
    "a deleted row is a delete, and nothing of it is unknown": (
        [note("u", 0, n=1), note("d", 1)],
        {"op": "d"},
    ),
    "a row made anew has nothing of the deleted one": (
        [made(body="old", tags=[1]), note("d", 1), Event(NOTES, "c", 0x1000, 2, after={"id": 1, "n": 7})],
        {"op": "c", "n": 7},
    ),
    "a delete of a row that was known knows no values of its own": (
        [note("d", 0), note("u", 1, n=1)],
        {"op": "u", "n": 1, "unknown": ["body", "tags"]},
    ),
    "a key change that left columns out is followed": (
        [note("c", 0, n=1)],
        {"op": "c", "n": 1, "unknown": ["body", "tags"], "moved": True},
    ),
    "an insert that knows all is no key change": ([made(n=1)], {"op": "c", "n": 1}),
    "texts are in one order": (
        [Event(NOTES, "c", 0x1000, 0, after={"id": 1}, exceptional={"tags": "{{1}}", "body": "?"})],
        {"op": "c", "texts": [("body", "?"), ("tags", "{{1}}")]},
    ),
}


@pytest.mark.parametrize("case", FOLDS)
def test_changes_of_one_row_become_one(case: str) -> None:
    """I6"""
    logged, expected = FOLDS[case]
    log = Log()
    for event in logged:
        log.add(event)
    shape = TableShape(NOTES)
    rows = SegmentRows(log.on_driver(NOTES.topic), shape, Segment(0, NOTES.schema_id, None, None))

    (row,) = pa.concat_tables(rows.folded_by_key(schema_of(shape, folded=True))).to_pylist()

    named = {each.name: row[place_name(place)] for place, each in enumerate(shape.columns)}
    unknown = [shape.columns[place].name for place in row["unknown"]]
    found = named | {
        "op": row["change"]["op"],
        "texts": row["change"]["exceptional"],
        "unknown": unknown,
        "moved": row["moved"],
        "is_new": row["is_new"],
    }
    nothing: dict[str, Any] = {
        "id": 1,
        "body": None,
        "tags": None,
        "n": None,
        "texts": None,
        "unknown": [],
        "moved": False,
        "is_new": logged[0].op == "c",
    }
    assert found == nothing | expected
    assert row["change"]["ordinal"] == logged[-1].ordinal


def test_copied_row_does_not_tell_whether_its_key_was_there() -> None:
    log = Log()
    log.add(Event(NOTES, "r", 0x1000, -1, after={"id": 1, "n": 1}))
    log.add(Event(NOTES, "u", 0x1000, 0, after={"id": 1, "n": 2}))
    log.add(Event(NOTES, "c", 0x1000, 1, after={"id": 2, "n": 3}))
    log.add(Event(NOTES, "d", 0x1000, -1, before={"id": 3}, before_image="key"))
    shape = TableShape(NOTES)
    rows = SegmentRows(log.on_driver(NOTES.topic), shape, Segment(0, NOTES.schema_id, None, None))

    (found,) = rows.folded_by_key(schema_of(shape, folded=True))

    told = zip(found[place_name(0)].to_pylist(), found["is_new"].to_pylist(), strict=True)
    assert dict(told) == {1: None, 2: True, 3: None}


def test_each_key_has_one_row() -> None:
    log = Log()
    for ordinal, key in enumerate([1, 2, 1, 3, 2]):
        log.add(Event(NOTES, "u", 0x1000, ordinal, after={"id": key, "n": ordinal}))
    shape = TableShape(NOTES)
    rows = SegmentRows(log.on_driver(NOTES.topic), shape, Segment(0, NOTES.schema_id, None, None))

    (found,) = rows.folded_by_key(schema_of(shape, folded=True))

    assert sorted(zip(found[place_name(0)].to_pylist(), found[place_name(3)].to_pylist(), strict=True)) == [
        (1, 2),
        (2, 4),
        (3, 3),
    ]


def test_keys_told_apart_by_their_texts_are_left_to_spark() -> None:
    """Only one program writes their JSON, or two would be two keys."""
    shape = TableShape(ITEMS)
    log = Log()
    log.add(Event(ITEMS, "c", 0x1000, 0, after={"id": 1}, exceptional={"on": "infinity"}))
    fetched = pa.Table.from_pylist(log.rows)

    assert needs_spark(decoded_events(fetched, ITEMS, Segment(0, ITEMS.schema_id, None, None)), shape)
