"""The Spark session: ours for ``python -m spark_consumer``, the given one under ``spark-submit``.

In: settings. Out: a session that reads Kafka, decodes Avro and knows Delta, with clocks in UTC
and column names as Postgres has them. No Python ever runs on its executors.
"""

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from schemas.errors import OperatorError
from schemas.settings import Settings

CONNECTOR = "spark-sql-kafka-0-10"
"""One jar that tells whether a folder holds the jars at all."""

_REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Postgres tells "Name" from "name", and so do its columns in a schema.
    "spark.sql.caseSensitive": "true",
    # Spark's default, INT96, is read as garbage outside 1677–2262 by delta-rs and others.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_STATIC = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
"""Of these, what only the start of a session can set."""
_PREFERRED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Folds are of one plan, bounded in rows: a shuffle of 200 partitions would cost more than the work.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A trigger costs 37 ms instead of 107 on a local disk (Spark 4.0).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.stopTimeout": "60s",
}
_LOCAL_DISK_ONLY = "spark.sql.streaming.checkpointFileManagerClass"

# Whatever fails reaches the job as an exception, and the job says it once: these would say it
# again, with pages of stack. The gateway's level, unless given, becomes that of all others.
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""
_SILENT = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.sql.kafka010",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.util.Utils",
    "org.apache.kafka",
)


def spark_session(settings: Settings) -> SparkSession:
    """The session of this program.

    Raises:
        OperatorError: the connectors' jars are missing, or spark-submit's session lacks Delta.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(SparkSession.builder.getOrCreate())
    builder = SparkSession.builder.appName(f"walbridge {settings.name}").master(settings.spark.master)
    # The JVM reads its log settings once, at its start.
    with tempfile.TemporaryDirectory(prefix="walbridge-") as folder:
        for name, value in session_conf(settings, _log4j_file(Path(folder))).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def session_conf(settings: Settings, log4j: Path) -> dict[str, str]:
    """What the builder is told; ``[spark.conf]`` wins over what is merely preferred.

    Raises:
        OperatorError: the connectors' jars are missing.
    """
    preferred = dict(_PREFERRED)
    if "://" in settings.lake.path:
        del preferred[_LOCAL_DISK_ONLY]
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
    given = dict(settings.spark.conf)
    options = f"{options} {given.pop('spark.driver.extraJavaOptions', '')}".strip()
    return {
        **preferred,
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.jars": ",".join(str(jar) for jar in connector_jars(settings.spark.jars_dir)),
        **given,
        "spark.driver.extraJavaOptions": options,
        **_REQUIRED,
    }


def connector_jars(jars_dir: str | None) -> list[Path]:
    """The jars of that folder.

    Raises:
        OperatorError: not set, not there, or without the Kafka connector.
    """
    jars = sorted(Path(jars_dir).glob("*.jar")) if jars_dir else []
    if not any(jar.name.startswith(CONNECTOR) for jar in jars):
        place = f"not in {jars_dir}" if jars_dir else "nowhere: [spark] jars_dir is not set"
        raise OperatorError(
            f"the jars that join Spark to Kafka and Delta are {place}",
            remedy="fetch them with: walbridge jars, and set [spark] jars_dir to the folder it prints",
        )
    return jars


def _submitted(spark: SparkSession) -> SparkSession:
    given = spark.sparkContext.getConf()
    missing = [name for name in _STATIC if _REQUIRED[name] not in (given.get(name) or "").split(",")]
    if missing:
        confs = " ".join(f"--conf {name}={_REQUIRED[name]}" for name in missing)
        raise OperatorError("this Spark session does not know Delta", remedy=f"spark-submit {confs} …")
    for name in _REQUIRED.keys() - set(_STATIC):
        spark.conf.set(name, _REQUIRED[name])
    return spark


def _log4j_file(folder: Path) -> Path:
    path = folder / "log4j2.properties"
    silent = "".join(f"logger.s{n}.name = {name}\nlogger.s{n}.level = off\n" for n, name in enumerate(_SILENT))
    path.write_text(_LOG4J + silent)
    return path
