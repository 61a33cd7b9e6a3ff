"""Deletes files and log entries of a table that no reader can ask for any more.

In: one table at its head, and the kept rows of ``_cuts``. Out: files that no row names, or named in the last hour, are
deleted, and so are log entries that no such version needs (I8).

Files, orphans, a vacuum and the log each have their turn, as long as there is time in the gap between two plans. The
table's next visit begins with the turn after the last one that began, so that each comes, however long the others take.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from time import monotonic

import structlog
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.spark_consumer.delta.maintenance.clock import Clock
from walbridge.spark_consumer.delta.maintenance.log_files import (
    LogFiles,
    contents_at,
    files_below,
    held_names,
    is_gone,
)
from walbridge.spark_consumer.delta.maintenance.log_trim import LogTrim
from walbridge.spark_consumer.delta.maintenance.revisits import random_order
from walbridge.spark_consumer.delta.maintenance.unnamed_files import FileHistory
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import VersionGone
from walbridge.spark_consumer.delta.table_features import has_vectors
from walbridge.spark_consumer.plan.kept_cuts import Retention

log = structlog.get_logger()

GAP_S = 1.0
"""How long one table may be worked on in one gap between plans; the next visit goes on."""
READERS_HOUR = timedelta(hours=1)
"""How long a reader may read on from a row of ``_cuts`` after the row is dropped."""
TURN_INTERVAL = timedelta(hours=1)
"""Each turn is due so long after the last time, however few commits there were."""
COMMITS_BETWEEN_TRIMS = 1_000
"""A table's log is trimmed after so many commits: each time all rows of ``_cuts`` are read."""
COMMITS_BETWEEN_SWEEPS = 128
"""Files of a table that no row names are looked for after so many commits: the fewer wait, the shorter is the gap."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Turn:
    work: Callable[["_Gap"], bool]
    """Returns whether there was time for all."""
    commits: float = math.inf
    """It is due after so many."""
    done: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """By a table's path: at which version, and when."""

    def is_due(self, gap: "_Gap") -> bool:
        version, at = self.done.get(gap.path, (-math.inf, LONG_AGO))
        return gap.table.version() - version >= self.commits or gap.steady - at >= TURN_INTERVAL

    def take(self, gap: "_Gap") -> bool:
        # Before the work: what fails because of the storage is not tried again at once.
        self.done[gap.path] = gap.table.version(), gap.steady
        is_done = self.work(gap)
        if not is_done:
            del self.done[gap.path]
        return is_done


