"""For readers: all tables of a lake at one published cut.

In: a lake and, if wanted, an LSN. Out: DataFrames of one LSN: what the source's tables held when
exactly the transactions up to there had committed (I8). Needs Delta, not Kafka.
"""

from collections.abc import Collection, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from walbridge.schemas.errors import OperatorError, ProtocolError, copy_command
from walbridge.schemas.position import format_lsn, parse_lsn
from walbridge.spark_consumer.delta.manifest_reader import newest_published, open_table, published_rows
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name
from walbridge.spark_consumer.plan.segments import LEFT

CURRENT = "current"


def tables_at(
    spark: SparkSession,
    lake: str,
    lsn: int | str | None = None,
    *,
    tables: Collection[str] | None = None,
    states: Collection[str] = (CURRENT,),
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """The tables at one published cut, by ``schema.table``.

    Args:
        spark: a session that knows Delta.
        lake: [lake] path.
        lsn: the newest cut that ends at or before it (a number or ``16/B374D848``); None: the newest.
        tables: only these; None: all but those whose first copy goes on.
        states: what is accepted; a table that is stale does not equal the source.
        storage_options: as in [lake], to read the manifest.

    Raises:
        OperatorError: nothing published (by then), no such table, or a table in another state.
    """
    row = published_at(lake, lsn, storage_options=storage_options)
    entries = by_name(row.tables)
    readable = [name for name, entry in entries.items() if entry.version is not None]
    left = [name for name, entry in entries.items() if entry.version is None and entry.state in LEFT]
    wanted = sorted([*readable, *left] if tables is None else tables)
    for name in wanted:
        if name not in entries:
            raise OperatorError(
                f"the lake has no table {name} at {format_lsn(row.end_lsn)}",
                remedy=f"it has: {', '.join(sorted(readable)) or 'none'}",
            )
        if name in left or (entries[name].state not in states and entries[name].why is not None):
            raise _in_trouble(entries[name], row.end_lsn)
        if name not in readable:
            raise OperatorError(
                f"table {name} is being copied at {format_lsn(row.end_lsn)}: the lake has no state of it yet",
                remedy="leave it out with tables=..., or wait for its copy: walbridge status",
            )
        if entries[name].state not in states:
            raise OperatorError(
                f"table {name} is {entries[name].state} at {format_lsn(row.end_lsn)}: it does not equal the source",
                remedy=f"leave it out with tables=..., or accept it with states=('{CURRENT}', '{entries[name].state}')",
            )
    read = partial(_read, spark, lake.rstrip("/"))
    return {name: read(entries[name].path, entries[name].version) for name in wanted}


def _in_trouble(entry: TableEntry, end_lsn: int) -> OperatorError:
    since = "" if entry.since is None else f" since {format_lsn(entry.since)}"
    accepted = "" if entry.version is None else f", or accept it with states=('{CURRENT}', '{entry.state}')"
    return OperatorError(
        f"table {entry.qualified_name} is {entry.state}{since}, also at {format_lsn(end_lsn)}: {entry.why}",
        remedy=f"copy it again: {copy_command(entry.qualified_name)}; or leave it out with tables=...{accepted}",
    )


def published_at(
    lake: str, lsn: int | str | None = None, *, storage_options: Mapping[str, str] | None = None
) -> CutRow:
    """The newest published row, or the newest that ends at or before ``lsn``.

    Raises:
        OperatorError: there is none.
    """
    table = open_table(lake, dict(storage_options or {}))
    try:
        limit = parse_lsn(format_lsn(lsn) if isinstance(lsn, int) else lsn) if lsn is not None else None
    except (ProtocolError, ValueError):
        raise OperatorError(f"{lsn!r} is no LSN", remedy='write it as "16/B374D848"') from None
    row = newest_published(table, limit) if table is not None else None
    if row is not None:
        return row
    if table is None or limit is None:
        raise OperatorError(
            f"nothing is published in {lake} yet",
            remedy="check the path; else let the Spark job finish the first copy: walbridge status",
        )
    raise OperatorError(
        f"nothing is published in {lake} at or before {format_lsn(limit)}",
        remedy="ask for a later LSN; see walbridge.spark_consumer.read.published, and [lake] cut_retention_hours",
    )


def published(lake: str, *, storage_options: Mapping[str, str] | None = None) -> list[CutRow]:
    """Every published cut that is kept, oldest first; empty for a lake without one."""
    table = open_table(lake, dict(storage_options or {}))
    return published_rows(table) if table is not None else []


def _read(spark: SparkSession, lake: str, path: str, version: int | None) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", str(version)).load(f"{lake}/{path}")
