"""Tables without a key: how many more or fewer there are of each row, and which of equal rows stay."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.contract_writer import Event
from tests.in_soak import others_in_variants
from tests.spark_consumer.events import Log, column, relation
from tests.spark_consumer.world import MULTISET, MultisetWorld, Row, Text, canonical
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.scratch_table import scratch_table
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.keyless import kept_rows_sql, missing_rows_sql, row_deltas
from walbridge.spark_consumer.fold.schema_join import events, place_name
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.plan.plan import Segment

BAG = TableShape(relation([column("x", "float8"), column("on", "date")], identity="f"))
NAN = float("nan")


def table_of(lake: Path, *rows: Mapping[str, Any]) -> LakeTable:
    """Rows in the order in which they came."""
    table = LakeTable.create(f"{lake}/t", BAG.fields, Commit("p"), {})
    found = [
        {"x": row.get("x"), "_walbridge": {"commit_lsn": n, "ordinal": 0, "exceptional": row.get("texts")}}
        for n, row in enumerate(rows)
    ]
    table.append(pa.Table.from_pylist(found, arrow_schema(BAG.fields)).to_reader(), Commit("p"))
    return table


def going(*rows: tuple[Mapping[str, Any], int]) -> pa.Table:
    """Rows of which so many go."""
    fields = [LakeField(place_name(place), of.column_type.lake, {}) for place, of in enumerate(BAG.columns)]
    schema = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])
    found = [
        {place_name(0): row.get("x"), "change": {"exceptional": row.get("texts")}, "net": -count, "number": number}
        for number, (row, count) in enumerate(rows)
    ]
    return pa.Table.from_pylist(
        found, pa.schema([*schema, pa.field("net", pa.int32()), pa.field("number", pa.int64())])
    )


def asked(table: LakeTable, sql: str, rows: pa.Table) -> list[dict[str, Any]]:
    with scratch_table(rows.schema, [rows]) as source:
        found: list[dict[str, Any]] = table.query(sql, source).read_all().to_pylist()
    return found


def x(value: float | None) -> dict[str, Any]:
    return {"x": value}


INFINITE, MINUS_INFINITE = ({"texts": [("on", text)]} for text in ("infinity", "-infinity"))


def test_of_equal_rows_all_but_those_that_go_stay(lake: Path) -> None:
    """I5: kinds that lose as many are counted apart."""
    table = table_of(lake, *[x(1.0)] * 3, *[x(2.0)] * 2, x(3.0))

    kept = asked(table, kept_rows_sql(BAG), going((x(1.0), 1), (x(2.0), 1)))

    assert sorted(row[place_name(0)] for row in kept) == [1.0, 1.0, 2.0]


EQUALS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], bool]] = {
    "null equals null": (x(None), x(None), True),
    "NaN equals NaN": (x(NAN), x(NAN), True),
    "0.0 is not -0.0": (x(0.0), x(-0.0), False),
    "null is no number": (x(None), x(0.0), False),
    "a text equals itself": (INFINITE, INFINITE, True),
    "a text is no other text": (INFINITE, MINUS_INFINITE, False),
    "a text is not null": (INFINITE, x(None), False),
}


@pytest.mark.parametrize("case", EQUALS)
def test_row_that_goes_is_found_among_its_equals_only(lake: Path, case: str) -> None:
    one, other, equal = EQUALS[case]

    assert asked(table_of(lake, one), missing_rows_sql(BAG), going((other, 1))) == [{"missing": 0 if equal else 1}]


def test_kinds_of_rows_that_go_more_often_than_they_are_there_are_counted(lake: Path) -> None:
    """I7."""
    table = table_of(lake, *[x(1.0)] * 2, x(2.0))

    rows = going((x(1.0), 2), (x(2.0), 2), (x(3.0), 1), (x(4.0), 2))

    assert asked(table, missing_rows_sql(BAG), rows) == [{"missing": 3}]


def of_segment(spark: SparkSession, log: Log) -> DataFrame:
    return events(log.frame(spark), MULTISET, Segment(0, MULTISET.schema_id, None, None))


@pytest.mark.parametrize("seed", others_in_variants(range(3), [0]))
def test_net_of_events_is_the_difference_that_they_make(spark: SparkSession, seed: int) -> None:
    """I5, by Spark: any inserts, updates and deletes of a few rows that come many times."""
    world = MultisetWorld(seed)
    for _ in range(15):
        world.transaction()
    world.take()
    before = Counter(map(canonical, world.rows))
    for _ in range(25):
        world.transaction()
    log = Log()
    for event in world.take()[0]:
        log.add(event)

    found = row_deltas(of_segment(spark, log), TableShape(MULTISET))

    after = Counter(map(canonical, world.rows))
    expected = {row: after[row] - before[row] for row in before | after if after[row] != before[row]}
    rows = found.toArrow().to_pylist()
    assert {canonical(named(row)): row["net"] for row in rows} == expected
    assert len(rows) == len(expected)


def named(row: Mapping[str, Any]) -> Row:
    values = {of.name: row[place_name(place)] for place, of in enumerate(MULTISET.table.columns)}
    return values | {name: Text(text) for name, text in row["change"]["exceptional"] or ()}


def test_row_that_came_and_went_is_no_difference(spark: SparkSession) -> None:
    log = Log()
    log.add(Event(MULTISET, "c", 0x1100, 0, after={"x": 0.0}))
    log.add(Event(MULTISET, "d", 0x1100, 1, before={"x": 0.0}))

    found = row_deltas(of_segment(spark, log), TableShape(MULTISET))

    assert found.collect() == []


def test_the_two_zeros_are_two_rows_also_within_an_array(spark: SparkSession) -> None:
    """Postgres prints them differently, and takes away the one that it names; Spark would group them."""
    log = Log()
    for ordinal, name, zero in ((0, "x", 0.0), (2, "xs", [0.0])):
        log.add(Event(MULTISET, "c", 0x1100, ordinal, after={name: zero}))
        minus = [-0.0] if isinstance(zero, list) else -0.0
        log.add(Event(MULTISET, "d", 0x1100, ordinal + 1, before={name: minus}))

    found = row_deltas(of_segment(spark, log), TableShape(MULTISET)).toArrow().to_pylist()

    assert sorted(row["net"] for row in found) == [-1, -1, 1, 1]


def test_text_of_a_value_is_another_row_than_no_value(spark: SparkSession) -> None:
    """Infinity and null are both null in their column."""
    log = Log()
    log.add(Event(MULTISET, "c", 0x1100, 0, after={"x": 0.5}, exceptional={"on": "infinity"}))
    log.add(Event(MULTISET, "d", 0x1100, 1, before={"x": 0.5}))

    found = row_deltas(of_segment(spark, log), TableShape(MULTISET)).toArrow().to_pylist()

    assert sorted((row["net"], row["change"]["exceptional"]) for row in found) == [
        (-1, None),
        (1, [("on", "infinity")]),
    ]
