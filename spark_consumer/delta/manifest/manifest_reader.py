"""Reading the manifest ``<lake>/_cuts``.

In: the lake's path. Out: the newest row, and published states for readers. Writing is ``writer.py``.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from walbridge.schemas.errors import NEWER_WALBRIDGE, OperatorError
from walbridge.spark_consumer.delta.opening import table_if_any
from walbridge.spark_consumer.plan.copy_from import CopyFrom, CopyRange, CopyShape
from walbridge.spark_consumer.plan.kept_cuts import WrittenRow
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

CUTS_TABLE = "_cuts"
_LOOK_BACK = 4
"""How many of the newest rows are searched first for the newest published one."""
_TIME = pa.timestamp("us", tz="UTC")
_EPOCH = datetime.fromtimestamp(0, UTC)

_COPY_FROM = pa.struct(
    [
        (
            "shapes",
            pa.list_(pa.struct([("commit_lsn", pa.int64()), ("ordinal", pa.int64()), ("schema_id", pa.string())])),
        ),
        (
            "partitions",
            pa.list_(
                pa.struct(
                    [
                        ("partition", pa.int64()),
                        ("start_offset", pa.int64()),
                        ("end_offset", pa.int64()),
                        ("records", pa.int64()),
                    ]
                )
            ),
        ),
    ]
)
_ENTRY = pa.struct(
    [
        ("relation_id", pa.int64()),
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("topic", pa.string()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("schema_id", pa.string()),
        ("state", pa.string()),
        ("since", pa.int64()),
        ("copy_from", _COPY_FROM),
        ("why", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("kind", pa.string()),
        ("pipeline", pa.string()),
        ("epoch", pa.string()),
        ("from_cut", pa.int64()),
        ("to_cut", pa.int64()),
        ("next_offset", pa.int64()),
        ("end_lsn", pa.int64()),
        ("commit_time", _TIME),
        ("written_at", _TIME),
        ("tables", pa.list_(_ENTRY)),
    ]
)


def open_table(lake: str, storage_options: dict[str, str] | None = None) -> DeltaTable | None:
    """The manifest as a Delta table, None in a lake that certainly has none.

    Raises:
        OperatorError: newer code wrote it, or whether there is one cannot be seen.
    """
    uri = f"{lake.rstrip('/')}/{CUTS_TABLE}"
    table = table_if_any(uri, storage_options)
    if table is None:
        return None
    found = pa.schema(table.schema().to_arrow())
    entries = {field.name for field in found.field("tables").type.value_type}
    if unknown := {*found.names} - {*SCHEMA.names} | entries - {field.name for field in _ENTRY}:
        raise OperatorError(
            f"{uri} has columns that this version does not know: {', '.join(sorted(unknown))}",
            remedy=NEWER_WALBRIDGE,
        )
    return table


def newest_rows(table: DeltaTable, count: int) -> list[CutRow]:
    """Up to ``count`` rows with the highest sequences, newest first."""
    highest = pa.table(table.get_add_actions(flatten=True))["max.sequence"].to_pylist()
    return rows_where(table, f"sequence > {max(highest) - count} ORDER BY sequence DESC") if highest else []


def newest_published(table: DeltaTable, at: int | datetime | None = None) -> CutRow | None:
    """The newest published row, or the newest that ends at or before an LSN or a time."""
    if at is None:
        # It is nearly always among the newest: only an open plan or an unfinished copy come after it.
        for row in newest_rows(table, _LOOK_BACK):
            if row.kind == "published":
                return row
    found = rows_where(table, f"kind = 'published' AND {_ends_by(at)} ORDER BY sequence DESC LIMIT 1")
    return found[0] if found else None


def _ends_by(at: int | datetime | None) -> str:
    if isinstance(at, datetime):
        # As a number: a literal of DataFusion's would be read in the zone of its session.
        microseconds = (at - _EPOCH) // timedelta(microseconds=1)
        return f"arrow_cast(coalesce(commit_time, written_at), 'Int64') <= {microseconds}"
    return "true" if at is None else f"end_lsn <= {at}"


def published_rows(table: DeltaTable) -> list[CutRow]:
    """All published rows, oldest first."""
    return rows_where(table, "kind = 'published' ORDER BY sequence")


def written_rows(table: DeltaTable) -> list[WrittenRow]:
    """All rows in the order of their sequences, as much of each as tells whether it is kept."""
    found = _found(table, "SELECT sequence, kind, written_at FROM cuts ORDER BY sequence")
    return [WrittenRow(**record) for record in found.to_pylist()]


def named_versions(table: DeltaTable, path: str) -> set[int]:
    """Every version of the table at that path that any row names."""
    rows = pc.list_flatten(_found(table, "SELECT tables FROM cuts")["tables"])
    paths = pc.cast(pc.struct_field(rows, "path"), pa.string())
    mine = pc.filter(pc.struct_field(rows, "version"), pc.equal(paths, path))
    return {version for version in pc.unique(mine).to_pylist() if version is not None}


def named_paths(table: DeltaTable) -> set[str]:
    """The path of every table of which any row names a version."""
    rows = pc.list_flatten(_found(table, "SELECT tables FROM cuts")["tables"])
    paths = pc.cast(pc.struct_field(rows, "path"), pa.string())
    return set(pc.unique(pc.filter(paths, pc.is_valid(pc.struct_field(rows, "version")))).to_pylist())


def rows_where(table: DeltaTable, condition: str) -> list[CutRow]:
    """Rows of a condition in SQL.

    Raises:
        OSError: a file cannot be read.
    """
    return [_row(record) for record in _found(table, f"SELECT * FROM cuts WHERE {condition}").to_pylist()]


def _found(table: DeltaTable, sql: str) -> pa.Table:
    """What a SELECT finds.

    Not through Arrow's own scanner: a thread of its pool that still lives when Python ends may
    abort a program that has given its answer (apache/arrow#34314).
    """
    try:
        return pa.RecordBatchReader.from_stream(QueryBuilder().register("cuts", table).execute(sql)).read_all()
    except pa.ArrowException as error:  # what a stream of Arrow's makes of any failure
        raise OSError(str(error)) from error


def _row(record: dict[str, Any]) -> CutRow:
    return CutRow(**(record | {"tables": tuple(map(_entry, record["tables"]))}))


def _entry(entry: dict[str, Any]) -> TableEntry:
    # Rows of earlier versions have neither of the newest columns.
    entry = {"copy_from": None, "why": None} | entry
    found = entry["copy_from"]
    if found is None:
        return TableEntry(**entry)
    shapes = tuple(CopyShape(**shape) for shape in found["shapes"])
    partitions = tuple(CopyRange(**part) for part in found["partitions"])
    return TableEntry(**(entry | {"copy_from": CopyFrom(entry["topic"], shapes, partitions)}))
