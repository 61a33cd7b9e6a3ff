"""Maintenance between plans: keeps the manifest small, merges small files, deletes what no reader can ask for.

In: the paths that a plan has written. Out: in each gap between plans the manifest or one table is tidied, by commits
without data change and by deleting files. Rows of ``_cuts`` go first, files follow once no kept row needs them
(``old_files.py``; I8). So do folders of dropped tables, where the settings say so.
"""

from contextlib import suppress
from datetime import datetime, timedelta

import pyarrow as pa
import structlog
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.columns import lake_fields
from walbridge.spark_consumer.delta.folder import delete_folder
from walbridge.spark_consumer.delta.maintenance.clock import Clock
from walbridge.spark_consumer.delta.maintenance.old_files import (
    LONG_AGO,
    READERS_HOUR,
    OldFiles,
)
from walbridge.spark_consumer.delta.maintenance.purge import Purge
from walbridge.spark_consumer.delta.maintenance.revisits import INTERVAL, Revisits
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.opening import writable_table
from walbridge.spark_consumer.delta.statistics import exact_bounds, without_bounds
from walbridge.spark_consumer.delta.table import PROPERTIES
from walbridge.spark_consumer.delta.table_faults import DamagedTable
from walbridge.spark_consumer.delta.table_features import has_vectors
from walbridge.spark_consumer.plan.ended_copies import ASIDE
from walbridge.spark_consumer.plan.kept_cuts import Retention

log = structlog.get_logger()

MANIFEST_ROWS_MAX = 12
"""Rows, each a file of its own, before the manifest is compacted."""
THIN_INTERVAL = timedelta(minutes=10)
COMPACTIONS_BETWEEN_THINS = 20
"""The manifest is thinned after so many compactions, or ``THIN_INTERVAL``: the files of few plans go at once then."""
COMMITS_BETWEEN_VISITS = 64
SMALL_FILES_MAX = 32
SMALL_FILE_BYTES = 16 * 2**20
_WITHOUT_RETRY = CommitProperties(max_commit_retries=0)


