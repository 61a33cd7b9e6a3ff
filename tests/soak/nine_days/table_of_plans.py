"""What plans leave behind in a lake of one table, without the plans.

In: a lake, and moments. Out: for each plan its rows in ``_cuts`` and a commit that replaces the table's one file.
"""

from __future__ import annotations

import json
import os
import uuid
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.transaction import AddAction

from tests.soak.nine_days.needed import NamingRow
from tests.spark_consumer.delta.long_log import LongLog
from walbridge.spark_consumer.delta.maintenance.log_files import commit_name
from walbridge.spark_consumer.delta.maintenance.maintenance import MANIFEST_ROWS_MAX
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE, record_of
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.kept_cuts import PUBLISHED, WrittenRow
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

PATH = "public/a"
PIPELINE = "p"
EPOCH = "7-1-s-0/10"


class DatedLog(LongLog):
    """A long log whose data files are as old as their commits, and which tells them by their version."""

    def __init__(self, folder: Path, at: datetime) -> None:
        super().__init__(folder, at)
        self.files: dict[int, str] = {}
        self.expected: dict[int, list[int]] = {0: []}
        """What ``rows`` returns of each version."""

    def commit(self, at: datetime) -> int:
        version = super().commit(at)
        assert self.file is not None
        self.files[version], self.expected[version] = self.file, [version]
        os.utime(self.folder / self.file, (at.timestamp(), at.timestamp()))
        return version

    def take_over(self) -> None:
        """Go on after commits of maintenance, which change no data."""
        while (self.log / commit_name(self.version + 1)).exists():
            self.version += 1
            self.expected[self.version] = self.expected[self.version - 1]
            if self.file is not None:
                self.files[self.version] = self.file


class ManifestInBatches(Manifest):
    """Writes as many rows by one commit as are compacted together, each in a file: an append lists a log of an hour."""

    def __init__(self, lake: str) -> None:
        super().__init__(lake, PIPELINE, {})
        self._folder = Path(lake) / CUTS_TABLE
        self._waiting: list[CutRow] = []

    def append(self, row: CutRow) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= MANIFEST_ROWS_MAX:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Write the rows that wait for others."""
        if not (rows := self._waiting):
            return
        self._waiting = []
        self._table.create_write_transaction(
            [self._file_of(row) for row in rows],
            "append",
            SCHEMA,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        self._table.update_incremental()
        self._sequence = rows[-1].sequence
        self._rows_since_compaction += len(rows)
        self._newest_cut.write(next(row for row in reversed(rows) if row.kind == PUBLISHED))

    def _file_of(self, row: CutRow) -> AddAction:
        """A file of one row, with what its statistics tell maintenance and readers."""
        file, now_s = self._folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet", row.written_at.timestamp()
        pq.write_table(pa.Table.from_pylist([record_of(row)], schema=SCHEMA), file)
        os.utime(file, (now_s, now_s))
        bounds = {
            "sequence": row.sequence,
            "kind": row.kind,
            "written_at": row.written_at.isoformat("T", "microseconds"),
        }
        told = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
        return AddAction(file.name, file.stat().st_size, {}, int(now_s * 1000), True, json.dumps(told))

    def lengthen_log(self, commits: int, after_checkpoint: int) -> None:
        """Append commits that change nothing, as the rows would have been without batches. The last ones come after the
        checkpoint."""
        self._append_empty(commits - after_checkpoint)
        self._table.create_checkpoint()
        self._append_empty(after_checkpoint)

    def _append_empty(self, commits: int) -> None:
        log, first = self._folder / "_delta_log", self._table.version() + 1
        for version in range(first, first + commits):
            written = log / f".{commit_name(version)}.tmp"
            written.write_text('{"commitInfo":{"operation":"WRITE"}}\n')
            written.rename(log / commit_name(version))
        self._table.update_incremental()


def write_plan(log: DatedLog, manifest: Manifest, now: datetime) -> list[NamingRow]:
    """One plan: its row, a commit, the row that publishes it."""
    log.take_over()
    plan = _append(manifest, 2 * log.version + 1, "plan", log.version, now)
    log.commit(now)
    return [plan, _append(manifest, plan.row.sequence + 1, PUBLISHED, log.version, now)]


def _append(manifest: Manifest, sequence: int, kind: str, version: int, now: datetime) -> NamingRow:
    entry = TableEntry(1, "public", "a", "p.public.a", PATH, version, "0" * 16, "current")
    manifest.append(
        CutRow(sequence, kind, PIPELINE, EPOCH, sequence, sequence, sequence, 100 + sequence, now, now, (entry,))
    )
    return NamingRow(WrittenRow(sequence, kind, now), version)
