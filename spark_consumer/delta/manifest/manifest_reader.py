"""Reading the manifest ``<lake>/_cuts``.

In: the lake's path. Out: the newest row, and published states for readers. Writing is ``writer.py``.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.fs import DeltaStorageHandler

from walbridge.schemas.errors import NEWER_WALBRIDGE, OperatorError
from walbridge.schemas.setting_checks.lake_path import refuse_misread
from walbridge.spark_consumer.delta.manifest.damaged import LostRows, damaged_manifest
from walbridge.spark_consumer.delta.manifest.foreign_commits import (
    ForeignCommit,
    came_without_rows,
    foreign_commit_error,
    refuse_foreign_values,
    refuse_other_columns,
)
from walbridge.spark_consumer.delta.manifest.manifest_schema import ENTRY, SCHEMA
from walbridge.spark_consumer.delta.opening import table_if_any
from walbridge.spark_consumer.delta.table_faults import DamagedTable, is_lost_file
from walbridge.spark_consumer.plan.kept_cuts import WrittenRow
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy

CUTS_TABLE = "_cuts"
PUBLISHED = "published"
_IS_PUBLISHED = f"kind = '{PUBLISHED}'"
_OF_A_HEAD = re.compile(r"tables\.[^.]+\.[^.]+\.(path|version)")
"""Parquet columns of an entry's path and version."""
_LOOK_BACK = 4
"""How many of the newest rows are searched first for the newest published one."""
_EPOCH = datetime.fromtimestamp(0, UTC)


def open_table(lake: str, storage_options: dict[str, str] | None = None) -> DeltaTable | None:
    """The manifest as a Delta table, None in a lake that certainly has none.

    Raises:
        OperatorError: newer code wrote it, its log is damaged, whether there is one cannot be seen, or delta-rs would
            look elsewhere.
    """
    refuse_misread(lake)
    uri = f"{lake.rstrip('/')}/{CUTS_TABLE}"
    try:
        table = table_if_any(uri, storage_options)
    except DamagedTable as error:
        raise damaged_manifest(uri, error.how, storage_options) from error
    if table is None:
        return None
    found = _schema(table)
    with _telling_foreign_commits(table):
        refuse_other_columns(found, SCHEMA)
        # A version of walbridge that has more to say writes its columns with the first row that has them.
        if (unknown := _unknown_columns(found)) and came_without_rows(table, _refuse_unknown_columns):
            _refuse_unknown_columns(table)
    if unknown:
        raise OperatorError(
            f"{uri} has columns that this version does not know: {', '.join(sorted(unknown))}",
            remedy=NEWER_WALBRIDGE,
        )
    return table


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _unknown_columns(found: pa.Schema) -> set[str]:
    entries = {field.name for field in found.field("tables").type.value_type}
    return {*found.names} - {*SCHEMA.names} | entries - {field.name for field in ENTRY}


