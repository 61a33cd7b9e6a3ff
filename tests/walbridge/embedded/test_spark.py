from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.fix_spark import SharedJvm
from tests.jvm import spark_archive


def test_delta_table_written_by_spark_is_read_by_both(spark: SparkSession, lake: Path) -> None:
    path = str(lake / "t")
    spark.range(3).write.format("delta").save(path)

    assert spark.read.format("delta").load(path).count() == 3
    assert pa.table(DeltaTable(path).to_pyarrow_table()).num_rows == 3


def test_session_starts_from_the_archive_of_its_classes(shared_jvm: SharedJvm) -> None:
    """A JVM says nothing where it passes over one."""
    if not spark_archive().options():
        pytest.skip("no archive was made: python -m tests.class_archives")
    mapped = Path(f"/proc/{shared_jvm.process.pid}/maps").read_text()

    assert "spark-driver-" in mapped


def test_python_on_an_executor_fails(spark: SparkSession) -> None:
    doubled = F.udf(lambda number: number * 2, "long")

    with pytest.raises((Py4JJavaError, Exception), match="nonexistent/python-on-an-executor"):
        spark.range(1).select(doubled("id")).collect()
