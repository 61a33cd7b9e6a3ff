"""Plans on tables of which Spark decodes and folds what came, case by case.

Some are those of ``test_apply.py`` once more: what Spark meets in records, names and rows. That it folds as the driver
does, whatever the events, is in ``fold/test_engines_agree.py``; what becomes of folded rows is the same code for both.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.apply.test_apply import (
    FORMATS,
    ITEMS,
    LSN,
    test_change_that_names_no_row_stops,
    test_malformed_record_is_named_by_its_offset,
    test_names_of_any_kind_are_columns,
    test_record_of_another_program_stops_the_plan,
    test_schema_that_nobody_announced_stops_the_plan,
    test_update_of_unchanged_toast_keeps_the_stored_value,
)
from tests.spark_consumer.events import changed, column, copied, head_rows, relation, values
from tests.spark_consumer.world import MULTISET, Text, lake_rows
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.kafka import change_reader

__all__ = [
    "test_change_that_names_no_row_stops",
    "test_malformed_record_is_named_by_its_offset",
    "test_names_of_any_kind_are_columns",
    "test_record_of_another_program_stops_the_plan",
    "test_schema_that_nobody_announced_stops_the_plan",
    "test_update_of_unchanged_toast_keeps_the_stored_value",
]
pytestmark = pytest.mark.usefixtures("by_spark")


@pytest.mark.variant(of="test_update_of_unchanged_toast_keeps_the_stored_value")
def test_text_of_an_unchanged_array_stays_with_it(spark: SparkSession, lake: Path) -> None:
    head = copied(None, lake, ITEMS)
    insert = Event(ITEMS, "c", LSN, 0, after={"id": 1}, exceptional={"tags": "{{1}}"})
    head = changed(spark, lake, head, insert)

    update = Event(ITEMS, "u", LSN + 8, 0, after={"id": 1, "n": 2}, unchanged=["tags"])
    head = changed(spark, lake, head, update, to_cut=3)

    assert list(lake_rows(head_rows(lake, head))) == [{"id": 1, "body": None, "tags": Text("{{1}}"), "n": 2}]


@pytest.mark.variant(of="test_change_that_names_no_row_stops")
def test_moved_row_that_is_missing_stops(spark: SparkSession, lake: Path) -> None:
    head = copied(None, lake, ITEMS)
    gone = Event(ITEMS, "d", LSN, 0, before={"id": 1}, before_image="key")
    moved = Event(ITEMS, "c", LSN, 1, before={"id": 1}, before_image="key", after={"id": 2}, unchanged=["body"])

    with pytest.raises(OperatorError, match="rows that the lake does not hold"):
        changed(spark, lake, head, gone, moved)


@FORMATS
def test_table_without_columns_counts_its_rows(spark: SparkSession, lake: Path, *, is_json: bool) -> None:
    empty = replace(relation([], name="empty", identity="f"), is_json=is_json)
    head = copied(None, lake, empty, {}, {}, {})

    head = changed(spark, lake, head, Event(empty, "d", LSN, 0, before={}, before_image="full"))

    assert len(head_rows(lake, head)) == 2


def test_row_that_goes_more_often_than_it_is_there_stops(spark: SparkSession, lake: Path) -> None:
    head = copied(None, lake, MULTISET, {"x": 1.0})
    gone = [Event(MULTISET, "d", LSN, place, before={"x": 1.0}, before_image="full") for place in range(2)]

    with pytest.raises(OperatorError, match="does not hold often enough"):
        changed(spark, lake, head, *gone)


@FORMATS
def test_a_large_value_of_a_keyless_row_is_the_same_in_a_small_record_and_in_a_large_one(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch, *, is_json: bool
) -> None:
    """I9: an insert holds the row once, its update twice, and only the update is set aside as large."""
    monkeypatch.setattr(change_reader, "LARGE_BYTES", 5_000)
    bag = replace(relation([column("v"), column("n", "int4")], identity="f"), is_json=is_json)
    head = copied(None, lake, bag, {"v": "y", "n": 1})
    row = {"v": "x" * 3_000, "n": 0}

    insert = Event(bag, "c", 0x2000, 0, after=row)
    update = Event(bag, "u", 0x3000, 0, before=row, after=row | {"n": 1}, before_image="full")
    head = changed(spark, lake, head, insert, update)

    assert values(head_rows(lake, head)) == values([{"v": "y", "n": 1}, row | {"n": 1}])
