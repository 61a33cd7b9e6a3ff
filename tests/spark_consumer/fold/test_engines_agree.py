"""The driver's fold and Spark's give the same rows, whatever the events."""

import datetime
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.in_soak import in_soak, in_variants, others_in_soak, others_in_variants
from tests.spark_consumer.events import Log, column, relation, values_of
from tests.spark_consumer.fold.folded_events import ITEMS, VALUES, logged, schema_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.spark_consumer.fold import large_values
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.large_records import LargeRecord
from walbridge.spark_consumer.kafka.slices import Volume, conformed
from walbridge.spark_consumer.plan.plan import Segment

SEEDS = range(3)
EVENTS = 250
IN_JSON = replace(ITEMS, is_json=True)
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
        is_copied = number % 35 == 0
        lsn, ordinal = 0x1000 + 8 * (number // 5), COPIED_ORDINAL if is_copied else number % 5
        values, texts = random_row(chooser)
        op = chooser.choice("cuuuud")
        if op == "d":
            yield Event(of, op, lsn, ordinal, before=key, before_image="key")
            continue
        unchanged = [name for name in left_out if name not in texts and chooser.random() < 0.2] or None
        kept = {name: value for name, value in values.items() if name not in (unchanged or ())}
        yield Event(of, op, lsn, ordinal, after=key | kept, unchanged=unchanged, exceptional=texts or None)


def both(spark: SparkSession, log: Log, shape: TableShape, segment: Segment) -> tuple[SegmentRows, SegmentRows]:
    """The same records for the driver, and for Spark."""
    frame = log.frame(spark)
    volumes: dict[str | None, Volume] = {shape.relation.frame_id: Volume(len(log.rows), 1)}
    records = (TableRecords(lambda: frame, volumes, fetched) for fetched in (frame.toArrow(), None))
    driver, jvm = (SegmentRows(each, shape, segment) for each in records)
    return driver, jvm


def with_large(records: SegmentRows, log: Log, spark: SparkSession, limit: int) -> SegmentRows:
    """The same, records above the limit left out and fetched one at a time."""
    is_large = [len(row["value"]) > limit for row in log.rows]  # type: ignore[arg-type]
    small = Log([row | {"value": None} if large else row for row, large in zip(log.rows, is_large, strict=True)])
    large = [
        LargeRecord(str(row["topic"]), row["partition"], row["offset"], row["key"], records.shape.relation.frame_id, 1)  # type: ignore[arg-type]
        for row, is_one in zip(log.rows, is_large, strict=True)
        if is_one
    ]
    assert 0 < len(large) < len(log.rows)
    frame, values = small.frame(spark), partial(values_of, log.frame(spark))
    fetched = None if records.records.fetched is None else frame.toArrow()
    found = TableRecords(lambda: frame, records.records.volumes, fetched, large, values)
    return SegmentRows(found, records.shape, records.segment)


def in_order(slices: Iterator[pa.Table], schema: pa.Schema) -> list[str]:
    """Rows as text: NaN equals NaN, 0.0 is not -0.0."""
    return sorted(repr(row) for some in slices for row in conformed(some, schema).to_pylist())


@pytest.mark.variant(of="test_rows_are_the_same_though_large_values_are_set_aside")
@pytest.mark.parametrize("seed", others_in_soak(SEEDS, [0]))
def test_events_in_json_fold_to_the_rows_that_they_do_in_avro(spark: SparkSession, seed: int) -> None:
    """I5, I6"""
    found = []
    for of in (ITEMS, IN_JSON):
        shape = TableShape(of)
        schema = schema_of(shape, folded=True)
        log = logged(list(random_events(seed, of)), seed)
        for each in both(spark, log, shape, Segment(0, of.schema_id, None, None)):
            found.append(in_order(each.folded_by_key(schema), schema))
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) > 50


@pytest.mark.parametrize("seed", others_in_variants(SEEDS, [0]))
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


@pytest.mark.parametrize(
    ("value_bytes_max", "of"), [in_variants(0, ITEMS), in_soak(100, ITEMS), in_soak(2**10, ITEMS), (100, IN_JSON)]
)
def test_rows_are_the_same_though_large_values_are_set_aside(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, value_bytes_max: int, of: RelationRecord
) -> None:
    """I6, I9: of every type, also where the last event of a key left the column out. Of rows that are
    gone nobody asks for more than the key.
    """
    monkeypatch.setattr(large_values, "VALUE_BYTES_MAX", value_bytes_max)
    shape = TableShape(of)
    log = logged(list(random_events(11, of)), 11)
    whole = Segment(0, of.schema_id, None, None)
    schema = schema_of(shape, folded=True)

    plain, *_ = engines = both(spark, log, shape, whole)
    expected = in_order(map(alive, plain.folded_by_key(schema)), schema)
    for engine in engines:
        with closing(with_large(engine, log, spark, 1500 if of.is_json else 600)) as rows:
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
    ours = in_order(driver.unfolded(schema), schema)
    assert ours == in_order(jvm.unfolded(schema), schema)
    assert ours
