"""Bounds in a table's log: engines believe them, and so only exact ones are told."""

from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.in_soak import others_in_variants
from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.delta.by_spark.commit import append_by_spark
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import CREATE, SHAPE, Commit
from walbridge.spark_consumer.delta.statistics import STATISTICS, exact_bounds, kept_bounds
from walbridge.spark_consumer.delta.table import LakeTable

ID, FLOAT = LakeField("id", "long", {}), LakeField("a,`b", "double", {})
STRUCT = LakeField(
    LAKE_STRUCT,
    {"type": "struct", "fields": [{"name": "commit_lsn", "type": "long", "nullable": True, "metadata": {}}]},
    {},
)
SAID = Commit("p")
NUMBERS: dict[str, list[Any]] = {
    "decimal(20,5)": [Decimal("123456789012345.67891")],
    "decimal(38,0)": [Decimal(10**38 - 1), Decimal(10**38 - 2)],
    "decimal(38,38)": [Decimal("0.12345678901234567890123456789012345678")],
    "decimal(16,0)": [Decimal("9999999999999999")],
    "double": [1.5, nan, -0.0, inf],
    "float": [1.5, nan],
}


def table_of(folder: Path, *fields: LakeField, rows: list[dict[str, Any]]) -> LakeTable:
    columns = [*fields, STRUCT]
    table = LakeTable.create(str(folder), columns, Commit("p", step=CREATE), {})
    table.append(pa.Table.from_pylist(rows, arrow_schema(columns)).to_reader(), SAID)
    return table


def bounded(table: LakeTable) -> set[str]:
    """Columns that have bounds in any of the table's files."""
    found = table.file_statistics()
    named = (name for name in found.column_names if name.startswith("min.") and found[name].null_count < found.num_rows)
    return {name.removeprefix("min.") for name in named}


@pytest.mark.parametrize("type_name", others_in_variants(NUMBERS, ["decimal(38,38)", "float"]))
def test_engines_find_numbers_whose_bounds_the_log_could_not_hold(
    lake: Path, spark: SparkSession, type_name: str
) -> None:
    """Delta-rs has taken a bound that was cut off for the value itself, and the others have left the file out."""
    numbers = NUMBERS[type_name]
    folder = lake / "t"
    table_of(folder, ID, LakeField("v", type_name, {}), rows=[{"id": at, "v": v} for at, v in enumerate(numbers)])

    query = QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT v FROM t WHERE v IS NOT NULL")
    assert list(map(repr, pa.table(query.read_all())["v"].to_pylist())) == list(map(repr, numbers))
    column = polars.from_arrow(pa.array(numbers, pa.schema(DeltaTable(folder).schema().to_arrow()).field("v").type))
    assert isinstance(column, polars.Series)
    largest = column.sort()[-1]
    at_least = polars.scan_delta(str(folder)).filter(polars.col("v") >= polars.lit(largest, dtype=column.dtype))
    found_by_spark = spark.read.format("delta").load(str(folder)).where(f"v >= cast('{largest}' AS {type_name})")
    assert at_least.collect().height == found_by_spark.count() == 1
    one = pa.scalar(numbers[0], column.to_arrow().type)
    assert DeltaTable(folder).to_pyarrow_table(filters=ds.field("v") == one)["id"].to_pylist() == [0]


def test_bounds_of_other_columns_stay(lake: Path) -> None:
    """Files outside the keys' bounds are not read."""
    assert bounded(table_of(lake / "t", ID, FLOAT, rows=[{"id": 7, FLOAT.name: nan}])) == {"id"}


def test_decimal_of_more_digits_than_a_double_holds_has_no_bounds(lake: Path) -> None:
    long, short = LakeField("long", "decimal(16,16)", {}), LakeField("short", "decimal(15,15)", {})
    row = {"id": 1, "long": Decimal("0.5577742335341152"), "short": Decimal("0.557774233534115")}

    assert bounded(table_of(lake / "t", ID, long, short, rows=[row])) == {"id", "short"}


def test_table_whose_bounds_are_all_exact_is_as_delta_has_it() -> None:
    fields = [LakeField(of, of, {}) for of in ("long", "string", "timestamp", "boolean", "binary", "decimal(15,7)")]

    assert exact_bounds([*fields, STRUCT]) == {}
    assert kept_bounds(fields, fields, {}) == {}
    assert (
        exact_bounds([*fields, FLOAT, STRUCT])[STATISTICS] == "`decimal(15,7)`,`long`,`string`,`timestamp`,_walbridge"
    )


def test_no_more_columns_have_bounds_than_by_default() -> None:
    fields = [LakeField(f"c{n}", "long", {}) for n in range(40)]

    assert exact_bounds([*fields, FLOAT])[STATISTICS].count(",") == 32


def test_column_that_gets_another_type_has_no_bounds_of_it(lake: Path) -> None:
    """Nor has one that is added. What is set for that is no commit with rows."""
    table = table_of(lake / "t", ID, LakeField("v", "long", {}), rows=[{"id": 1, "v": 2}])
    columns = [ID, LakeField("v", "double", {}), LakeField("w", "long", {}), STRUCT]
    row = pa.Table.from_pylist([{"id": 1, "v": nan, "w": 1}], arrow_schema(columns))

    table.overwrite(row.to_reader(), SAID)
    assert bounded(table) == {"id"}
    table.add_columns([LakeField("x", "float", {})], Commit("p", step=SHAPE))
    table.append(row.append_column("x", pa.array([1.5], pa.float32())).to_reader(), SAID)

    assert bounded(table) == {"id", "w"}
    assert [commit.step for commit in table.commits(5)] == [SHAPE, SAID.step, SHAPE, SHAPE, SAID.step]


@pytest.mark.variant(of="test_engines_find_numbers_whose_bounds_the_log_could_not_hold")
def test_spark_writes_to_a_table_that_leaves_bounds_out(lake: Path, spark: SparkSession) -> None:
    table = table_of(lake / "t", ID, FLOAT, rows=[{"id": 1, FLOAT.name: 1.5}])

    append_by_spark(table, spark.read.format("delta").load(table.uri), SAID)

    assert spark.read.format("delta").load(table.uri).where("`a,``b` > 1").count() == 2
