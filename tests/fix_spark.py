"""One Spark session for the whole run, in which no Python runs on an executor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

from tests.jvm import AT_REST, LIVES_FOR_ALL, archived_class_path, short_lived
from tests.shared_servers import watched
from walbridge.embedded.folders import RunFolder
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.server_process import tail
from walbridge.spark_consumer.fold import fold
from walbridge.spark_consumer.jvm.jvm_end import EXIT_ON_OUT_OF_MEMORY, ending, exit_code, is_up, stop_session
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.slices import Volume

NO_PYTHON = "/nonexistent/python-on-an-executor"

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

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
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # as the job has it
    # A query over ten rows costs less interpreted than compiled: a quarter of all that these tests cost Spark.
    # ``compiled`` has it as the job has it, and so have the programs that tests start.
    **_INTERPRETED,
    **AT_REST,
    # Ten seconds by default: so long a test would wait for how far a task is.
    "spark.executor.heartbeatInterval": "1s",
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


class SharedJvm:
    """The JVM behind the session; another one, with another session, after it has died."""

    name, fixture = "Spark JVM", "shared_jvm"

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._log = scratch / "spark.log"
        self._session = _session(scratch, self._log)

    @property
    def session(self) -> SparkSession:
        return self._session

    @property
    def process(self) -> subprocess.Popen[bytes]:
        gateway: Any = self._session.sparkContext._gateway
        process: subprocess.Popen[bytes] = gateway.proc
        return process

    def death(self) -> str | None:
        """How it ended, or stopped to answer, with the end of its log."""
        if is_up(self._session):
            return None
        return f"{ending(exit_code(self.process))}; its log ends with:\n{tail(self._log)}"

    def revive(self) -> None:
        """A new one, if it does not answer."""
        if not is_up(self._session):
            self.end()
            self._session = _session(self._scratch, self._log)

    def end(self) -> None:
        """Whatever state it is in; nothing in this Python remembers it."""
        stop_session(self._session)
        with self.process as process:  # which closes its pipe
            process.kill()
        _forget_jvm()


def _forget_jvm() -> None:
    """pyspark expects one JVM in the life of a Python, and keeps it in these; so do our expressions."""
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    fold._fold_expressions.cache_clear()
    fold._single_expressions.cache_clear()


@pytest.fixture(scope="session")
def shared_jvm() -> Iterator[SharedJvm]:
    """For what lives longer than a test, which must not keep the session: after a death it is another."""
    run = RunFolder("spark")
    # Spark reads these from the environment, before and beside its own settings.
    patch = pytest.MonkeyPatch()
    patch.setenv("JAVA_HOME", str(find_java().java_home))
    patch.setenv("PYSPARK_PYTHON", NO_PYTHON)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"):
        patch.delenv(name, raising=False)
    jvm = SharedJvm(run.path)
    try:
        with watched(jvm):
            yield jvm
    finally:
        jvm.end()
        patch.undo()
        run.remove()


@pytest.fixture
def spark(shared_jvm: SharedJvm) -> SparkSession:
    """The shared session; take ``spark.newSession()`` to change a setting."""
    return shared_jvm.session


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Spark compiles its expressions, as it does for the job."""
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    yield
    for name, value in _INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark decodes and folds all records, also the few that are the driver's."""
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())


@pytest.fixture(params=["driver", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    """What decodes and folds: few records are the driver's, all others Spark's. A test runs with both."""
    if request.param == "spark":
        request.getfixturevalue("by_spark")
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty place for Delta tables."""
    return tmp_path / "lake"


def _session(scratch: Path, log: Path) -> SparkSession:
    settings = SETTINGS | archived_class_path()
    conf = SparkConf(loadDefaults=False).setAppName("walbridge tests").setAll(list(settings.items()))
    conf.set("spark.jars", ",".join(map(str, spark_jars())))
    conf.set("spark.local.dir", str(scratch / "local"))
    conf.set("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    folders = f"-Djava.io.tmpdir={scratch}", f"-Dderby.system.home={scratch}"
    options = (*short_lived(), *LIVES_FOR_ALL, EXIT_ON_OUT_OF_MEMORY, *folders)
    conf.set("spark.driver.extraJavaOptions", " ".join(options))
    with log.open("ab") as output:
        # What it says before it dies is found where the test that it failed can quote it.
        SparkContext._ensure_initialized(
            gateway=launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": subprocess.STDOUT})
        )
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "ERROR"))
    return session
