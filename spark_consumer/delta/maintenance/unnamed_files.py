"""Finds data files of a table that no named version holds, however young they are.

In: the table's log, and the versions that rows of ``_cuts`` name. Out: files to delete. A vacuum goes by
age alone, and would keep the files of all plans as long as the oldest row is kept; Delta can be told versions
to keep, but reads the log anew for each of them.

The log is read forwards, each commit once: for every file, when it was added and removed (I8). Where commits
are gone that no kept version needs (``log_trim.py``), the next named version is read as a whole. A file may be deleted
if it was removed long enough ago, and no named version holds it. A file of deletion vectors is held as long as one of
the data files that it belongs to. A file that no commit names is an orphan of a killed task, and may be deleted when it
is old. Files with names that neither delta-rs nor Spark gives are left alone.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo

from walbridge.spark_consumer.delta.maintenance.log_files import Contents, LogFiles, commit_name, contents_at, vector_of

_FILE = re.compile(r"[\w.-]+\.parquet|deletion_vector_[0-9a-f-]{36}\.bin")
"""Names that delta-rs and Spark give files in a log; any other file, such as one in a folder, is left to the vacuum."""
_WRITTEN = re.compile(r"part-\d{5}-[0-9a-f]{8}-[\w.-]+\.parquet|deletion_vector_[0-9a-f-]{36}\.bin")
"""Names that both give to files before a commit names them."""
ORPHAN_AGE = timedelta(days=1)
"""An orphan is deleted at this age. No commit takes so long from its first file on."""
_THERE: tuple[tuple[int, bool], ...] = ()


class FileHistory:
    """When each file was added and removed, from a version on; for older files only when they were removed."""

    def __init__(self, after: int, contents: Contents | None = None) -> None:
        """``contents``: data files of version ``after``, each with its file of vectors."""
        self.after = self.read_to = after
        self._vectors = {path: vectors for path, vectors in (contents or {}).items() if vectors}
        self._uses = Counter(self._vectors.values())
        self._events = dict.fromkeys([*(contents or {}), *self._uses], _THERE)
        self._removed_ms: dict[str, int] = {}
        self._listed: LogFiles | None = None

    def read(
        self,
        files: DeltaStorageHandler,
        newest: int,
        named: Collection[int],
        log: Callable[[], LogFiles],
        is_late: Callable[[], bool],
    ) -> bool:
        """Read on until it is late; returns whether the newest version is reached. ``log`` is asked again only once a
        file of it is gone: in a long log it may take as long as there is time.

        Raises:
            FileNotFoundError: a named version cannot be read any more.
        """
        versions: list[int] = []
        while self.read_to < newest and not is_late():
            try:
                with files.open_input_file(f"_delta_log/{commit_name(self.read_to + 1)}") as commit:
                    lines = bytes(commit.read()).splitlines()
            except FileNotFoundError:
                versions = versions or sorted({*(each for each in named if each < newest), newest})
                upto = versions[bisect_right(versions, self.read_to)]
                self.jump(upto, self._contents_at(files, log, upto))
                continue
            self.add_commit(self.read_to + 1, map(json.loads, filter(_is_of_files, lines)))
        if self.read_to < newest:
            return False
        self._listed = None
        return True

    def _contents_at(self, files: DeltaStorageHandler, log: Callable[[], LogFiles], version: int) -> Contents:
        """By the log as it was listed before: no file of it ever changes, whatever was added or deleted since."""
        if self._listed is not None:
            with suppress(FileNotFoundError):
                return contents_at(files, self._listed, version)
        self._listed = log()
        return contents_at(files, self._listed, version)

    def add_commit(self, version: int, actions: Iterable[Any]) -> None:
        """Take the next commit. A file that it removes and adds again, with another vector, is no event (I9)."""
        removed: dict[str, int] = {}
        added: dict[str, str | None] = {}
        for action in actions:
            if "remove" in action:
                removed[action["remove"]["path"]] = action["remove"].get("deletionTimestamp") or 0
            elif "add" in action:
                added[action["add"]["path"]] = vector_of(action["add"].get("deletionVector"))
        for path in removed.keys() - added.keys():
            self._went(path, version, removed[path])
        for path in added.keys() - removed.keys():
            self._came(path, version)
        for path in added.keys() & removed.keys():
            self._events.setdefault(path, _THERE)
        at_ms = max(removed.values(), default=0)
        self._mark({path: added.get(path) for path in {**removed, **added}}, version, at_ms)
        self.read_to = version

    def jump(self, version: int, contents: Contents) -> None:
        """Go over to a later version with these files. No version in between is read any more."""
        held = {path for path in self._events if self._is_held(path)} - {*self._uses}
        for path in held - contents.keys():
            self._went(path, version, 0)
        for path in contents.keys() - held:
            self._came(path, version)
        self._mark(dict.fromkeys(held | self._vectors.keys()) | dict(contents), version, 0)
        self.read_to = version

    def _is_held(self, path: str) -> bool:
        events = self._events.get(path)
        return events is not None and (not events or events[-1][1])

    def _came(self, path: str, version: int) -> None:
        if not self._is_held(path):
            self._events[path] = (*self._events.get(path, ()), (version, True))

    def _went(self, path: str, version: int, at_ms: int) -> None:
        self._events[path] = (*self._events.get(path, ()), (version, False))
        self._removed_ms[path] = at_ms

    def _mark(self, changed: Mapping[str, str | None], version: int, at_ms: int) -> None:
        """Take over the files of vectors that these data files have now; None: they have none."""
        touched = set()
        for path, vectors in changed.items():
            if (before := self._vectors.pop(path, None)) is not None:
                self._uses[before] -= 1
                touched.add(before)
            if vectors is not None:
                self._vectors[path] = vectors
                self._uses[vectors] += 1
                touched.add(vectors)
        for vectors in touched:
            if self._uses[vectors]:
                self._came(vectors, version)
            else:
                del self._uses[vectors]
                self._went(vectors, version, at_ms)

    def unnamed(self, named: Collection[int], removed_before_ms: int) -> list[str]:
        """Files that were removed before that moment, and that no version in ``named`` holds. None of these versions
        may be older than ``after``."""
        versions = sorted(named)
        return [
            path
            for path, removed_ms in self._removed_ms.items()
            if removed_ms < removed_before_ms
            and not self._is_held(path)
            and _FILE.fullmatch(path)
            and not _is_in_one_of(versions, self._events[path])
        ]

    def orphans(self, found: Iterable[FileInfo], now: datetime) -> list[str]:
        """Files of the table's folder that no commit names."""
        return [
            file.base_name
            for file in found
            if _WRITTEN.fullmatch(file.base_name)
            and file.base_name not in self._events
            and file.mtime is not None
            and now - file.mtime > ORPHAN_AGE
        ]

    @property
    def has_waiting(self) -> bool:
        """Whether removed files are not deleted yet."""
        return bool(self._removed_ms)

    def knows(self, path: str) -> bool:
        """Whether a commit has named the file, and it was not deleted."""
        return path in self._events

    def forget(self, path: str) -> None:
        """Note that a file was deleted."""
        self._events.pop(path, None)
        self._removed_ms.pop(path, None)


def _is_of_files(line: bytes) -> bool:
    return line.startswith((b'{"add"', b'{"remove"'))


def _is_in_one_of(versions: Sequence[int], events: Sequence[tuple[int, bool]]) -> bool:
    """Whether one of these sorted versions holds a file that is held no more: a table that is written all the time has
    as many of them as it has files."""
    since = 0  # a file whose first event is that it goes was there from the beginning
    for version, comes in events:
        if comes:
            since = version
        elif (first := bisect_left(versions, since)) < len(versions) and versions[first] < version:
            return True
    return False
