"""Data files of a table that no version which anybody may read holds, though they are young.

In: the table's log, and the versions that rows of ``_cuts`` name. Out: files to delete. A vacuum goes by
age alone, and so would keep each file of each plan as long as the oldest row; Delta can be told versions
to keep, but reads the log anew for each of them.

The log is read forwards, each commit once: of every file, when it came and when it went (I8). A file
goes that went long enough ago, and was never there at a named version. What a commit says of its files
is all that is looked at, so whatever nobody's commit names is left to the vacuum, and so are files of
which a part is deleted by a vector of Spark's.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any

from deltalake.fs import DeltaStorageHandler

_FILE = re.compile(r"[\w.-]+\.parquet")
"""As delta-rs and Spark name them; any other, such as one in another folder, is left to the vacuum."""


class FileLives:
    """When each file came and went, from a version on. Of a file that was there before, only that it went."""

    def __init__(self, after: int) -> None:
        self.after = self.read_to = after
        self._events: dict[str, list[tuple[int, bool]]] = {}
        self._removed_ms: dict[str, int] = {}

    def read(self, files: DeltaStorageHandler, newest: int, commits_max: int) -> bool:
        """Read on, at most so many commits; whether the newest is reached.

        Raises:
            OSError: a commit cannot be read.
        """
        upto = min(newest, self.read_to + commits_max)
        while self.read_to < upto:
            with files.open_input_file(f"_delta_log/{self.read_to + 1:020}.json") as commit:
                lines = bytes(commit.read()).splitlines()
            self.add_commit(self.read_to + 1, map(json.loads, filter(_is_of_files, lines)))
        return self.read_to == newest

    def add_commit(self, version: int, actions: Iterable[Any]) -> None:
        """The next commit. A file that it removes and adds, with another vector, stays, which is no event (I9)."""
        removed: dict[str, int] = {}
        added: set[str] = set()
        for action in actions:
            if "remove" in action:
                removed[action["remove"]["path"]] = action["remove"].get("deletionTimestamp") or 0
            elif "add" in action:
                added.add(action["add"]["path"])
        for path in removed.keys() - added:
            self._events.setdefault(path, []).append((version, False))
            self._removed_ms[path] = removed[path]
        for path in added - removed.keys():
            self._events.setdefault(path, []).append((version, True))
        self.read_to = version

    def unnamed(self, named: Collection[int], removed_before_ms: int) -> list[str]:
        """Files that went before that moment, and that no named version holds. Versions before ``after`` have none."""
        return [
            path
            for path, events in self._events.items()
            if _FILE.fullmatch(path)
            and not events[-1][1]
            and self._removed_ms[path] < removed_before_ms
            and not any(_is_there(events, version) for version in named)
        ]

    def forget(self, path: str) -> None:
        """It was deleted."""
        del self._events[path], self._removed_ms[path]


def _is_of_files(line: bytes) -> bool:
    return line.startswith((b'{"add"', b'{"remove"'))


def _is_there(events: list[tuple[int, bool]], version: int) -> bool:
    before = bisect_right(events, (version, True))
    # A file whose first event is that it goes was there from the beginning.
    return events[before - 1][1] if before else not events[0][1]
