"""The driver's fold and Spark's give the same rows, whatever the events."""

import datetime
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation, values_of
from walbridge.schemas.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.delta.table import LakeField, arrow_schema
from walbridge.spark_consumer.fold import large_values
from walbridge.spark_consumer.fold.fold import root_name
from walbridge.spark_consumer.fold.local_events import decoded_events
from walbridge.spark_consumer.fold.local_fold import needs_spark
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.slices import Volume, conformed
from walbridge.spark_consumer.plan.plan import Segment

SEEDS = range(3)
EVENTS = 250
UTC = datetime.UTC
VALUES: Mapping[tuple[str, int], list[Any]] = {
    ("bool", -1): [True, False, None],
    ("int2", -1): [-(2**15), 2**15 - 1, None],
    ("int8", -1): [-(2**63), 2**63 - 1, None],
    ("float4", -1): [0.5, -0.0, float("inf"), None],
    ("float8", -1): [1e-300, float("-inf"), -0.0, None],
    ("numeric", (38 << 16 | 10) + 4): [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), None],
    ("numeric", (10 << 16 | 2) + 4): [Decimal("1.50"), Decimal("-0.01"), "NaN", None],
    ("text", -1): ["", "ä€😀\\'\"\n", "x" * 3_000, None],
    ("bytea", -1): [b"", b"\x00\xff", None],
    ("date", -1): [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), "infinity", None],
    ("timestamp", -1): [datetime.datetime(1582, 10, 10, 23, 59, 59, 999999), "-infinity", None],
    ("timestamptz", -1): [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, tzinfo=UTC), None],
    ("_int4", -1): [[], [1, None], "{{1,2},{3,4}}", None],
    ("_text", -1): [[], ["", None, "ä"], None],
    ("_numeric", (10 << 16 | 2) + 4): [[Decimal("1.50"), None], "{NaN}", None],
    ("_timestamptz", -1): [[datetime.datetime(2024, 2, 29, tzinfo=UTC), None], None],
    ("_float8", -1): [[-0.0, None, float("inf")], None],
    ("point", -1): ["(1,2)", None],
    ("hstore", -1): [{}, {"a": None}, {"": "ä", "b": "x" * 300}, None],
    ("vector", -1): [[0.5, -0.0], [1e-30], None],
    ("price", -1): [Decimal("1.50"), "NaN", None],
    ("counts", -1): [[1, None], "{{1}}", None],
}
"""Values by type; a text of a type that is not textual is one its Avro type cannot hold."""
ITEMS = relation(
    [
        column("id", "int4", is_key=True),
        column("on", "date", is_key=True),
        *[column(f"c{at}", name, typmod=typmod) for at, (name, typmod) in enumerate(VALUES)],
    ]
)
TEXTUAL = frozenset({"text", "point", "_text"})


def random_row(chooser: random.Random) -> tuple[dict[str, Any], dict[str, str]]:
    """Values, and the texts of those that have no other place."""
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for at, ((name, _), choices) in enumerate(VALUES.items()):
        chosen = chooser.choice(choices)
        if isinstance(chosen, str) and name not in TEXTUAL:
            texts[f"c{at}"] = chosen
        else:
            values[f"c{at}"] = chosen
    return values, texts


def random_events(seed: int, of: RelationRecord) -> Iterator[Event]:
    """Changes of a few keys, in any order of operations; some stand twice, some out of order."""
    chooser = random.Random(seed)
    left_out = [each.name for each in of.table.columns if not each.is_key]
    for number in range(EVENTS):
        key = {"id": chooser.randrange(30), "on": datetime.date(2024, 2, chooser.randrange(1, 4))}
        lsn, ordinal = 0x1000 + 8 * (number // 5), number % 5
        values, texts = random_row(chooser)
        op = chooser.choice("cuuuud")
        if op == "d":
            yield Event(of, op, lsn, ordinal, before=key, before_image="key")
            continue
        unchanged = [name for name in left_out if name not in texts and chooser.random() < 0.2] or None
        kept = {name: value for name, value in values.items() if name not in (unchanged or ())}
        yield Event(of, op, lsn, ordinal, after=key | kept, unchanged=unchanged, exceptional=texts or None)


def logged(events: list[Event], seed: int) -> Log:
    chooser = random.Random(seed)
    log = Log()
    for event in events:
        for _ in range(chooser.choice([1, 1, 1, 2])):
            log.add(event, partition=chooser.randrange(2))
    chooser.shuffle(log.rows)
    return log


def both(spark: SparkSession, log: Log, shape: TableShape, segment: Segment) -> tuple[SegmentRows, SegmentRows]:
    """The same records for the driver, and for Spark."""
    frame = log.frame(spark)
    volumes: dict[str | None, Volume] = {shape.relation.schema_id: Volume(len(log.rows), 1)}
    records = (TableRecords(lambda: frame, volumes, fetched) for fetched in (frame.toArrow(), None))
    driver, jvm = (SegmentRows(each, shape, segment) for each in records)
    return driver, jvm


def with_large(records: SegmentRows, log: Log, spark: SparkSession, limit: int) -> SegmentRows:
    """The same, records above the limit left out and fetched one at a time."""
    is_large = [len(row["value"]) > limit for row in log.rows]  # type: ignore[arg-type]
    small = Log([row | {"value": None} if large else row for row, large in zip(log.rows, is_large, strict=True)])
    large = [
        LargeRecord(str(row["topic"]), row["partition"], row["offset"], row["key"], ITEMS.schema_id, 1)  # type: ignore[arg-type]
        for row, is_one in zip(log.rows, is_large, strict=True)
        if is_one
    ]
    assert 0 < len(large) < len(log.rows)
    frame, values = small.frame(spark), partial(values_of, log.frame(spark))
    fetched = None if records.records.fetched is None else frame.toArrow()
    found = TableRecords(lambda: frame, records.records.volumes, fetched, large, values)
    return SegmentRows(found, records.shape, records.segment)


def schema_of(shape: TableShape, *, folded: bool) -> pa.Schema:
    fields = [LakeField(place_name(place), each.column_type.lake, {}) for place, each in enumerate(shape.columns)]
    plain = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])
    roots = [pa.field(root_name(place), plain.field(place).type) for place in shape.key_places]
    more = [pa.field("unknown", pa.list_(pa.int32())), pa.field("moved", pa.bool_()), *roots]
    return pa.schema([*plain, *more, pa.field("root_key_text", pa.string())]) if folded else plain


