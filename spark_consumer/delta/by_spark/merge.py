"""One MERGE by Spark's executors, which write deletion vectors instead of rewriting files.

In: a table at its head, rows where executors find them, the merge. Out: one commit with its metadata, at
the version after the head, or none if nothing changed.
"""

from pyspark.sql import SparkSession

from walbridge.spark_consumer.delta.by_spark.commit import committed_by_spark, spark_path
from walbridge.spark_consumer.delta.by_spark.source import Source
from walbridge.spark_consumer.delta.commit import SHAPE, Commit, Matches
from walbridge.spark_consumer.delta.dialect import SPARK
from walbridge.spark_consumer.delta.table import VECTORS, LakeTable, Merge

_SOURCE = "walbridge_changes"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_FROM_THE_JOB = (
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.shuffle.partitions",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.datetimeRebaseModeInRead",
)
"""Settings to copy from the job's session: a new one has those of the JVM's start, which spark-submit may have made."""
_SETTINGS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    # The source is the same each time it is read.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.merge.deletionVectors.persistent": "true",
}


def merge_by_spark(spark: SparkSession, table: LakeTable, merge: Merge, source: Source, commit: Commit) -> Matches:
    """Run a merge that is written in the ``SPARK`` dialect; returns its counts.

    Raises:
        ConcurrentCommit: another program committed to the table meanwhile.
    """
    session = _session(spark)
    # A commit of its own, ahead of the rows: without it Spark rewrites whole files, as delta-rs does.
    if not table.writes_vectors:
        shaped = Commit(commit.plan, commit.segment, SHAPE)
        _run(session, table, f"ALTER TABLE {_name(table)} SET TBLPROPERTIES ('{VECTORS}' = 'true')", shaped)
    source(session).createTempView(_SOURCE)
    try:
        counts = _run(session, table, merge_sql(_name(table), merge), commit)
    finally:
        session.catalog.dropTempView(_SOURCE)
    return Matches(counts["num_updated_rows"] + counts["num_deleted_rows"], counts["num_inserted_rows"])


def merge_sql(name: str, merge: Merge) -> str:
    """The MERGE statement."""
    lines = [f"MERGE INTO {name} AS target USING {_SOURCE} AS source ON {merge.condition}"]
    if merge.delete_when is not None:
        lines.append(f"WHEN MATCHED AND {merge.delete_when} THEN DELETE")
    if merge.update_when is not None:
        updates = ", ".join(f"target.{column} = {value}" for column, value in merge.updates.items())
        lines.append(f"WHEN MATCHED AND {merge.update_when} THEN UPDATE SET {updates}")
    if merge.insert_when is not None:
        columns, values = ", ".join(merge.inserts), ", ".join(merge.inserts.values())
        lines.append(f"WHEN NOT MATCHED AND {merge.insert_when} THEN INSERT ({columns}) VALUES ({values})")
    return "\n".join(lines)


def _session(spark: SparkSession) -> SparkSession:
    """A session for this merge: other threads commit with other metadata at the same time."""
    session = spark.newSession()
    for name in _FROM_THE_JOB:
        session.conf.set(name, spark.conf.get(name) or "")
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def _run(session: SparkSession, table: LakeTable, statement: str, commit: Commit) -> dict[str, int]:
    """Run one statement and its commit; returns the first row of its result."""
    session.conf.set(_USER_METADATA, commit.user_metadata())
    with committed_by_spark(table, commit):
        said = session.sql(statement).collect()
    return said[0].asDict() if said else {}


def _name(table: LakeTable) -> str:
    return f"delta.{SPARK.quoted(spark_path(table))}"
