"""The manifest ``<lake>/_cuts``: what was planned, what was applied, what is published.

In: plan, applied and published rows, one commit each. Out: the newest row, and published states
for readers. A row is atomic because it is one commit to one table; a published row names one
version per table, and versions never change: so a reader sees all tables at one LSN (I8).

plan → applied | published. A plan row is written before any table is touched, so whoever starts
next knows what may be half done. Appends expect an exact version of the table (put-if-absent):
of two jobs on one lake, the second to append stops.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from schemas.cut import Epoch
from schemas.errors import OperatorError
from schemas.position import parse_lsn
from spark_consumer.plan import TableHead

CUTS_TABLE = "_cuts"
FILE_BYTES = 4 * 2**20
"""Files of the manifest grow to this and are then left alone, so that compaction stays cheap."""
_LOOK_BACK = 4
"""Rows that are read first for the newest published one."""
_LOG_RETENTION = timedelta(days=1)
"""Nobody reads old versions of the manifest itself: its rows are its history."""
_ONCE = CommitProperties(max_commit_retries=0)
_TIME = pa.timestamp("us", tz="UTC")

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
    ]
)
_SCHEMA = pa.schema(
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


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table in a row. ``version`` is None in a plan row for a table that does not exist yet."""

    relation_id: int
    namespace: str
    name: str
    topic: str
    path: str
    version: int | None
    schema_id: str
    state: str
    since: int | None = None

    @property
    def qualified_name(self) -> str:
        """``schema.table``."""
        return f"{self.namespace}.{self.name}"

    @property
    def head(self) -> TableHead | None:
        """As plans take it; None where the table does not exist yet."""
        if self.version is None:
            return None
        return TableHead(self.relation_id, self.topic, self.path, self.version, self.schema_id, self.state, self.since)


@dataclass(frozen=True, slots=True)
class CutRow:
    """One row. ``kind``: plan, applied or published; ``next_offset``: where to read cuts on from."""

    sequence: int
    kind: str
    pipeline: str
    epoch: str
    from_cut: int
    to_cut: int
    next_offset: int
    end_lsn: int
    commit_time: datetime | None
    written_at: datetime
    tables: tuple[TableEntry, ...]


def parse_epoch(text: str) -> Epoch:
    """The inverse of ``str(epoch)``: no part but the slot is free text, and slots hold no dash."""
    system_id, timeline, slot, consistent_point = text.split("-")
    return Epoch(system_id, int(timeline), slot, parse_lsn(consistent_point))


class Manifest:
    """One job's handle on ``_cuts``. Not shared between threads."""

    def __init__(self, lake: str, pipeline: str, storage_options: dict[str, str]) -> None:
        """Open the manifest, or create it in an empty lake.

        Raises:
            OperatorError: the lake is another pipeline's, or another job creates it right now.
        """
        self._pipeline = pipeline
        self._table = open_table(lake, storage_options) or _create(lake, storage_options)
        self._rows_since_compaction = len(self._table.file_uris())
        newest = self.newest()
        self._sequence = newest.sequence if newest else None
        if newest is not None and newest.pipeline != pipeline:
            raise OperatorError(
                f"the lake at {lake} belongs to pipeline {newest.pipeline}, this one is {pipeline}",
                remedy="give this pipeline its own [lake] path, or set name to the lake's",
            )

    @property
    def version(self) -> int:
        """The Delta version that the next append expects to follow."""
        return self._table.version()

    @property
    def files_since_compaction(self) -> int:
        """Appended rows, each a small file, since the last compaction."""
        return self._rows_since_compaction

    def newest(self) -> CutRow | None:
        """The row with the highest sequence."""
        rows = newest_rows(self._table, 1)
        return rows[0] if rows else None

    def newest_published(self) -> CutRow | None:
        """What readers take now."""
        return newest_published(self._table)

    def oldest_written_at(self) -> datetime | None:
        """When the oldest row that is still there was written."""
        moments = pa.table(self._table.get_add_actions(flatten=True))["min.written_at"].to_pylist()
        return min(moments, default=None)

    def finished_before(self, row: CutRow) -> CutRow | None:
        """The row that a plan row started from."""
        found = _rows(self._table, [("sequence", "=", row.sequence - 1)])
        return found[0] if found else None

    def append(self, row: CutRow) -> None:
        """Append a row as exactly the next version.

        Raises:
            OperatorError: somebody else wrote to the manifest since it was loaded.
        """
        expected = self._table.version() + 1
        data = pa.Table.from_pylist([asdict(row)], schema=_SCHEMA)
        with self._fenced():
            write_deltalake(self._table, data, mode="append", commit_properties=_ONCE)
        if self._table.version() != expected:
            raise _second_job(self._table.table_uri)
        self._sequence = row.sequence
        self._rows_since_compaction += 1

    def compact(self) -> None:
        """Merge the small files of single rows."""
        with self._fenced():
            self._table.optimize.compact(target_size=FILE_BYTES, commit_properties=_ONCE)
        self._rows_since_compaction = 0
        self._expect_own_newest()

    def drop_before(self, moment: datetime) -> None:
        """Drop rows written before then, but never the newest published row, nor what follows it."""
        published = newest_published(self._table)
        if published is None:
            return
        written = f"written_at < '{moment.astimezone(UTC).isoformat()}'"
        with self._fenced():
            self._table.delete(f"sequence < {published.sequence} AND {written}", commit_properties=_ONCE)
        self._expect_own_newest()

    def vacuum(self) -> None:
        """Delete the files that compactions left behind: readers list the manifest anew each time."""
        hours = int(_LOG_RETENTION.total_seconds()) // 3600
        self._table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        self._table.update_incremental()  # a vacuum writes its own commits
        self._expect_own_newest()

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        expected = self._table.version() + 1
        try:
            yield
        except CommitFailedError as error:
            self._table.update_incremental()
            if self._table.version() < expected:
                raise
            raise _second_job(self._table.table_uri) from error

    def _expect_own_newest(self) -> None:
        newest = self.newest()
        if (newest.sequence if newest else None) != self._sequence:
            raise _second_job(self._table.table_uri)


