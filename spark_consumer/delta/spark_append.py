"""Rows appended by Spark's executors: none of them crosses the driver.

In: a table at its head, a frame in its columns and types. Out: one commit with what it says of itself, at the version
after the head. As in ``spark_merge`` the version tells afterwards whether that was the head (I5).
"""

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from walbridge.spark_consumer.delta.table import Commit, ConcurrentCommit, LakeTable


def append_by_spark(table: LakeTable, rows: DataFrame, commit: Commit) -> None:
    """Add the frame's rows.

    Raises:
        ConcurrentCommit: another program committed to the table meanwhile.
    """
    writer = rows.write.format("delta").mode("append").option("userMetadata", commit.user_metadata())
    try:
        writer.save(table.uri)
    except PySparkException as error:
        if "io.delta.exceptions.Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise ConcurrentCommit(f"another program committed to {table.uri} at the same time") from None
        raise
    table.follow(commit)
