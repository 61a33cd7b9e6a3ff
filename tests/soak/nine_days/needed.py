"""What kept cuts need of a table, told without the code that deletes.

In: every row that was written to ``_cuts``, each with the version that it names; names of files. Out: the versions that
a reader may read, and the files that these need. A reader may read what a row names, or named an hour ago.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from walbridge.spark_consumer.plan.kept_cuts import Retention, WrittenRow, dropped

READERS = timedelta(hours=1)


class NamingRow(NamedTuple):
    """A row of ``_cuts``, and the version of the one table that it names."""

    row: WrittenRow
    version: int


@dataclass
class Rows:
    """Rows by sequence. Those that no reader may read any more are left out as time passes."""

    retention: Retention
    may_be_read: list[NamingRow]

    def kept(self, now: datetime) -> list[NamingRow]:
        """Rows that are kept of those that were written by ``now``."""
        there = [each for each in self.may_be_read if each.row.written_at <= now]
        gone = {
            sequence
            for first, last in dropped([each.row for each in there], self.retention, now)
            for sequence in range(first, last + 1)
        }
        return [each for each in there if each.row.sequence not in gone]

    def versions(self, now: datetime) -> set[int]:
        """Versions that a reader may read."""
        earlier = now - READERS
        later = [each for each in self.may_be_read if each.row.written_at > earlier]
        before = self.kept(earlier)
        self.may_be_read = before + later
        return {each.version for each in before + self.kept(now)}


@dataclass(frozen=True)
class Beyond:
    """Files beyond those that the versions need, and the needed ones that are gone."""

    log: int
    data: int
    lost: list[str]


def beyond(file_of: Mapping[int, str], files: Iterable[str], names: Iterable[str], versions: Iterable[int]) -> Beyond:
    """Args:
    file_of: the data file of each version that has one; the last is the newest version.
    files: of the table's folder.
    names: of its log.
    """
    log = {name for name in names if name[0].isdigit()}
    checkpoints = sorted(int(name[:20]) for name in log if name.endswith(".checkpoint.parquet"))
    needed, held = set[str](), set[str]()
    for version in {*versions, max(file_of)}:
        at = bisect_right(checkpoints, version)
        base = checkpoints[at - 1] if at else -1
        needed |= {f"{each:020}.json" for each in {*range(base + 1, version + 1), version}}
        if at:
            needed.add(f"{base:020}.checkpoint.parquet")
        if version:
            held.add(file_of[version])
    data = {name for name in files if name.endswith(".parquet")}
    return Beyond(len(log - needed), len(data - held), sorted((needed - log) | (held - data)))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
