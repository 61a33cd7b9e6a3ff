"""How many slices, and that they hold every row once."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.in_soak import in_variants
from walbridge.spark_consumer.kafka.slices import (
    GATHERED_FROM,
    SLICE_BYTES_MAX,
    SLICE_ROWS_MAX,
    Volume,
    in_slice,
    persisted,
    slices_of,
    slices_of_persisted,
)

VOLUMES = st.builds(Volume, st.integers(0, 10 * SLICE_ROWS_MAX), st.integers(0, 10 * SLICE_BYTES_MAX))


@given(VOLUMES)
def test_no_slice_is_larger_than_it_may_be_on_average(volume: Volume) -> None:
    """I9."""
    assert volume.slices >= 1
    assert volume.rows <= volume.slices * SLICE_ROWS_MAX
    assert volume.bytes <= volume.slices * SLICE_BYTES_MAX


@pytest.mark.parametrize(("volume", "fits"), [((3, 5), True), ((4, 5), False), ((3, 6), False), ((0, 0), True)])
def test_volume_fits_when_neither_rows_nor_bytes_are_above_the_limit(volume: tuple[int, int], fits: bool) -> None:
    """I9."""
    assert Volume(*volume).fits(Volume(3, 5)) is fits


@given(VOLUMES, VOLUMES)
def test_volumes_add_and_subtract_rows_and_bytes(one: Volume, other: Volume) -> None:
    total = one + other

    assert (total.rows, total.bytes) == (one.rows + other.rows, one.bytes + other.bytes)
    assert total - other == one


@pytest.mark.parametrize("slices", [1, 3, GATHERED_FROM])
def test_slices_hold_every_row_once(spark: SparkSession, slices: int) -> None:
    """I7: a hash may be negative."""
    found = list(slices_of(spark.range(200), F.col("id"), Volume(rows=slices * SLICE_ROWS_MAX)))

    assert sorted(pa.concat_tables(found)["id"].to_pylist()) == list(range(200))
    assert len(found) == slices


def executions(spark: SparkSession) -> list[int]:
    """Of queries that Spark remembers: a thousand at most, so their number tells nothing."""
    jvm: Any = spark
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = jvm._jsparkSession.sharedState().statusStore().executionsList()
    return sorted(found.apply(number).executionId() for number in range(found.size()))


def rows_read_from_memory(spark: SparkSession, before: list[int]) -> int:
    """By all queries that were none of those, of frames that Spark holds."""
    jvm: Any = spark
    store = jvm._jsparkSession.sharedState().statusStore()
    total = 0
    for execution in [each for each in executions(spark) if each > max(before, default=-1)]:
        nodes, values = store.planGraph(execution).allNodes(), store.executionMetrics(execution)
        for node in map(nodes.apply, range(nodes.size())):
            if "InMemoryTableScan" not in node.name():
                continue
            for metric in map(node.metrics().apply, range(node.metrics().size())):
                if metric.name() == "number of output rows":
                    found = values.get(metric.accumulatorId())
                    total += int(found.get().replace(",", "")) if found.isDefined() else 0
    return total


@pytest.mark.parametrize(
    ("is_in_memory", "slices", "rows"), [(False, 2 * GATHERED_FROM, 1_000), in_variants(True, 4 * GATHERED_FROM, 2_000)]
)
def test_many_slices_do_not_each_read_all_rows(spark: SparkSession, is_in_memory: bool, slices: int, rows: int) -> None:
    volume, frame = Volume(rows=slices * SLICE_ROWS_MAX), spark.range(rows)
    before = executions(spark)
    if is_in_memory:
        with persisted(frame) as some:
            found = list(slices_of_persisted(some, F.col("id"), volume))
    else:
        found = list(slices_of(frame, F.col("id"), volume))

    assert sorted(pa.concat_tables(found)["id"].to_pylist()) == list(range(rows))
    # Some of the gathered batches hold rows of two slices or more.
    assert rows <= rows_read_from_memory(spark, before) <= slices * rows // 2


def test_slices_share_the_code_that_spark_generates(spark: SparkSession) -> None:
    """Each class of its own would be compiled anew by the JVM."""
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts = []
    for index in range(3):
        spark.range(50).where(in_slice(F.col("id"), index, 3)).toArrow()
        counts.append(compiled.getCount())

    assert len(set(counts)) == 1
