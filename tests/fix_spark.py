"""One Spark session for the whole run, in which no Python runs on an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_consumer.kafka import change_reader
from spark_consumer.kafka.slices import Volume
from tests.jvm import SHORT_LIVED
from walbridge.embedded.folders import RunFolder
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java

NO_PYTHON = "/nonexistent/python-on-an-executor"

SETTINGS = {
    "spark.master": "local[2]",
    # Less than by default: what is bounded by arithmetic needs no room to spare.
    "spark.driver.memory": os.environ.get("TEST_DRIVER_MEMORY", "768m"),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.memory.fraction": "0.4",
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    # A Python worker on an executor would have to be this program.
    "spark.pyspark.python": NO_PYTHON,
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The shared session; take ``spark.newSession()`` to change a setting."""
    run = RunFolder("spark")
    # Spark reads these from the environment, before and beside its own settings.
    patch = pytest.MonkeyPatch()
    patch.setenv("JAVA_HOME", str(find_java().java_home))
    patch.setenv("PYSPARK_PYTHON", NO_PYTHON)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"):
        patch.delenv(name, raising=False)
    session = _session(run.path)
    try:
        yield session
    finally:
        session.stop()
        patch.undo()
        run.remove()


@pytest.fixture(params=["driver", "spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What decodes and folds: few records are the driver's, all others Spark's. A test runs with both."""
    if request.param == "spark":
        monkeypatch.setattr(change_reader, "FEW", Volume())
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty place for Delta tables."""
    return tmp_path / "lake"


def _session(scratch: Path) -> SparkSession:
    builder = SparkSession.builder.appName("walbridge tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = (
        builder.config("spark.jars", ",".join(map(str, spark_jars())))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions",
            f"{SHORT_LIVED} -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "ERROR"))
    return session