class Maintenance:
    """Counts the commits of plans, and tidies the manifest or one table in each gap."""

    def __init__(
        self,
        lake: str,
        manifest: Manifest,
        settings: Settings,
        clock: Clock | None = None,
        purge: Purge | None = None,
    ) -> None:
        """``purge``: None where Spark writes to no table."""
        self._purge = purge
        self._marked: dict[str, None] = {}
        """Tables that may have marked rows, in the order of their turns."""
        self._lake, self._manifest, self._clock = lake, manifest, clock or Clock()
        self._storage_options = flatten(settings.lake.storage_options)
        hours = settings.lake.all_cuts_hours, settings.lake.minute_cuts_hours, settings.lake.cut_retention_hours
        self._retention = Retention(*(timedelta(hours=each) for each in hours))
        self._commits: dict[str, int] = {}
        self._revisits = Revisits()
        self._vacuumed_at, self._compactions = LONG_AGO, 0
        """Of the manifest: when it was vacuumed, and how often it was compacted since it was thinned."""
        self._old = OldFiles(manifest, self._storage_options, self._retention, self._clock)
        self._drops = settings.lake.dropped_tables == "drop"
        self.deleted: set[str] = set()
        """Folders of dropped tables that are deleted, though ``_cuts`` may still have their entries."""

    def after_plan(self, paths: list[str]) -> None:
        """Tidy the manifest or one table, between two plans. ``paths``: the tables that were just written."""
        if not self._revisits.is_seeded:
            self._revisits.seed(self._manifest.newest())
        for path in paths:
            self._commits[path] = self._commits.get(path, 0) + 1
        self._revisits.written(paths, self._clock.steady())
        if self._manifest.files_since_compaction >= MANIFEST_ROWS_MAX:
            self._tidy_manifest()
            return
        due = max(self._commits, key=lambda path: self._commits[path], default=None)
        if (waiting := self._revisits.next(self._clock.steady())) is not None:
            self._revisit(waiting)
        elif due is not None and self._commits[due] >= COMMITS_BETWEEN_VISITS:
            self._visit(due)
        elif self._purge is not None and self._marked and self._purge.is_due():
            self._purge_table(self._purge)

    def stop_visiting(self, path: str) -> None:
        """Visit this table no more until a plan writes to it again: it may be gone, or damaged."""
        self._commits.pop(path, None)
        self._revisits.stop_visiting(path)
        self._old.forget(path)
        self._marked.pop(path, None)

    def _tidy_manifest(self) -> None:
        self._manifest.compact()
        now, steady = self._clock(), self._clock.steady()
        self._compactions += 1
        is_long_ago = steady - self._vacuumed_at >= THIN_INTERVAL
        if is_long_ago or self._compactions >= COMPACTIONS_BETWEEN_THINS:
            self._compactions = 0
            self._manifest.thin(self._retention, now)
        if is_long_ago:
            self._vacuumed_at = steady
            self._manifest.vacuum()
            if self._drops:
                self._delete_dropped(now - READERS_HOUR)

    def _delete_dropped(self, since: datetime) -> None:
        """Delete the folders of dropped tables that no row names now, or named at ``since``."""
        row = self._manifest.newest_published()
        waiting = {entry.path for entry in row.tables if entry.is_dropped} if row is not None else set()
        if not (waiting := waiting - self.deleted):
            return
        for path in sorted(waiting - self._manifest.named_paths(since)):
            try:
                delete_folder(self._lake, path, self._storage_options)
            except (DeltaError, OSError) as error:
                log.warning("folder of a dropped table is not deleted yet", path=path, why=type(error).__name__)
                continue
            self.deleted.add(path)
            log.info("folder of a dropped table is deleted", path=path)

    def delete_unseen(self, path: str) -> None:
        """Delete a folder that no row ever named, and into which nothing is written any more."""
        if path not in self._manifest.named_paths(self._clock() - READERS_HOUR):
            with suppress(DeltaError, OSError):  # the next table of that name begins with what is there
                delete_folder(self._lake, path, self._storage_options)

    def delete_aside(self, path: str = ASIDE) -> None:
        """Delete a folder in which a copy of a fed table was written, or all that there are. No row ever named one."""
        with suppress(DeltaError, OSError):  # the next job tries again
            delete_folder(self._lake, path, self._storage_options)

    def _visit(self, path: str) -> None:
        is_at_rest = self._commits.pop(path, None) is None
        begun, is_done = self._clock.steady(), True
        try:
            is_done = self._tidy_table(path)
        finally:
            took = (now := self._clock.steady()) - begun
            self._revisits.visited(path, now, took, INTERVAL if is_done else timedelta(0))
        if is_at_rest and is_done:
            self._old.forget_if_done(path)

    def _revisit(self, path: str) -> None:
        """Visit a table to which this process may not have written."""
        try:
            self._visit(path)
        except (DeltaError, OSError) as error:
            self._untidied(path, error)

    def _untidied(self, path: str, error: Exception) -> None:
        """Log that a table cannot be tidied; the next plan that writes to it reports its fault."""
        log.warning("table cannot be tidied now", path=path, why=type(error).__name__)
        self._old.forget(path)

    def _tidy_table(self, path: str) -> bool:
        """Returns whether there was time for all that is due."""
        try:
            table = writable_table(f"{self._lake}/{path}", self._storage_options)
        except (DamagedTable, OperatorError) as error:
            self._untidied(path, error)
            return True
        try:
            columns = lake_fields(table.schema())
            wanted = {**PROPERTIES, **exact_bounds(columns)}
            # An older version of walbridge made it, or it has got another column.
            if wanted.items() - table.metadata().configuration.items():
                table.alter.set_table_properties(wanted, commit_properties=_WITHOUT_RETRY)
            if small_file_count(table) >= SMALL_FILES_MAX:
                table.optimize.compact(
                    target_size=2 * SMALL_FILE_BYTES,
                    writer_properties=without_bounds(columns),
                    commit_properties=_WITHOUT_RETRY,
                )
            if has_vectors(table):
                self._marked.setdefault(path)
            return self._old.delete(table, path)
        except CommitFailedError:
            # A reader's own maintenance may be at work; the next visit tries again.
            log.warning("table was not compacted: another program committed to it meanwhile", path=path)
            return True

    def _purge_table(self, purge: Purge) -> None:
        path = next(iter(self._marked))
        del self._marked[path]
        try:
            table = writable_table(f"{self._lake}/{path}", self._storage_options)
            if purge.purge(table, self._storage_options):
                self._marked[path] = None  # behind all others
        except (DeltaError, OSError, DamagedTable, OperatorError) as error:
            self._untidied(path, error)


def small_file_count(table: DeltaTable) -> int:
    """How many of the table's data files a compaction would merge."""
    sizes: list[int] = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return sum(size < SMALL_FILE_BYTES for size in sizes)
