"""Commits that Spark makes to our tables: checked afterwards for their version and their files.

In: a table at its head, a block that runs Spark, the commit's metadata. Out: the table at the version after its head.
Spark commits after whatever version it finds, and names the files that its executors say they wrote. Only afterwards
the version shows whether that was the head, and the driver's folder whether the files are there. If not, the caller
puts the table back to its base (I5).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.shared_files import delete_dangling_checkpoint_hint, driver_has_all, lost_since
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, NotShared, is_lost_file
from walbridge.spark_consumer.delta.table_features import unmet

FILE_ROWS_MAX = 1_000_000
"""Rows of a file at most. The smaller files are, the less a merge rewrites."""
_UNMET = re.compile(r"DELTA_VIOLATE_CONSTRAINT")
_NOT_FOUND = re.compile(r"FILE_NOT_EXIST|FileNotFoundException")


@contextmanager
def committed_by_spark(table: LakeTable, commit: Commit) -> Iterator[None]:
    """A block that makes this commit by Spark, or has nothing to commit.

    Raises:
        ConcurrentCommit: another program committed to the table meanwhile.
        NotShared: executors do not share the table's folder with the driver.
        TableError: a row does not meet a constraint that another program set.
    """
    head = table.version
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if "io.delta.exceptions.Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise ConcurrentCommit(f"another program committed to {table.uri} at the same time") from None
        if _UNMET.search(str(error)) and table.constraints:
            raise unmet(table.uri, table.constraints) from None
        if _NOT_FOUND.search(str(error)) and is_lost_file(error) and driver_has_all(table.files):
            raise NotShared(table.uri) from None  # an executor looks in vain for what the driver has
        raise
    delete_dangling_checkpoint_hint(table.uri)
    table.advance_over(commit)
    if lost_since(table.uri, head):
        raise NotShared(table.uri)


def append_by_spark(table: LakeTable, rows: DataFrame, commit: Commit) -> None:
    """Append rows with the table's columns. Executors write them; no row crosses the driver.

    Raises:
        ConcurrentCommit, NotShared: as of ``committed_by_spark``.
    """
    with committed_by_spark(table, commit):
        said = {"userMetadata": commit.user_metadata(), "maxRecordsPerFile": str(FILE_ROWS_MAX)}
        rows.write.format("delta").mode("append").options(**said).save(spark_path(table))


def spark_path(table: LakeTable) -> str:
    """The table's path for Spark."""
    return path_for_spark(table.uri)


def path_for_spark(uri: str) -> str:
    """The path for Spark of a table with this URI."""
    return uri if "://" in uri else str(Path(uri).absolute())
