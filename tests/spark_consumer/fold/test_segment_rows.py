"""A segment's rows by Spark in several slices are the rows in one, and by the driver where they are few."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, column, relation
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.kafka import slices
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Segment

ROWS = 60
ITEMS = relation([column("id", "int4", is_key=True), column("n", "int4")])
BAG = relation([column("n", "int4")], name="bag", identity="f")
DATED = relation([column("on", "date", is_key=True), column("n", "int4")])


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ROWS_MAX", ROWS // 4)


def by_spark(spark: SparkSession, log: Log) -> SegmentRows:
    of = BAG if log.rows[0]["topic"] == BAG.topic else ITEMS
    frame = log.frame(spark)
    records = TableRecords(lambda: frame, {of.schema_id: Volume(len(log.rows), 1)}, None)
    return SegmentRows(records, TableShape(of), Segment(0, of.schema_id, None, None))


def column_of(found: Iterator[pa.Table], place: int) -> list[Any]:
    some = list(found)
    assert len(some) > 1
    return sorted(value for rows in some for value in rows.column(place).to_pylist())


def updates() -> Log:
    log = Log()
    for n in range(ROWS):
        log.add(Event(ITEMS, "u", 0x1100, n, after={"id": n % 40, "n": n}))
    return log


@pytest.mark.usefixtures("small_slices")
def test_slices_hold_each_row_once(spark: SparkSession) -> None:
    """I7, I9: of copied rows each one, of changes one a key, though its events stand anywhere in the log."""
    rows = by_spark(spark, updates())
    last = sorted([*range(40, 60), *range(20, 40)])

    assert column_of(rows.unfolded(pa.schema([])), 1) == list(range(ROWS))
    assert column_of(rows.folded_by_key(pa.schema([])), 1) == last
    assert column_of(rows.folded_by_chain(pa.schema([])), 1) == last


@pytest.mark.variant(of="test_slices_hold_each_row_once")
@pytest.mark.usefixtures("small_slices")
def test_slices_of_a_multiset_hold_each_row_once(spark: SparkSession) -> None:
    log = Log()
    for n in range(ROWS):
        log.add(Event(BAG, "c", 0x1100, n, after={"n": n}))

    assert column_of(by_spark(spark, log).row_deltas(pa.schema([])), 0) == list(range(ROWS))


@pytest.mark.variant(of="test_slices_hold_each_row_once")
@pytest.mark.usefixtures("small_slices")
def test_rows_that_were_copied_at_one_position_are_spread_over_the_slices(spark: SparkSession) -> None:
    """I9: a source at rest has one LSN for a whole copy."""
    items, bag = Log(), Log()
    for n in range(ROWS):
        items.add(Event(ITEMS, "r", 0x1100, -1, after={"id": n, "n": 0}))
        bag.add(Event(BAG, "r", 0x1100, -1, after={"n": n}))
    keyed, schema = by_spark(spark, items), pa.schema([])

    for found in (
        keyed.persisted_by_key(keyed.frame_by_key(), schema),
        keyed.folded_by_chain(schema),
        by_spark(spark, bag).row_deltas(schema),
    ):
        rows = [some.num_rows for some in found]
        assert sum(rows) == ROWS
        assert max(rows) < ROWS // 2


@pytest.mark.usefixtures("small_slices")
def test_each_slice_that_is_handed_over_is_progress(spark: SparkSession) -> None:
    """A supervisor that starts a job again because of one large table would never see that table done."""
    beats: list[int] = []
    whole = by_spark(spark, updates())
    rows = replace(whole, records=replace(whole.records, on_step=lambda: beats.append(1)))

    to_driver = len(list(rows.unfolded(pa.schema([]))))

    assert len(beats) == to_driver > 1


def test_keys_with_texts_are_folded_by_spark_though_they_are_few(spark: SparkSession) -> None:
    """I5: only one program writes the JSON of their texts, or one key would be two; deletes are told by theirs too."""
    log = Log()
    log.add(Event(DATED, "d", 0x1100, 1, before={}, before_exceptional={"on": "-infinity"}))
    log.add(Event(DATED, "c", 0x1100, 0, after={"n": 1}, exceptional={"on": "infinity"}))
    here = log.on_driver(DATED.topic)
    frame = log.frame(spark)
    records = TableRecords(lambda: frame, here.volumes, here.fetched)
    shape = TableShape(DATED)
    fields = [LakeField(place_name(place), of.column_type.lake, {}) for place, of in enumerate(shape.columns)]
    schema = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])

    (rows,) = SegmentRows(records, shape, Segment(0, DATED.schema_id, None, None)).folded_by_key(schema)

    texts = {row["change"]["op"]: row["change"]["key_text"] for row in rows.to_pylist()}
    assert texts == {"c": '{"on":"infinity"}', "d": '{"on":"-infinity"}'}