class OldFiles:
    """Deletes old files of all tables of one job."""

    def __init__(self, manifest: Manifest, storage_options: dict[str, str], retention: Retention, clock: Clock) -> None:
        self._manifest, self._storage_options = manifest, storage_options
        self._retention, self._clock = retention, clock
        self._histories: dict[str, tuple[str, FileHistory]] = {}
        self._turns = (
            _Turn(self._delete_unnamed, COMMITS_BETWEEN_SWEEPS),
            _Turn(self._delete_orphans),
            _Turn(self._delete_expired),
            _Turn(self._trim_log, COMMITS_BETWEEN_TRIMS),
        )
        self._next_turn: dict[str, int] = {}
        self._deleted: dict[str, int] = {}
        """Files that were deleted since the table got a slim checkpoint; none before the first."""

    def forget(self, path: str) -> None:
        """Read the table's log from its beginning when it is visited next."""
        self._histories.pop(path, None)

    def forget_if_done(self, path: str) -> None:
        """``forget`` the table if no file of it waits to be deleted, to save memory."""
        if path in self._histories and not self._histories[path][1].has_waiting:
            del self._histories[path]

    def delete(self, table: DeltaTable, path: str) -> bool:
        """Delete what is due of a table, as far as there is time; returns whether that was all.

        Raises:
            CommitFailedError: another program committed meanwhile.
            DeltaError, OSError: the table cannot be read or its files cannot be deleted now.
        """
        gap = _Gap(table, path, self._manifest, self._storage_options, self._clock)
        first, is_done = self._first_turn(path), True
        for number in range(first, first + len(self._turns)):
            turn = self._turns[number % len(self._turns)]
            if not turn.is_due(gap):
                continue
            if gap.is_late:
                return False
            self._next_turn[path] = number + 1
            is_done = turn.take(gap) and is_done
        return is_done

    def _first_turn(self, path: str) -> int:
        """Jobs that end after one plan begin with any of them."""
        if path not in self._next_turn:
            newest = self._manifest.newest()
            self._next_turn[path] = random_order(newest.sequence if newest is not None else 0, path)[0]
        return self._next_turn[path] % len(self._turns)

    def _delete_unnamed(self, gap: "_Gap") -> bool:
        """Delete files that no row names, or named in the last hour."""
        history = self._history_of_files(gap)
        if history is None:
            return True
        if history.read_to < gap.table.version():
            return False
        before_ms = int((gap.now - self._retention.all_for - READERS_HOUR).timestamp() * 1000)
        unnamed = history.unnamed(gap.named, before_ms)
        is_done = _delete(gap, history, unnamed)
        if gap.path in self._deleted:
            self._deleted[gap.path] += sum(not history.knows(file) for file in unnamed)
        return is_done

    def _delete_orphans(self, gap: "_Gap") -> bool:
        """Delete files that no commit names. The whole folder is listed."""
        history = self._history_of_files(gap)
        if history is None:
            return True
        if history.read_to < gap.table.version():
            return False
        return _delete(gap, history, history.orphans(files_below(gap.table.table_uri, gap.files, ""), gap.now))

    def _history_of_files(self, gap: "_Gap") -> FileHistory | None:
        """Read on in the table's log, as far as there is time; None where it does not tell which files are needed."""
        made, history = self._histories.get(gap.path, ("", None))
        try:
            if history is None or made != str(gap.table.metadata().id):
                oldest = min(gap.named, default=None)
                if oldest is None or oldest > gap.table.version():
                    return None
                history = FileHistory(oldest, contents_at(gap.files, gap.log(), oldest))
                self._histories[gap.path] = str(gap.table.metadata().id), history
            # Rows are read before the time begins that is left for the log.
            history.read(gap.files, gap.table.version(), gap.named, gap.log, gap.deadline())
        except FileNotFoundError:  # somebody else deleted what a row names: without it nobody knows
            self._histories.pop(gap.path, None)
            return None
        # The history knows nothing of files before its begin; without named versions nothing tells what is needed.
        return history if min(gap.named, default=-1) >= history.after else None

    def _delete_expired(self, gap: "_Gap") -> bool:
        """Vacuum files by their age, unless the published version is lost, so that needed files cannot be told."""
        # Delta-rs takes the age of a file's first mark for that of its end, though later versions hold the file. No age
        # tells which files a row may name where clocks were set; what ``_delete_unnamed`` deletes is enough then.
        if has_vectors(gap.table) or not self._manifest.is_dated_in_order():
            return True
        # Files stay that any row of _cuts names, however old it is, and all files of the newest published row.
        now, path, table = gap.now, gap.path, gap.table
        oldest = self._manifest.oldest_written_at() or now
        kept = max(self._retention.hours_for, now - oldest) + READERS_HOUR
        published = self._published_versions(path)
        vacuum = partial(
            table.vacuum,
            int(kept.total_seconds()) // 3600,
            enforce_retention_duration=False,
            keep_versions=published,
        )
        try:
            # It commits twice, also where each of these is deleted already and only its mark is left.
            if marked := vacuum(dry_run=True):
                held = held_names(table.table_uri, gap.files)
                if not all(is_gone(each, held) for each in marked):
                    vacuum(dry_run=False)
        except CommitFailedError:
            raise
        except DeltaError:
            lost = next((version for version in published if self._is_lost(table, version)), None)
            if lost is None:
                raise
            log.warning("readers cannot read a table until the next published cut", path=path, version=lost)
        return True

    def _is_lost(self, table: DeltaTable, version: int) -> bool:
        try:
            LakeTable(table.table_uri, table, self._storage_options).transaction_version_at(version, "")
        except VersionGone:
            return True
        return False

    def _trim_log(self, gap: "_Gap") -> bool:
        """Delete log entries that no version needs which a reader may read."""
        if not gap.named:
            return True
        history = self._history_of_files(gap)
        # What is not read yet would never be: its files would be taken for orphans.
        read_to = gap.table.version() if history is None else history.read_to
        heads, since = self._manifest.heads(gap.path), gap.now - self._retention.all_for - READERS_HOUR
        trim = LogTrim(gap.table, self._storage_options, gap.deadline(), self._deleted.get(gap.path, math.inf))
        is_done = trim.trim(gap.named, gap.lasting, heads, since, read_to)
        if trim.has_slimmed:
            self._deleted[gap.path] = 0
        return is_done

    def _published_versions(self, path: str) -> list[int]:
        row = self._manifest.newest_published()
        entries = row.tables if row is not None else ()
        return [entry.version for entry in entries if entry.path == path and entry.version is not None]


class _Gap:
    """One gap between plans, in which no row of ``_cuts`` comes or goes: they are read once, if at all."""

    def __init__(
        self, table: DeltaTable, path: str, manifest: Manifest, storage_options: dict[str, str], clock: Clock
    ) -> None:
        self.table, self.path, self._manifest = table, path, manifest
        self.files = DeltaStorageHandler(table.table_uri, storage_options)
        self.now, self.steady = clock(), clock.steady()
        self._end_s = monotonic() + GAP_S

    @property
    def is_late(self) -> bool:
        return monotonic() > self._end_s

    def log(self) -> LogFiles:
        """The table's log, as it is now."""
        return LogFiles.of(self.table.table_uri, self.files)

    def deadline(self) -> Callable[[], bool]:
        """Says when it is late, but leaves a little time for a turn that took long to begin: else it would for ever."""
        end_s = max(self._end_s, monotonic() + GAP_S / 4)
        return lambda: monotonic() > end_s

    @cached_property
    def lasting(self) -> set[int]:
        """Versions of the table that rows name."""
        return self._manifest.versions_in_rows(self.path)

    @cached_property
    def named(self) -> set[int]:
        """Versions of the table that a reader may read."""
        return self.lasting | self._manifest.replaced_versions(self.path, self.now - READERS_HOUR)


def _delete(gap: _Gap, history: FileHistory, names: Iterable[str]) -> bool:
    is_late = gap.deadline()
    for file in names:
        if is_late():
            return False
        for name in (file, f".{file}.crc"):  # what Hadoop writes beside it
            with suppress(FileNotFoundError):  # an earlier job deleted it, or a vacuum
                gap.files.delete_file(name)
        history.forget(file)
    return True
