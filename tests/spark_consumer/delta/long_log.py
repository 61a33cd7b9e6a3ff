"""A table's log of many commits, as plans make them, without the plans: each replaces the table's one file."""

import json
import os
import uuid
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from walbridge.spark_consumer.delta.maintenance.log_files import commit_name
from walbridge.spark_consumer.delta.table import PROPERTIES


class LongLog:
    """A table of which every version holds one file, whose number of rows is the version."""

    def __init__(self, folder: Path, at: datetime) -> None:
        self.folder, self.log = folder, folder / "_delta_log"
        DeltaTable.create(str(folder), pa.schema([("n", pa.int64())]), configuration=dict(PROPERTIES))
        os.utime(self.log / commit_name(0), (at.timestamp(), at.timestamp()))
        self.version = 0
        self.file: str | None = None

    def commit(self, at: datetime) -> int:
        """Replace the file. Only the newest ones are on disk, and each is empty."""
        self.version += 1
        replaced, self.file = self.file, f"part-00001-{uuid.uuid4()}-c000.snappy.parquet"
        (self.folder / self.file).touch()
        at_ms = int(at.timestamp() * 1000)
        stats = json.dumps({"numRecords": self.version})
        common = {"partitionValues": {}, "size": 1, "dataChange": True}
        add = common | {"path": self.file, "modificationTime": at_ms, "stats": stats}
        actions: list[Any] = [
            {"commitInfo": {"timestamp": at_ms, "operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}},
            {"add": add},
        ]
        if replaced is not None:
            remove = common | {"path": replaced, "deletionTimestamp": at_ms, "extendedFileMetadata": True}
            actions.append({"remove": remove})
        self._write(actions, at)
        return self.version

    def _write(self, actions: Iterable[Any], at: datetime) -> None:
        path = self.log / commit_name(self.version)
        path.write_text("\n".join(map(json.dumps, actions)))
        os.utime(path, (at.timestamp(), at.timestamp()))
        if self.version % 20 == 19:
            DeltaTable(str(self.folder)).create_checkpoint()

    def rows(self, version: int | None = None) -> list[int]:
        """Rows of each file of a version."""
        found = pa.table(DeltaTable(str(self.folder), version=version).get_add_actions(flatten=True))
        return [each or 0 for each in found["num_records"].to_pylist()]

    def names(self) -> list[str]:
        """Files of the log."""
        return sorted(path.name for path in self.log.iterdir())
