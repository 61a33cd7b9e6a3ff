"""Folders of dropped tables go between plans, however many of them wait."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_consumer.delta.maintenance.test_maintenance import EPOCH, Clock
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest import manifest_reader
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

WAITING = 5


def test_all_rows_are_asked_once_for_all_folders_that_wait(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: that which a kept row names stays, and every other goes."""
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 1)
    manifest, clock = Manifest(str(lake), "p", {}), Clock()
    dropped = [
        TableEntry(n, "public", f"t{n}", f"p.public.t{n}", f"public/t{n}", None, "0" * 16, "dropped")
        for n in range(WAITING)
    ]
    for entry in dropped:
        write_deltalake(str(lake / entry.path), pa.table({"n": [1]}))
    now = datetime.now(UTC)
    row = CutRow(1, "published", "p", EPOCH, 1, 1, 1, 1, None, now - timedelta(minutes=5), ())
    manifest.append(replace(row, tables=(replace(dropped[0], version=0, state="current"), *dropped[1:])))
    manifest.append(replace(row, sequence=2, written_at=now, tables=tuple(dropped)))
    clock.now += timedelta(hours=2)
    scans = []
    heads = manifest_reader._heads

    def counted(table: DeltaTable, *rest: Any) -> Any:
        scans.append(table.version())
        return heads(table, *rest)

    monkeypatch.setattr(manifest_reader, "_heads", counted)
    settings = Settings(name="p", lake={"path": str(lake), "dropped_tables": "drop"})  # type: ignore[arg-type]
    tidying = Maintenance(str(lake), manifest, settings, clock)
    tidying.after_plan([])

    assert tidying.deleted == {entry.path for entry in dropped[1:]}
    assert [entry.path for entry in dropped if (lake / entry.path).exists()] == [dropped[0].path]
    assert len(scans) == 2
