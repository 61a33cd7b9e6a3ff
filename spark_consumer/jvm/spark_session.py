"""The Spark session: our own for ``python -m walbridge.spark_consumer``, that of ``spark-submit`` under it.

In: settings. Out: a session that reads Kafka, decodes Avro and knows Delta, with time zone UTC
and case-sensitive column names. No Python runs on its executors. Properties reach the JVM in a file that only this
user can read, since every user of the machine sees a process's arguments (I10).
"""

import os
import shlex
import string
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from walbridge.runtime.heap import SPARK_SHARE
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import java_cause
from walbridge.spark_consumer.jvm.jvm_end import EXIT_ON_OUT_OF_MEMORY
from walbridge.spark_consumer.jvm.surroundings import refuse_surroundings
from walbridge.spark_consumer.jvm.unfinished_start import ending_jvm_with_a_stop

CONNECTOR = "spark-sql-kafka-0-10"
"""The jar by which a folder is known to hold the jars."""

_REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Postgres tells "Name" from "name", and so do its columns in a schema.
    "spark.sql.caseSensitive": "true",
    # Spark's default, INT96, is read as garbage outside 1677–2262 by delta-rs and others.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # As delta-rs writes them: by today's calendar, however old.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
_STATIC = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
"""Those of them that can only be set when a session starts."""
_PREFERRED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Folds are of one plan, bounded in rows: a shuffle of 200 partitions would cost more than the work.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    # So much of each file that an executor writes is buffered in the heap; 128 MiB by default.
    "spark.hadoop.parquet.block.size": str(32 * 2**20),
    # Copies that are written beside the plans have a pool of their own: plans get tasks meanwhile.
    "spark.scheduler.mode": "FAIR",
    # What is left is for large records: see walbridge/runtime/heap.py.
    "spark.memory.fraction": str(SPARK_SHARE),
    # By default a partition's last fetch stays in the heap for five minutes, unpacked and in its consumer.
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
    # A trigger costs 37 ms instead of 107 on a local disk (Spark 4.0).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.stopTimeout": "60s",
}
LATE_SECOND_COMPILER = " ".join(
    f"-XX:Tier4{of}={count}"
    for of, count in {
        "InvocationThreshold": 20_000,
        "MinInvocationThreshold": 2_400,
        "CompileThreshold": 60_000,
        "BackEdgeThreshold": 160_000,
    }.items()
)
"""Options that let HotSpot's second compiler (C2) begin at four times the default counts of calls. Code that runs for
each row reaches these within the first plan; by default C2 also compiles what only starts Spark and plans queries."""
_NO_ADDRESS = ("BindException", "UnknownHostException", "UnresolvedAddressException")
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_PLAIN = frozenset(string.ascii_letters + string.digits + "./-_,;@+*()[]{}$%&?<>|~^\"'")
_LOCAL_DISK_ONLY = "spark.sql.streaming.checkpointFileManagerClass"

# Every failure reaches the job as an exception, which the job logs once. These loggers would log it
# again, with pages of stack. If the gateway's level is not given, it becomes that of all others.
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
    "org.apache.spark.SparkContext",
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
        OperatorError: the connectors' jars are missing, spark-submit's session lacks Delta, or Spark refuses to start
            with these settings, or in these surroundings.
    """
    if is_submitted(os.environ):
        return _submitted(SparkSession.builder.getOrCreate())
    refuse_surroundings(os.environ)
    # The JVM reads its properties and log settings once, at its start.
    with tempfile.TemporaryDirectory(prefix="walbridge-") as folder:
        conf = session_conf(settings, _log4j_file(Path(folder)))
        properties = Path(folder) / "spark.properties"
        properties.touch(mode=0o600)
        properties.write_text(properties_text(conf))
        arguments = f"--load-spark-defaults --properties-file {shlex.quote(str(properties))}"
        with _submit_arguments(arguments), ending_jvm_with_a_stop():
            return _started(conf)


def _started(conf: Mapping[str, str]) -> SparkSession:
    try:
        return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise OperatorError(
            "the Spark driver's JVM does not start; what it said is above",
            remedy="look at JAVA_HOME, JAVA_TOOL_OPTIONS, SPARK_LOCAL_IP, [spark] driver_memory and [spark.conf], and "
            "at what this user may have of open files (ulimit -n, 1024 at least) and memory (ulimit -v); walbridge "
            "check names the Java found",
        ) from error
    except Py4JNetworkError as error:
        raise OperatorError(
            "the Spark driver's JVM ended while it started; what it said is above",
            remedy="if it was not stopped on purpose, the kernel's log (dmesg) tells whether memory was short: then "
            "give the machine or container more, or lower [spark] driver_memory",
        ) from error
    except Py4JJavaError as error:
        if java_cause(error.java_exception, {}) in _NO_ADDRESS:
            raise OperatorError(
                "Spark does not start: the driver may not listen at its address, which is that of this machine's name "
                "unless something else is set",
                remedy="set SPARK_LOCAL_IP to an address of this machine (127.0.0.1, where the master is local), and "
                "look at spark.driver.host and spark.driver.bindAddress in [spark.conf]",
            ) from error
        master = conf.get("spark.master", "local")
        of_a_cluster = "" if master.startswith("local") else f"see that a Spark master answers at {master}; else "
        raise OperatorError(
            f"Spark does not start: {java_cause(error.java_exception, conf)}",
            remedy=f"{of_a_cluster}mend [spark] or [spark.conf] in walbridge.toml",
        ) from error


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether spark-submit started us: then its JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in environ


@contextmanager
def _submit_arguments(ours: str) -> Iterator[None]:
    """A block in which pyspark passes these arguments on to spark-submit. A builder's settings would become arguments,
    which other users can see."""
    given = os.environ.get(_SUBMIT_ARGS)
    os.environ[_SUBMIT_ARGS] = f"{ours} {given or 'pyspark-shell'}"
    try:
        yield
    finally:
        del os.environ[_SUBMIT_ARGS]
        if given is not None:
            os.environ[_SUBMIT_ARGS] = given


def properties_text(conf: Mapping[str, str]) -> str:
    """The settings as a Java properties file."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    # Letters, digits and a few signs stand for themselves; any other UTF-16 unit may be written so.
    return "".join(chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}" for code in codes)


def session_conf(settings: Settings, log4j: Path) -> dict[str, str]:
    """The session's settings; ``[spark.conf]`` overrides those that are merely preferred.

    Raises:
        OperatorError: the connectors' jars are missing.
    """
    preferred = dict(_PREFERRED)
    if "://" in settings.lake.path:
        del preferred[_LOCAL_DISK_ONLY]
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {EXIT_ON_OUT_OF_MEMORY} {LATE_SECOND_COMPILER}"
    given = dict(settings.spark.conf)
    options = f"{options} {given.pop('spark.driver.extraJavaOptions', '')}".strip()
    return {
        "spark.app.name": f"walbridge {settings.name}",
        "spark.master": settings.spark.master,
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
