"""Deletes the parts of a table's log that no reader of a kept version needs.

In: the versions that rows of ``_cuts`` name, and a time since which nothing is deleted. Out: a log from which the
newest version and every named one can be read. Other commits and checkpoints are deleted, whatever retention the
table's properties ask for.

Only entries before ``tail`` are deleted: as long as all rows of ``_cuts`` are kept, and an hour more (I8). A named
version before it gets its own checkpoint if it would need many commits after the last one: it then needs two files. A
checkpoint is written before the commits that it replaces are deleted, so that a kill leaves more files than are needed,
never fewer. Of a version that another program's deletion has made unreadable nothing more is deleted.
"""

import math
from bisect import insort
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime

import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.spark_consumer.delta.maintenance.log_files import (
    LAST_CHECKPOINT,
    LOG,
    CheckpointHint,
    LogFiles,
    held_names,
    is_gone,
    newest_by,
    read_file,
    run_after,
)
from walbridge.spark_consumer.delta.maintenance.slim_checkpoint import add_checkpoint

log = structlog.get_logger()

RUN_MAX = 4
"""If a named version needs more commits than this after its checkpoint, it gets its own."""
TAIL_MIN = 16
"""How many commits stay before the oldest version that a plan may start from: applying it looks back
(``SPARK_COMMITS``)."""
TOMBSTONES_MAX = 500
"""If a checkpoint has this many more tombstones than files, a slim one is made."""


class LogTrim:
    """Trims the log of one table, in one gap between plans."""

    def __init__(
        self,
        table: DeltaTable,
        storage_options: dict[str, str],
        is_late: Callable[[], bool],
        deleted: float = math.inf,
    ) -> None:
        """``deleted``: how many files of the table were deleted since it got a slim checkpoint."""
        self._uri, self._newest, self._storage_options = table.table_uri, table.version(), storage_options
        self._files = DeltaStorageHandler(table.table_uri, storage_options)
        self._is_late, self._deleted = is_late, deleted
        self.has_slimmed = False
        """Whether the trim has made a slim checkpoint."""
        self._log = LogFiles.of(self._uri, self._files)

    def trim(
        self,
        named: Collection[int],
        lasting: Collection[int],
        heads: Collection[int],
        since: datetime,
        read_to: float = math.inf,
    ) -> bool:
        """Do as much as there is time for; returns whether that was all.

        Args:
            named: versions that a reader may read.
            lasting: versions that rows still name.
            heads: versions that the newest rows name, from which a plan starts.
            since: commits that were written later stay.
            read_to: later commits stay, too: which files they name is not known yet.
        """
        oldest = self._log.since(since)
        tail = min(
            [self._newest - TAIL_MIN, *(head - TAIL_MIN for head in heads), *([] if oldest is None else [oldest])]
        )
        is_read, tail = tail <= read_to, int(min(tail, read_to))
        wanted = [version for version in named if version <= self._newest]
        try:
            hint = self._slim(tail)
            # What goes anyway goes first: the time may be over before every version has its checkpoint.
            gone = self._log.unneeded(wanted, tail, hint)
            if not self._delete(gone):
                return False
            self._add_checkpoints(lasting, tail)
        except DeltaError as error:
            log.warning("no checkpoint could be added to a table's log", path=self._uri, why=type(error).__name__)
            return True
        return self._delete({*self._log.unneeded(wanted, tail, hint)} - {*gone}) and is_read

    def _add_checkpoints(self, lasting: Collection[int], tail: int) -> None:
        """Give versions before ``tail`` their own checkpoints, as far as there is time. Later ones need the
        tombstones."""
        end, bases = self._log.base(tail) or 0, sorted(self._log.checkpoints)
        for version in sorted(version for version in lasting if version < end):
            if self._is_late():
                break
            if len(run_after(newest_by(version, bases), version)) > RUN_MAX and self._log.is_whole(version):
                self._add(version, every_tombstone)
                insort(bases, version)

    def _slim(self, tail: int) -> int | None:
        """Add a checkpoint without useless tombstones, if the last one has many; returns the last one's version."""
        try:
            hint = CheckpointHint.parse(read_file(self._files, LAST_CHECKPOINT))
        except FileNotFoundError:
            return None
        if hint is None:
            return None
        version, adds = hint.version, hint.add_count
        added = next((each for each in (self._newest, self._newest - 1) if each not in self._log.checkpoints), None)
        # Of tombstones at least half must go: while their files are kept for readers, a slim checkpoint is none, and it
        # takes the longer the more there are, while plans wait.
        tombstones = hint.action_count - adds
        has_many = tombstones > adds + TOMBSTONES_MAX and 2 * self._deleted >= tombstones
        is_newest = version == max(self._log.checkpoints, default=version)
        if has_many and is_newest and added is not None and added > max(version, tail):
            held = held_names(self._uri, self._files)
            self._add(
                added, lambda path, vectors: is_gone(path, held) or (vectors is not None and is_gone(vectors, held))
            )
            self.has_slimmed = True
        return version

    def _add(self, version: int, is_gone: Callable[[str, str | None], bool]) -> None:
        add_checkpoint(self._uri, self._storage_options, self._log, version, is_gone)
        self._log.checkpoints.add(version)

    def _delete(self, names: Collection[str]) -> bool:
        # The oldest first: what is left is the log's end, whenever it stops.
        for name in sorted(names, key=lambda name: name.lstrip(".")):
            if self._is_late():
                return False
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{LOG}/{name}")
        return not self._is_late()


def every_tombstone(path: str, vectors: str | None) -> bool:
    """All tombstones go: those of an old version are of no use."""
    return True
