"""Deletes files and log entries of a table that no reader can ask for any more.

In: one table at its head, and the kept rows of ``_cuts``. Out: files that no row names, or named in the last hour, are
deleted, and so are log entries that no such version needs (I8). Reading a long log may take longer than the gap between
two plans: it goes on at the table's next visit.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic

import structlog
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector

from walbridge.spark_consumer.delta.maintenance.clock import Clock
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, contents_at
from walbridge.spark_consumer.delta.maintenance.log_trim import LogTrim
from walbridge.spark_consumer.delta.maintenance.unnamed_files import FileHistory
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import VersionGone
from walbridge.spark_consumer.delta.table_features import has_vectors
from walbridge.spark_consumer.plan.kept_cuts import Retention

log = structlog.get_logger()

GAP_S = 2.0
"""How long one table's files, and then its log, may be worked on in one gap between plans; the next visit goes on."""
READERS_HOUR = timedelta(hours=1)
"""How long a reader may read on from a row of ``_cuts`` after the row is dropped."""
VACUUM_INTERVAL = timedelta(hours=1)
COMMITS_BETWEEN_TRIMS = 1_000
"""A table's log is trimmed after so many commits, or an hour: each time all rows of ``_cuts`` are read."""
COMMITS_BETWEEN_SWEEPS = 128
"""Files of a table that no row names are looked for after so many commits, or an hour: the fewer wait, the shorter
is the gap."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class OldFiles:
    """Deletes old files of all tables of one job."""

    def __init__(self, manifest: Manifest, storage_options: dict[str, str], retention: Retention, clock: Clock) -> None:
        self._manifest, self._storage_options = manifest, storage_options
        self._retention, self._clock = retention, clock
        self._vacuumed_at: dict[str, datetime] = {}
        self._trimmed: dict[str, tuple[int, datetime]] = {}
        self._swept: dict[str, int] = {}
        self._histories: dict[str, tuple[str, FileHistory]] = {}

    def forget(self, path: str) -> None:
        """Read the table's log from its beginning when it is visited next."""
        self._histories.pop(path, None)

    def forget_if_done(self, path: str) -> None:
        """``forget`` the table if no file of it waits to be deleted, to save memory."""
        if path in self._histories and not self._histories[path][1].has_waiting:
            del self._histories[path]

    def delete(self, table: DeltaTable, path: str) -> None:
        """Delete what is due of a table, as far as there is time.

        Raises:
            CommitFailedError: another program committed meanwhile.
            DeltaError, OSError: the table cannot be read or its files cannot be deleted now.
        """
        now, steady, is_late = self._clock(), self._clock.steady(), _deadline()
        history = self._history_of_files(table, path, is_late)
        is_hourly = steady - self._vacuumed_at.get(path, LONG_AGO) >= VACUUM_INTERVAL
        if history is not None and (is_hourly or self._is_sweep_due(table, path)):
            self._swept[path] = table.version()
            if not self._delete_unnamed(table, path, history, is_late, with_orphans=is_hourly):
                del self._swept[path]
        if is_hourly:
            self._vacuumed_at[path] = steady
            # Delta-rs takes the age of a file's first mark for that of its end, though later versions hold the file.
            if not has_vectors(table) and not self._delete_expired(table, path, now):
                return
        self._trim_log(table, path, now)

    def _is_sweep_due(self, table: DeltaTable, path: str) -> bool:
        return table.version() - self._swept.get(path, -COMMITS_BETWEEN_SWEEPS) >= COMMITS_BETWEEN_SWEEPS

    def _delete_expired(self, table: DeltaTable, path: str, now: datetime) -> bool:
        """Vacuum files by their age; False if the published version is lost, so that needed files cannot be told."""
        if not self._manifest.is_dated_in_order():
            return True  # no age tells then which files a row may name; what ``_delete_unnamed`` deletes is enough
        # Files stay that any row of _cuts names, however old it is, and all files of the newest published row.
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

    def _history_of_files(self, table: DeltaTable, path: str, is_late: Callable[[], bool]) -> FileHistory | None:
        """Read on in the table's log; None as long as its end is not reached."""
        files = self._files(table)
        made, history = self._histories.get(path, ("", None))
        try:
            if history is None or made != str(table.metadata().id):
                oldest = min(self._manifest.versions_in_rows(path), default=None)
                if oldest is None or oldest > table.version():
                    return None
                history = FileHistory(oldest, contents_at(files, LogFiles.of(files), oldest))
                self._histories[path] = str(table.metadata().id), history
            is_whole = history.read(files, table.version(), lambda: self._named(path), is_late)
        except FileNotFoundError:  # somebody else deleted what a row names: without it nobody knows
            self._histories.pop(path, None)
            return None
        return history if is_whole else None

    def _named(self, path: str) -> set[int]:
        """Versions that a reader may read."""
        return self._manifest.named_versions(path, self._clock() - READERS_HOUR)

    def _delete_unnamed(
        self, table: DeltaTable, path: str, history: FileHistory, is_late: Callable[[], bool], *, with_orphans: bool
    ) -> bool:
        """Delete files that no row names, or named in the last hour, and orphans, for which the whole folder is listed;
        returns whether there was time for all."""
        named, now = self._named(path), self._clock()
        # The history knows nothing of files before its begin; without named versions nothing tells what is needed.
        if min(named, default=-1) < history.after:
            return True
        before_ms = int((now - self._retention.all_for - READERS_HOUR).timestamp() * 1000)
        files = self._files(table)
        found = files.get_file_info_selector(FileSelector("")) if with_orphans else []
        orphans = history.orphans(found, now)
        for file in [*history.unnamed(named, before_ms), *orphans]:
            if is_late():
                return False
            for name in (file, f".{file}.crc"):  # what Hadoop writes beside it
                with suppress(FileNotFoundError):  # an earlier job deleted it, or a vacuum
                    files.delete_file(name)
            history.forget(file)
        return True

    def _files(self, table: DeltaTable) -> DeltaStorageHandler:
        return DeltaStorageHandler(table.table_uri, self._storage_options)

    def _is_lost(self, table: DeltaTable, version: int) -> bool:
        try:
            LakeTable(table.table_uri, table, self._storage_options).transaction_version_at(version, "")
        except VersionGone:
            return True
        return False

    def _trim_log(self, table: DeltaTable, path: str, now: datetime) -> None:
        """Delete log entries that no version needs which a reader may read."""
        version, at = self._trimmed.get(path, (-COMMITS_BETWEEN_TRIMS, LONG_AGO))
        steady = self._clock.steady()
        if table.version() - version < COMMITS_BETWEEN_TRIMS and steady - at < VACUUM_INTERVAL:
            return
        named = self._named(path)
        if not named:
            return
        lasting, heads = self._manifest.versions_in_rows(path), self._manifest.heads(path)
        since = now - self._retention.all_for - READERS_HOUR
        if LogTrim(table, self._storage_options, _deadline()).trim(named, lasting, heads, since):
            self._trimmed[path] = table.version(), steady

    def _published_versions(self, path: str) -> list[int]:
        row = self._manifest.newest_published()
        entries = row.tables if row is not None else ()
        return [entry.version for entry in entries if entry.path == path and entry.version is not None]


def _deadline() -> Callable[[], bool]:
    end = monotonic() + GAP_S
    return lambda: monotonic() > end
