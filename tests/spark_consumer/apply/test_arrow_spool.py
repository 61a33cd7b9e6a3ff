"""Arrow rows between Spark and delta-rs."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from walbridge.spark_consumer.apply.arrow_spool import spooled
from walbridge.spark_consumer.kafka.slices import conformed

TEXTS = pa.map_(pa.string(), pa.string())


def test_children_of_empty_lists_and_maps_have_their_offsets(spark: SparkSession) -> None:
    """Spark's batches lack them, and delta-rs panicked on what lay in their place."""
    nothing = F.lit(None).cast("map<string,string>")
    empty = F.array().cast("array<string>")
    rows = spark.range(3).select(F.struct(nothing.alias("texts")).alias("change"), empty.alias("l"))
    schema = pa.schema({"change": pa.struct({"texts": TEXTS}), "l": pa.list_(pa.string())})

    made = conformed(rows.toArrow(), schema)

    children = made.column("change").chunk(0).field(0).keys, made.column("l").chunk(0).values
    assert [child.buffers()[1].size for child in children] == [4, 4]
    assert made.to_pylist() == rows.toArrow().to_pylist()


def test_slices_are_read_twice_and_none_is_lost() -> None:
    schema = pa.schema({"n": pa.int64()})
    slices = [pa.table({"n": list(range(start, start + 10))}) for start in range(0, 50, 10)]
    with spooled(schema, slices) as rows:
        assert rows.rows == 50
        for _ in range(2):
            assert rows.reader().read_all().column("n").to_pylist() == list(range(50))


def test_rows_on_disk_have_no_name_that_a_killed_program_could_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    slices = [pa.table({"n": [1]}), pa.table({"n": [2]})]
    with spooled(slices[0].schema, slices) as rows:
        assert list(tmp_path.iterdir()) == []
        assert rows.reader().read_all().column("n").to_pylist() == [1, 2]
