"""For readers with Spark: all tables of a lake at one published cut.

In: a lake and, if wanted, an LSN or a time. Out: DataFrames of one LSN: what the source's tables held when
exactly the transactions up to there had committed (I8). Needs Delta, not Kafka. Without Spark: ``walbridge.lake``.
"""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession

from walbridge.schemas.control.table_progress import CURRENT
from walbridge.spark_consumer.delta.empty_commits import refuse_to_readers
from walbridge.spark_consumer.delta.manifest.published import At, published, published_at
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.readable_tables import readable_tables

__all__ = ["CURRENT", "published", "published_at", "tables_at"]


def tables_at(
    spark: SparkSession,
    lake: str,
    at: At = None,
    *,
    lsn: int | str | None = None,
    tables: Collection[str] | None = None,
    states: Collection[str] = (CURRENT,),
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """The tables at one published cut, by ``schema.table``.

    Args:
        spark: a session that knows Delta.
        lake: [lake] path.
        at: the newest cut that ends at or before an LSN (a number or ``16/B374D848``) or a time with its zone (a
            datetime or ISO 8601); None: the newest.
        lsn: what ``at`` was called before.
        tables: only these; None: all but those whose first copy goes on.
        states: what is accepted; a table that is stale does not equal the source.
        storage_options: as in [lake], to read the manifest.

    Raises:
        OperatorError: nothing published (by then), no such table, or a table in another state.
        TypeError: ``at`` and ``lsn`` are both given.
    """
    if at is not None and lsn is not None:
        raise TypeError("tables_at() was given both at and lsn, which mean the same")
    row = published_at(lake, lsn if at is None else at, storage_options=storage_options)
    return {
        name: _read(spark, lake.rstrip("/"), entry, storage_options)
        for name, entry in readable_tables(row, tables, states).items()
    }


def _read(spark: SparkSession, lake: str, entry: TableEntry, storage_options: Mapping[str, str] | None) -> DataFrame:
    refuse_to_readers(lake, entry)
    return spark.read.format("delta").option("versionAsOf", str(entry.version)).load(f"{lake}/{entry.path}")