@contextmanager
def _telling_foreign_commits(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except ForeignCommit as commit:
        raise foreign_commit_error(table, commit, _refuse_foreign_commits) from commit


def _refuse_unknown_columns(table: DeltaTable) -> None:
    if unknown := _unknown_columns(_schema(table)):
        raise ForeignCommit(f"columns without a row: {', '.join(sorted(unknown))}")


def _refuse_foreign_commits(table: DeltaTable) -> None:
    refuse_other_columns(_schema(table), SCHEMA)
    _refuse_unknown_columns(table)
    _newest_rows(table, _LOOK_BACK)


def newest_rows(table: DeltaTable, count: int) -> list[CutRow]:
    """Up to ``count`` rows with the highest sequences, newest first.

    Raises:
        OperatorError: another program wrote rows; files are lost.
        OSError: a file cannot be read.
    """
    with _telling_foreign_commits(table):
        return _newest_rows(table, count)


def _newest_rows(table: DeltaTable, count: int) -> list[CutRow]:
    known = statistics(table, "max.sequence", "null_count.sequence")
    if not known:
        return []
    highest = max((each for each, _ in known if each is not None), default=None)
    if any(each is None or missing for each, missing in known):
        found = _queried(table, "SELECT max(sequence), count(*) - count(sequence) FROM cuts")
        highest, missing = (column[0].as_py() for column in found.columns)
        if missing:
            raise ForeignCommit("rows without sequence")
    return [] if highest is None else _rows_where(table, f"sequence > {highest - count} ORDER BY sequence DESC")


def statistics(table: DeltaTable, *names: str) -> list[tuple[Any, ...]]:
    """By file. What is not known is None: another program may have set ``delta.dataSkippingNumIndexedCols`` to less."""
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [tuple(file.get(name) for name in names) for file in files]


def newest_published(table: DeltaTable, at: int | datetime | None = None) -> CutRow | None:
    """The newest published row, or the newest that ends at or before an LSN or a time."""
    if at is None:
        # It is nearly always among the newest: only an open plan or an unfinished copy come after it.
        for row in newest_rows(table, _LOOK_BACK):
            if row.kind == PUBLISHED:
                return row
        sequence = _newest_published(table)
    else:
        sequence = _highest(table, f"{_IS_PUBLISHED} AND {_ends_by(at)}")
    return None if sequence is None else next(iter(rows_where(table, f"sequence = {sequence}")), None)


def _newest_published(table: DeltaTable) -> int | None:
    """The newest published row's sequence. File statistics tell which files hold none, so those are not read."""
    files = statistics(table, "max.sequence", "min.sequence", "max.kind")
    if any(None in file for file in files):
        return _highest(table, _IS_PUBLISHED)
    for _, first, kind in sorted(files, reverse=True):
        # The last of the kinds in the alphabet. Rows behind this file were looked for with those before it.
        if kind == PUBLISHED and (found := _highest(table, f"{_IS_PUBLISHED} AND sequence >= {first}")) is not None:
            return found
    return None


def _highest(table: DeltaTable, condition: str) -> int | None:
    """The highest sequence of the rows that fulfil a condition, without reading their tables."""
    found = _queried(table, f"SELECT max(sequence) AS highest FROM cuts WHERE {condition}")
    highest: int | None = found["highest"][0].as_py()
    return highest


def _ends_by(at: int | datetime) -> str:
    if isinstance(at, datetime):
        # As a number: a literal of DataFusion's would be read in the zone of its session.
        microseconds = (at - _EPOCH) // timedelta(microseconds=1)
        return f"arrow_cast(coalesce(commit_time, written_at), 'Int64') <= {microseconds}"
    return f"end_lsn <= {at}"


def published_rows(table: DeltaTable) -> list[CutRow]:
    """All published rows, oldest first."""
    return rows_where(table, f"{_IS_PUBLISHED} ORDER BY sequence")


def written_rows(table: DeltaTable) -> list[WrittenRow]:
    """All rows in the order of their sequences, with the columns that decide whether they are kept."""
    found = _queried(table, "SELECT sequence, kind, written_at FROM cuts ORDER BY sequence")
    return [*map(WrittenRow, *(found[name].to_pylist() for name in WrittenRow._fields))]


def named_versions(
    table: DeltaTable, path: str, storage_options: dict[str, str] | None = None, known: Collection[str] = ()
) -> set[int]:
    """Every version of the table at that path that any row names. ``known``: files that are not read.

    Raises:
        OSError: a file cannot be read.
    """
    found: set[int] = set()
    for heads in _heads(table, storage_options, known):
        versions = heads.filter(pc.equal(heads["path"], path))["version"]
        found |= {*pc.unique(versions).to_pylist()}
    return found


def named_paths(
    table: DeltaTable, storage_options: dict[str, str] | None = None, known: Collection[str] = ()
) -> set[str]:
    """The path of every table of which any row names a version. ``known``: files that are not read.

    Raises:
        OSError: a file cannot be read.
    """
    return {path for heads in _heads(table, storage_options, known) for path in pc.unique(heads["path"]).to_pylist()}


def _heads(table: DeltaTable, storage_options: dict[str, str] | None, known: Collection[str]) -> Iterator[pa.Table]:
    """Path and version of each entry with a version, by batches of rows.

    A SELECT would read all columns of the list of tables, in every row. Here two columns are read, and in this thread
    (see ``_queried``).
    """
    files = DeltaStorageHandler(table.table_uri, storage_options or None)
    try:
        for file in pa.table(table.get_add_actions(flatten=True))["path"].to_pylist():
            if file not in known:
                with files.open_input_file(file) as opened:
                    yield from _heads_in(pq.ParquetFile(opened))
    except (pa.ArrowException, FileNotFoundError) as error:
        raise LostRows(table) from error


def _heads_in(file: pq.ParquetFile) -> Iterator[pa.Table]:
    paths = [file.schema.column(at).path for at in range(len(file.schema))]
    for batch in file.iter_batches(columns=[path for path in paths if _OF_A_HEAD.fullmatch(path)], use_threads=False):
        entries = pc.list_flatten(batch.column("tables"))
        # Arrow has no kernels for the string views that delta-rs declares in files that it compacted.
        paths_of = pc.cast(pc.struct_field(entries, "path"), pa.string())
        versions = pc.struct_field(entries, "version")
        yield pa.table({"path": paths_of, "version": versions}).drop_null()


def rows_where(table: DeltaTable, condition: str) -> list[CutRow]:
    """The rows that fulfil a condition in SQL. Raises as ``newest_rows``."""
    with _telling_foreign_commits(table):
        return _rows_where(table, condition)


def _rows_where(table: DeltaTable, condition: str) -> list[CutRow]:
    return [_row(record) for record in _queried(table, f"SELECT * FROM cuts WHERE {condition}").to_pylist()]


def _queried(table: DeltaTable, sql: str) -> pa.Table:
    """The result of a SELECT.

    Not through Arrow's own scanner: a thread of its pool that still lives when Python ends may
    abort a program that has given its answer (apache/arrow#34314).
    """
    try:
        return pa.RecordBatchReader.from_stream(QueryBuilder().register("cuts", table).execute(sql)).read_all()
    except (pa.ArrowException, OSError) as error:  # what a stream of Arrow's makes of any failure
        raise LostRows(table) if is_lost_file(error) else OSError(str(error)) from error


def _row(record: dict[str, Any]) -> CutRow:
    refuse_foreign_values(record)
    return CutRow(**(record | {"tables": tuple(map(_entry, record["tables"]))}))


def _entry(entry: dict[str, Any] | None) -> TableEntry:
    if entry is None:
        raise ForeignCommit("rows with an entry that is null")
    refuse_foreign_values(entry)
    # Rows of earlier versions have none of the newest columns.
    entry = {"copy_from": None, "why": None, "shapes_at_end": None} | entry
    found, shapes_at_end = entry["copy_from"], entry.pop("shapes_at_end")
    if found is None:
        return TableEntry(**entry)
    shapes = tuple(CopyShape(**shape) for shape in found["shapes"])
    partitions = tuple(CopyRange(**part) for part in found["partitions"])
    return TableEntry(**(entry | {"copy_from": PendingCopy(entry["topic"], shapes, partitions, shapes_at_end)}))


def record_of(row: CutRow) -> dict[str, Any]:
    """A row as a record of ``SCHEMA``. ``shapes_at_end`` is a column of its own, so that older code, which would wait
    for the end of such a copy, refuses the manifest."""
    record = asdict(row)
    for of, entry in zip(record["tables"], row.tables, strict=True):
        of["shapes_at_end"] = None if entry.copy_from is None else entry.copy_from.shapes_at_end
    return record
