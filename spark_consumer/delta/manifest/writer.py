"""Writing the manifest ``<lake>/_cuts``: what was planned, what was applied, what is published.

In: plan, applied and published rows (``plan/manifest_row.py``), one commit each. Out: the manifest with
them, compacted and thinned, and the newest published row as a file of JSON beside it.

plan → applied | published. A plan row is written before any table is touched, so whoever starts
next knows what may be half done. Appends expect an exact version of the table (put-if-absent):
of two jobs on one lake, the second to append stops.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from walbridge.schemas.errors import OperatorError, Superseded, foreign_lake
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.manifest.damaged import refuse_unwritable_manifest
from walbridge.spark_consumer.delta.manifest.manifest_reader import (
    CUTS_TABLE,
    named_paths,
    named_versions,
    newest_published,
    newest_rows,
    open_table,
    record_of,
    rows_where,
    statistics,
    written_rows,
)
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA
from walbridge.spark_consumer.delta.manifest.newest_cut import NewestCutFile
from walbridge.spark_consumer.delta.table_features import constraints
from walbridge.spark_consumer.plan.kept_cuts import Retention, dropped
from walbridge.spark_consumer.plan.manifest_row import CutRow

FILE_BYTES = 4 * 2**20
"""The manifest's files are compacted up to this size."""
FILE_ROWS = 4_000
"""Files of so many rows are compacted only where there are too many files: else all rows that are kept would be written
anew with every few that come, and plans wait for that."""
FILES_MAX = 18
"""If there are more when rows are compacted, so are all: 20 then, with the 13 rows at most that come until the next
time."""
_LOG_RETENTION = timedelta(minutes=75)
"""Versions of the manifest are read as of an hour ago (``named_versions``) and no older: its rows are its history. Each
append lists the log, and two rows of a plan are two commits."""
_FILES_HOURS = 2
"""How long files stay that those versions hold."""
_SLEW = timedelta(minutes=1)
"""A clock that is set back by less has little effect on ages of hours."""
_PROPERTIES = {
    "delta.logRetentionDuration": f"interval {_LOG_RETENTION // timedelta(minutes=1)} minutes",
    "delta.deletedFileRetentionDuration": f"interval {_FILES_HOURS} hours",
    "delta.appendOnly": "false",
}
RANGES_MAX = 200
"""Ranges of rows that one call drops at most; after days without thinning several calls are needed."""
_WITHOUT_RETRY = CommitProperties(max_commit_retries=0)
_LEAVING_LOG = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""To see what has expired, delta-rs asks for the time of each file in the log: longer than a row takes. Each compaction
does so."""


class Manifest:
    """One job's handle on ``_cuts``. Not shared between threads."""

    def __init__(self, lake: str, pipeline: str, storage_options: dict[str, str], formerly: str | None = None) -> None:
        """Open the manifest, or create it in an empty lake.

        Args:
            formerly: the pipeline's name before.

        Raises:
            OperatorError: the lake is another pipeline's, another job creates it right now, or another program set on
                it what cannot be written.
        """
        self._pipeline, self._storage_options = pipeline, storage_options
        self._newest_cut = NewestCutFile(lake, storage_options)
        self._table = open_table(lake, storage_options) or self._create(lake)
        self._rows_since_compaction = len(self._table.file_uris())
        newest = self.newest()
        self._sequence = newest.sequence if newest else None
        if newest is not None and newest.pipeline not in (pipeline, formerly):
            raise foreign_lake(lake, newest.pipeline, pipeline)
        refuse_unwritable_manifest(self._table)
        self._drop_constraints()

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

    def newest_published(self, lsn: int | None = None) -> CutRow | None:
        """The newest published row, or the newest that ends at or before an LSN."""
        return newest_published(self._table, lsn)

    def oldest_written_at(self) -> datetime | None:
        """When the oldest row that is still there was written."""
        moments: list[datetime | None] = [moment for (moment,) in statistics(self._table, "min.written_at")]
        known = [moment for moment in moments if moment is not None]
        if len(known) < len(moments):
            known = [row.written_at for row in written_rows(self._table)]
        return min(known, default=None)

    def is_dated_in_order(self) -> bool:
        """Whether times of rows tell which one is older: not as long as there are rows of a clock that was ahead."""
        moments = [row.written_at for row in written_rows(self._table)]
        return all(later > earlier - _SLEW for earlier, later in pairwise(moments))

    def finished_before(self, row: CutRow) -> CutRow | None:
        """The row that a plan row started from."""
        found = rows_where(self._table, f"sequence = {row.sequence - 1}")
        return found[0] if found else None

    def append(self, row: CutRow) -> None:
        """Append a row as exactly the next version.

        Raises:
            OperatorError: somebody else wrote to the manifest since it was loaded, or it is not there any more.
        """
        self._refuse_missing_log()
        expected = self._table.version() + 1
        data = pa.Table.from_pylist([record_of(row)], schema=SCHEMA)
        with self._fenced():
            # A manifest of earlier versions gets the columns that it lacks.
            write_deltalake(
                self._table,
                data,
                mode="append",
                schema_mode="merge",
                commit_properties=_WITHOUT_RETRY,
                post_commithook_properties=_LEAVING_LOG,
            )
        if self._table.version() != expected:
            raise _second_job(self._table.table_uri)
        self._sequence = row.sequence
        self._rows_since_compaction += 1
        if row.kind == "published":
            # Behind the commit: the file may lag behind ``_cuts`` and never runs ahead of it.
            self._newest_cut.write(row)

    def compact(self) -> None:
        """Merge the small files of single rows, and now and then the large ones."""
        files = pa.table(self._table.get_add_actions(flatten=True)).select(["size_bytes", "num_records"])
        columns = (each.to_pylist() for each in files.columns)
        large = [size for size, rows in zip(*columns, strict=True) if rows is not None and rows >= FILE_ROWS]
        size = min([FILE_BYTES, *large]) if len(files) <= FILES_MAX else FILE_BYTES
        with self._fenced():
            self._table.optimize.compact(target_size=size, commit_properties=_WITHOUT_RETRY)
        self._rows_since_compaction = 0
        self._expect_own_newest()

    def thin(self, retention: Retention, now: datetime) -> None:
        """Drop rows that are not kept any more, the oldest first."""
        if _PROPERTIES.items() - self._table.metadata().configuration.items():  # an older version of walbridge made it
            with self._fenced():
                self._table.alter.set_table_properties(_PROPERTIES, commit_properties=_WITHOUT_RETRY)
        runs = dropped(written_rows(self._table), retention, now)[:RANGES_MAX]
        if not runs:
            return
        with self._fenced():
            condition = " OR ".join(f"sequence BETWEEN {first} AND {last}" for first, last in runs)
            self._table.delete(condition, commit_properties=_WITHOUT_RETRY)
        self._expect_own_newest()

    def versions_in_rows(self, path: str) -> set[int]:
        """Every version of a table that a row names."""
        return named_versions(self._table, path, self._storage_options)

    def heads(self, path: str) -> set[int]:
        """Versions of a table that the newest row names, from which a plan starts, and those of the newest published
        row."""
        rows = self.newest(), self.newest_published()
        entries = [entry for row in rows if row is not None for entry in row.tables]
        return {entry.version for entry in entries if entry.path == path and entry.version is not None}

    def replaced_versions(self, path: str, since: datetime) -> set[int]:
        """Every version of a table that a row named at ``since``, as far as files tell that were replaced since then:
        a reader may have taken it."""
        before = self._as_of(since)
        return set() if before is None else named_versions(before, path, self._storage_options, self._files())

    def named_paths(self, since: datetime) -> set[str]:
        """Paths of all tables of which a row names a version, or named one at ``since``."""
        before = self._as_of(since)
        return named_paths(self._table, self._storage_options) | (
            set() if before is None else named_paths(before, self._storage_options, self._files())
        )

    def _as_of(self, since: datetime) -> DeltaTable | None:
        before = DeltaTable(self._table.table_uri, storage_options=self._storage_options or None)
        try:
            before.load_as_version(since)
        except DeltaError:  # nothing was written by then, or it is not kept
            return None
        return before

    def _files(self) -> set[str]:
        return {*pa.table(self._table.get_add_actions(flatten=True))["path"].to_pylist()}

    def vacuum(self) -> None:
        """Delete files that compactions replaced. No reader needs them, since each opens the newest version."""
        self._table.vacuum(_FILES_HOURS, dry_run=False, enforce_retention_duration=False)
        self._table.update_incremental()  # a vacuum writes its own commits
        self._expect_own_newest()

    def _drop_constraints(self) -> None:
        """Drop what another program demands of rows: each start would end at the first row that does not meet it."""
        for name in constraints(self._table):
            with self._fenced():
                self._table.alter.drop_constraint(name, commit_properties=_WITHOUT_RETRY)

    def _create(self, lake: str) -> DeltaTable:
        self._newest_cut.remove()
        return _create(lake, self._storage_options)

    def _refuse_missing_log(self) -> None:
        """Refuse a folder whose storage went away: delta-rs would make new folders in it (I8)."""
        uri = self._table.table_uri
        folder = local_folder(uri)
        if folder is not None and not (folder / "_delta_log").is_dir():
            raise OperatorError(
                f"the lake's manifest {uri} was there when this job started, and is not any more",
                remedy="mount the lake's storage again, or bring the folder back, then start again: nothing is lost",
            )

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


def _second_job(uri: str) -> Superseded:
    return Superseded(
        f"a second Spark job writes to this lake: {uri} was changed by somebody else",
        remedy="stop the other job, then start this one again; it reads on from the manifest",
    )


def _create(lake: str, storage_options: dict[str, str]) -> DeltaTable:
    uri = f"{lake.rstrip('/')}/{CUTS_TABLE}"
    try:
        return DeltaTable.create(uri, SCHEMA, mode="error", configuration=_PROPERTIES, storage_options=storage_options)
    except DeltaError as error:
        if open_table(lake, storage_options) is None:
            raise
        raise _second_job(uri) from error
