"""A lake's disk that is full: told with a remedy at whatever write it happens, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from tests.spark_consumer.memory_pipeline import job_over
from tests.spark_consumer.two_tables import begun, cut_rows, shown, transfer
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.manifest import writer
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.errors import classifying_errors

SAID = (
    "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data to file: "
    "No space left on device (os error 28)"
)
"""By delta-rs, on a file system of two megabytes."""
WRITES = {"plan row": 0, "first table": 1, "second table": 2, "published row": 3, "compaction of the manifest": 4}


class Disk:
    """Takes so many writes, then no more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def bounds(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """The same write, as long as there is room."""

        def wrapped(*given: Any, **options: Any) -> Any:
            self.room -= 1
            if self.room < 0:
                raise DeltaError(SAID)
            return write(*given, **options)

        return wrapped


@pytest.mark.parametrize("at", WRITES)
def test_full_disk_is_told_with_a_remedy_and_plans_go_on_when_there_is_room(
    lake: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """I5, I8: it is no table's own trouble, so each stays current."""
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 1)
    pipeline = begun()
    with job_over(pipeline, lake) as run:
        run()
        transfer(pipeline, 1)
        disk = Disk(WRITES[at])
        with monkeypatch.context() as full:
            full.setattr(writer, "write_deltalake", disk.bounds(write_deltalake))
            for of, name in ((LakeTable, "append"), (LakeTable, "merge"), (Manifest, "compact")):
                full.setattr(of, name, disk.bounds(getattr(of, name)))
            with pytest.raises(OperatorError, match="No space left on device") as told, classifying_errors():
                run()
        run()

    assert "make room" in told.value.remedy
    assert "nothing is lost" in told.value.remedy
    assert shown(lake) == {"accounts": [1], "history": [0, 1]}
    newest = cut_rows(lake)[-1]
    assert (newest.kind, {entry.state for entry in newest.tables}) == ("published", {"current"})
