"""Tries whether executors can write to the lake's folder, so that the driver sees their files.

In: a session and the lake's path. Out: whether the driver sees files that executors wrote there. Spark does not tell
that executors have a folder of this name on their own disks, or cannot write to it: otherwise a plan would fail, or a
commit would name files that are not there.
"""

import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.spark_consumer.errors import classified_error, java_cause
from walbridge.spark_consumer.jvm.executors import executor_cores, is_cluster

log = structlog.get_logger()

PROBE = "_executors_write"
LINES = 4
"""Each line is written by its own task, so that usually several executors write."""


def executors_write(spark: SparkSession, path: str) -> bool:
    """Whether executors and the driver share the lake's folder. False on an object store, which is not tried.

    Raises:
        RetryableError: there is no executor that could try it.
    """
    if "://" in path:
        return False
    if not is_cluster(spark):
        return True

    def write(folder: str) -> None:
        try:
            spark.range(0, LINES, 1, LINES).selectExpr("cast(id AS string) AS value").write.text(f"file://{folder}")
        except (PySparkException, Py4JJavaError) as error:
            if executor_cores(spark):
                raise
            # This shows nothing about the folder, and the job would keep the answer as long as it runs.
            raise RetryableError("Spark has no executor that could try whether it writes to the lake") from error

    if reason := reason_against(write, Path(path)):
        log.warning("executors do not write to the lake: the driver writes all rows", path=path, reason=reason)
        return False
    log.info("executors write to the lake what is large", path=path)
    return True


def reason_against(write: Callable[[str], None], lake: Path) -> str | None:
    """Why the driver does not see what ``write`` has written; None if it sees it.

    Args:
        write: has executors write the numbers below LINES, a line each, into files of a new folder.
    """
    folder = lake / f"{PROBE}-{uuid.uuid4().hex}"
    try:
        write(str(folder))
        found = sorted(line for part in folder.glob("part-*") for line in part.read_text().split())
    except (PySparkException, Py4JJavaError, OSError) as error:
        return _in_words(error)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    return None if found == [str(each) for each in range(LINES)] else "what they write is not in the driver's folder"


def _in_words(error: Exception) -> str:
    """The error in words, without Java's text, which may quote anything (I10)."""
    found = classified_error(error)
    if isinstance(found, OperatorError):
        return found.what
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return java_cause(error.java_exception, {}) if isinstance(error, Py4JJavaError) else type(error).__name__