def in_order(slices: Iterator[pa.Table], schema: pa.Schema) -> list[str]:
    """Rows as text: NaN equals NaN, 0.0 is not -0.0."""
    return sorted(repr(row) for some in slices for row in conformed(some, schema).to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_driver_and_spark_fold_events_to_the_same_rows(spark: SparkSession, seed: int) -> None:
    """I5, I6"""
    shape = TableShape(ITEMS)
    log = logged(list(random_events(seed, ITEMS)), seed)
    whole = Segment(0, ITEMS.schema_id, None, None)
    schema = schema_of(shape, folded=True)

    driver, jvm = both(spark, log, shape, whole)
    ours = in_order(driver.folded_by_key(schema), schema)
    assert ours == in_order(jvm.folded_by_key(schema), schema)
    assert len(ours) > 50


@pytest.mark.parametrize("value_bytes_max", [0, 100, 2**10])
def test_rows_are_the_same_though_large_values_are_set_aside(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, value_bytes_max: int
) -> None:
    """I6, I9: of every type, also where the last event of a key left the column out. Of rows that are
    gone nobody asks for more than the key.
    """
    monkeypatch.setattr(large_values, "VALUE_BYTES_MAX", value_bytes_max)
    shape = TableShape(ITEMS)
    log = logged(list(random_events(11, ITEMS)), 11)
    whole = Segment(0, ITEMS.schema_id, None, None)
    schema = schema_of(shape, folded=True)

    plain, *_ = engines = both(spark, log, shape, whole)
    expected = in_order(map(alive, plain.folded_by_key(schema)), schema)
    for engine in engines:
        with closing(with_large(engine, log, spark, 600)) as rows:
            assert in_order(map(alive, rows.folded_by_key(schema)), schema) == expected
    assert len(expected) > 50


def alive(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(pc.struct_field(rows.column("change"), "op"), "d"))


def test_of_rows_that_are_gone_only_the_key_is_known(spark: SparkSession) -> None:
    """Under identity FULL a delete brings the whole row, of which nothing else is asked for."""
    of = relation([column("id", "int4", is_key=True), column("v"), column("n", "int4")], identity="f")
    log = Log()
    old = {"id": 1, "v": "x" * 50, "n": 7}
    log.add(Event(of, "u", 0x1000, 0, before=old, after=old | {"n": 8}, before_image="full"))
    log.add(Event(of, "d", 0x1000, 1, before=old | {"n": 8}, before_image="full"))
    log.add(Event(of, "u", 0x1000, 2, before=old | {"id": 2}, after=old | {"id": 2, "n": 9}, before_image="full"))
    shape = TableShape(of)
    schema = schema_of(shape, folded=True)

    driver, jvm = both(spark, log, shape, Segment(0, of.schema_id, None, None))
    ours = driver.folded_by_key(schema)
    rows = [row for some in ours for row in some.to_pylist()]
    by_place = [[row[place_name(place)] for place in range(3)] for row in rows]
    assert sorted(by_place) == [[1, None, None], [2, "x" * 50, 9]]
    assert in_order(jvm.folded_by_key(schema), schema) == in_order(driver.folded_by_key(schema), schema)


def test_driver_and_spark_take_the_same_part_of_the_records(spark: SparkSession) -> None:
    """A segment's start is in it, its end is not; truncates and other schemas are not."""
    shape = TableShape(ITEMS)
    # Deletes of rows that are taken as they are have no place, and are refused.
    log = logged([event for event in random_events(7, ITEMS) if event.op != "d"], 7)
    log.add(Event(ITEMS, "t", 0x1008, 1))
    other = relation([*ITEMS.table.columns[:2], column("other")])
    log.add(Event(other, "c", 0x1010, 1, after={"id": 1, "on": datetime.date(2024, 2, 1), "other": "x"}))
    part = Segment(1, ITEMS.schema_id, Position(Lsn(0x1008), 1), Position(Lsn(0x1048), 2))
    schema = schema_of(shape, folded=False)

    driver, jvm = both(spark, log, shape, part)
    ours = in_order(driver.as_they_are(schema), schema)
    assert ours == in_order(jvm.as_they_are(schema), schema)
    assert ours


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
    }
    nothing: dict[str, Any] = {
        "id": 1,
        "body": None,
        "tags": None,
        "n": None,
        "texts": None,
        "unknown": [],
        "moved": False,
    }
    assert found == nothing | expected
    assert row["change"]["ordinal"] == logged[-1].ordinal


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