def _second_job(uri: str) -> OperatorError:
    return OperatorError(
        f"a second Spark job writes to this lake: {uri} was changed by somebody else",
        remedy="stop the other job, then start this one again; it reads on from the manifest",
    )


def open_table(lake: str, storage_options: dict[str, str] | None = None) -> DeltaTable | None:
    """The manifest as a Delta table, None in a lake that has none.

    Raises:
        OperatorError: newer code wrote it.
    """
    uri = f"{lake.rstrip('/')}/{CUTS_TABLE}"
    try:
        table = DeltaTable(uri, storage_options=storage_options)
    except TableNotFoundError:
        return None
    found = pa.schema(table.schema().to_arrow())
    entries = {field.name for field in found.field("tables").type.value_type}
    if unknown := {*found.names} - {*_SCHEMA.names} | entries - {field.name for field in _ENTRY}:
        raise OperatorError(
            f"{uri} has columns that this version does not know: {', '.join(sorted(unknown))}",
            remedy="run the version of walbridge that wrote it, or a newer one",
        )
    return table


def _create(lake: str, storage_options: dict[str, str]) -> DeltaTable:
    days = _LOG_RETENTION.days
    configuration = {
        "delta.logRetentionDuration": f"interval {days} days",
        "delta.deletedFileRetentionDuration": f"interval {days} days",
        "delta.appendOnly": "false",
    }
    uri = f"{lake.rstrip('/')}/{CUTS_TABLE}"
    try:
        return DeltaTable.create(
            uri, _SCHEMA, mode="error", configuration=configuration, storage_options=storage_options
        )
    except DeltaError as error:
        if open_table(lake, storage_options) is None:
            raise
        raise _second_job(uri) from error


def newest_rows(table: DeltaTable, count: int) -> list[CutRow]:
    """Up to ``count`` rows with the highest sequences, newest first."""
    highest = pa.table(table.get_add_actions(flatten=True))["max.sequence"].to_pylist()
    if not highest:
        return []
    rows = _rows(table, [("sequence", ">", max(highest) - count)])
    return sorted(rows, key=lambda row: -row.sequence)


def newest_published(table: DeltaTable, lsn: int | None = None) -> CutRow | None:
    """The newest published row, or the newest with ``end_lsn <= lsn``."""
    if lsn is None:
        # Hardly ever far back: a plan that is open, copies not yet complete. Each row is a file.
        for row in newest_rows(table, _LOOK_BACK):
            if row.kind == "published":
                return row
    wanted: list[tuple[str, str, Any]] = [("kind", "=", "published")]
    if lsn is not None:
        wanted.append(("end_lsn", "<=", lsn))
    found = table.to_pyarrow_table(columns=["sequence"], filters=wanted)["sequence"].to_pylist()
    return _rows(table, [("sequence", "=", max(found))])[0] if found else None


def published_rows(table: DeltaTable) -> list[CutRow]:
    """All published rows, oldest first."""
    return sorted(_rows(table, [("kind", "=", "published")]), key=lambda row: row.sequence)


def _rows(table: DeltaTable, filters: Sequence[tuple[str, str, Any]]) -> list[CutRow]:
    return [_row(record) for record in table.to_pyarrow_table(filters=list(filters)).to_pylist()]


def _row(record: dict[str, Any]) -> CutRow:
    return CutRow(**(record | {"tables": tuple(_entries(record["tables"]))}))


def _entries(records: Iterable[dict[str, Any]]) -> Iterable[TableEntry]:
    for record in records:
        yield TableEntry(**record)
