"""Between plans: keep the manifest small, merge small files, delete what no reader can ask for.

In: the paths that a plan has written. Out: commits without data change: of the manifest or of one
table in each gap. A file is deleted only when no kept row of ``_cuts`` names a version that holds
it: rows go first, files follow, and log entries older than every kept row (I8). So are folders of dropped
tables, where the settings say so.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic

import pyarrow as pa
import structlog
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.folder import delete_folder
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, contents_at
from walbridge.spark_consumer.delta.maintenance.log_trim import LogTrim
from walbridge.spark_consumer.delta.maintenance.purge import Purge
from walbridge.spark_consumer.delta.maintenance.revisits import INTERVAL, Revisits
from walbridge.spark_consumer.delta.maintenance.unnamed_files import FileLives
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.opening import writable_table
from walbridge.spark_consumer.delta.table import PROPERTIES, LakeTable, has_vectors
from walbridge.spark_consumer.delta.table_faults import DamagedTable, VersionGone
from walbridge.spark_consumer.plan.kept_cuts import Retention

log = structlog.get_logger()

MANIFEST_ROWS_MAX = 16
"""Rows, each a file of its own, before the manifest is compacted."""
THIN_INTERVAL = timedelta(minutes=10)
GAP_S = 2.0
"""What reading a table's log and deleting from it may take in one gap between plans; the next visit goes on."""
READERS_HOUR = timedelta(hours=1)
"""How long whoever has taken a row may read on once it is dropped."""
COMMITS_BETWEEN_VISITS = 64
SMALL_FILES_MAX = 32
SMALL_FILE_BYTES = 16 * 2**20
VACUUM_INTERVAL = timedelta(hours=1)
COMMITS_BETWEEN_TRIMS = 1_000
"""Of a table, unless an hour is over: each of them asks all rows of ``_cuts``."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_WITHOUT_RETRY = CommitProperties(max_commit_retries=0)


class Maintenance:
    """Counts what plans wrote, and tidies one thing a gap."""

    def __init__(
        self,
        lake: str,
        manifest: Manifest,
        settings: Settings,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        purge: Purge | None = None,
    ) -> None:
        """``purge``: None where Spark writes to no table."""
        self._purge = purge
        self._marked: dict[str, None] = {}
        """Tables that may have marked rows, in the order of their turns."""
        self._lake, self._manifest, self._clock = lake, manifest, clock
        self._storage_options = flatten(settings.lake.storage_options)
        hours = settings.lake.all_cuts_hours, settings.lake.minute_cuts_hours, settings.lake.cut_retention_hours
        self._retention = Retention(*(timedelta(hours=each) for each in hours))
        self._commits: dict[str, int] = {}
        self._revisits = Revisits()
        self._vacuumed_at: dict[str, datetime] = {}
        self._trimmed: dict[str, tuple[int, datetime]] = {}
        self._thinned_at = _LONG_AGO
        self._lives: dict[str, tuple[str, FileLives]] = {}
        self._drops = settings.lake.dropped_tables == "drop"
        self.deleted: set[str] = set()
        """Folders of dropped tables that are there no more; ``_cuts`` may still say that they wait."""

    def after_plan(self, paths: list[str]) -> None:
        """Tidy the manifest or one table, between two plans. ``paths``: the tables that were just written."""
        if not self._revisits.is_seeded:
            self._revisits.seed(self._manifest.newest())
        for path in paths:
            self._commits[path] = self._commits.get(path, 0) + 1
        self._revisits.written(paths, self._clock())
        if self._manifest.files_since_compaction >= MANIFEST_ROWS_MAX:
            self._tidy_manifest()
            return
        due = max(self._commits, key=lambda path: self._commits[path], default=None)
        if (waiting := self._revisits.next(self._clock())) is not None:
            self._revisit(waiting)
        elif due is not None and self._commits[due] >= COMMITS_BETWEEN_VISITS:
            self._visit(due)
        elif self._purge is not None and self._marked and self._purge.is_due():
            self._purge_table(self._purge)

    def leave(self, path: str) -> None:
        """Visit a table no more before it is written again: it may be gone, or damaged."""
        self._commits.pop(path, None)
        self._revisits.leave(path)
        self._lives.pop(path, None)
        self._marked.pop(path, None)

    def _tidy_manifest(self) -> None:
        self._manifest.compact()
        now = self._clock()
        if now - self._thinned_at >= THIN_INTERVAL:
            self._thinned_at = now
            self._manifest.thin(self._retention, now)
            self._manifest.vacuum()
            if self._drops:
                self._delete_dropped(now - READERS_HOUR)

    def _delete_dropped(self, since: datetime) -> None:
        """Delete the folders of dropped tables that no row names, nor named at that moment."""
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
        """Delete a folder in which nothing was written that a row names, and nobody writes any more."""
        if path not in self._manifest.named_paths(self._clock() - READERS_HOUR):
            with suppress(DeltaError, OSError):  # the next table of that name begins with what is there
                delete_folder(self._lake, path, self._storage_options)

    def _visit(self, path: str) -> None:
        is_at_rest = self._commits.pop(path, None) is None
        begun = self._clock()
        try:
            self._tidy_table(path)
        finally:
            took = (now := self._clock()) - begun
            is_late = took >= timedelta(seconds=GAP_S)
            self._revisits.visited(path, now, took, VACUUM_INTERVAL if is_late else INTERVAL)
        if is_at_rest and not is_late and path in self._lives and not self._lives[path][1].has_waiting:
            del self._lives[path]  # there may be many such tables

    def _revisit(self, path: str) -> None:
        """Visit a table to which no plan may have written in this process."""
        try:
            self._visit(path)
        except (DeltaError, OSError) as error:
            self._untidied(path, error)

    def _untidied(self, path: str, error: Exception) -> None:
        """The plan that writes to it next tells what it is."""
        log.warning("table cannot be tidied now", path=path, why=type(error).__name__)
        self._lives.pop(path, None)

    def _tidy_table(self, path: str) -> None:
        try:
            table = writable_table(f"{self._lake}/{path}", self._storage_options)
        except (DamagedTable, OperatorError) as error:
            return self._untidied(path, error)
        try:
            if PROPERTIES.items() - table.metadata().configuration.items():  # an older version of walbridge made it
                table.alter.set_table_properties(dict(PROPERTIES), commit_properties=_WITHOUT_RETRY)
            if small_file_count(table) >= SMALL_FILES_MAX:
                table.optimize.compact(target_size=2 * SMALL_FILE_BYTES, commit_properties=_WITHOUT_RETRY)
            self._vacuum(table, path)
        except CommitFailedError:
            # A reader's own maintenance may be at work; the next visit tries again.
            log.warning("table was not compacted: another program committed to it meanwhile", path=path)

    def _purge_table(self, purge: Purge) -> None:
        path = next(iter(self._marked))
        del self._marked[path]
        try:
            table = writable_table(f"{self._lake}/{path}", self._storage_options)
            if purge.purge(table, self._storage_options):
                self._marked[path] = None  # behind all others
        except (DeltaError, OSError, DamagedTable, OperatorError) as error:
            self._untidied(path, error)

    def _vacuum(self, table: DeltaTable, path: str) -> None:
        now, is_late = self._clock(), _deadline()
        if has_vectors(table):
            self._marked.setdefault(path)
        lives = self._lives_of_files(table, path, is_late)
        if now - self._vacuumed_at.get(path, _LONG_AGO) >= VACUUM_INTERVAL:
            self._vacuumed_at[path] = now
            if lives is not None and not self._delete_unnamed(table, path, lives, is_late):
                del self._vacuumed_at[path]
            # Delta-rs would go by when rows of a file were first marked, though later versions hold the others.
            if not has_vectors(table) and not self._delete_expired(table, path, now):
                return
        self._trim_log(table, path, now, is_late)

    def _delete_expired(self, table: DeltaTable, path: str, now: datetime) -> bool:
        """Delete files by their age; False where the published version is lost, so that nobody knows what is needed."""
        # Kept are the files that any row of _cuts still names, however old it is, and all of the newest published one.
        oldest = self._manifest.oldest_written_at() or now
        kept = max(self._retention.hours_for, now - oldest) + READERS_HOUR
        published = self._published_versions(path)
        try:
            table.vacuum(
                int(kept.total_seconds()) // 3600,
                dry_run=False,
                enforce_retention_duration=False,
                keep_versions=published,
            )
        except CommitFailedError:
            raise
        except DeltaError:
            lost = next((version for version in published if self._is_lost(table, version)), None)
            if lost is None:
                raise
            log.warning("readers cannot read a table until the next published cut", path=path, version=lost)
            return False
        return True

    def _lives_of_files(self, table: DeltaTable, path: str, is_late: Callable[[], bool]) -> FileLives | None:
        """Read on in the table's log; None as long as it was not read to its end."""
        files = self._files(table)
        made, lives = self._lives.get(path, ("", None))
        try:
            if lives is None or made != str(table.metadata().id):
                oldest = min(self._manifest.versions_in_rows(path), default=None)
                if oldest is None or oldest > table.version():
                    return None
                lives = FileLives(oldest, contents_at(files, LogFiles.of(files), oldest))
                self._lives[path] = str(table.metadata().id), lives
            is_whole = lives.read(files, table.version(), lambda: self._named(path), is_late)
        except FileNotFoundError:  # somebody else deleted what a row names: without it nobody knows
            self._lives.pop(path, None)
            return None
        return lives if is_whole else None

    def _named(self, path: str) -> set[int]:
        """Versions that a reader may read."""
        return self._manifest.named_versions(path, self._clock() - READERS_HOUR)

    def _delete_unnamed(self, table: DeltaTable, path: str, lives: FileLives, is_late: Callable[[], bool]) -> bool:
        """Delete what no kept row names, and no row that a reader may have taken in the last hour, and orphans; whether
        there was time for all."""
        named, now = self._named(path), self._clock()
        # Of files of a version before that nothing is known; where no row names a version, nobody knows what is needed.
        if min(named, default=-1) < lives.after:
            return True
        before_ms = int((now - self._retention.all_for - READERS_HOUR).timestamp() * 1000)
        files = self._files(table)
        orphans = lives.orphans(files.get_file_info_selector(FileSelector("")), now)
        for file in [*lives.unnamed(named, before_ms), *orphans]:
            if is_late():
                return False
            for name in (file, f".{file}.crc"):  # what Hadoop writes beside it
                with suppress(FileNotFoundError):  # an earlier job deleted it, or a vacuum
                    files.delete_file(name)
            lives.forget(file)
        return True

    def _files(self, table: DeltaTable) -> DeltaStorageHandler:
        return DeltaStorageHandler(table.table_uri, self._storage_options)

    def _is_lost(self, table: DeltaTable, version: int) -> bool:
        try:
            LakeTable(table.table_uri, table, self._storage_options).transaction_version_at(version, "")
        except VersionGone:
            return True
        return False

    def _trim_log(self, table: DeltaTable, path: str, now: datetime, is_late: Callable[[], bool]) -> None:
        """Delete of the log what no version needs that a reader may read."""
        version, at = self._trimmed.get(path, (-COMMITS_BETWEEN_TRIMS, _LONG_AGO))
        if table.version() - version < COMMITS_BETWEEN_TRIMS and now - at < VACUUM_INTERVAL:
            return
        named = self._named(path)
        if not named:
            return
        trim = LogTrim(table, self._storage_options, is_late)
        since = now - self._retention.all_for - READERS_HOUR
        if trim.trim(named, self._manifest.versions_in_rows(path), self._manifest.heads(path), since):
            self._trimmed[path] = table.version(), now

    def _published_versions(self, path: str) -> list[int]:
        row = self._manifest.newest_published()
        entries = row.tables if row is not None else ()
        return [entry.version for entry in entries if entry.path == path and entry.version is not None]


def _deadline() -> Callable[[], bool]:
    end = monotonic() + GAP_S
    return lambda: monotonic() > end


def small_file_count(table: DeltaTable) -> int:
    """Live files that a compaction would merge."""
    sizes: list[int] = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return sum(size < SMALL_FILE_BYTES for size in sizes)
