"""Between plans: fewer files, same rows, and nothing a reader can still ask for is deleted."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from schemas.settings import Settings
from spark_consumer.delta import maintenance
from spark_consumer.delta.maintenance import Maintenance, small_file_count
from spark_consumer.delta.manifest import Manifest
from spark_consumer.plan.manifest_row import CutRow, TableEntry

EPOCH = "7-1-s-0/10"
PATH = "public/a"


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    return Manifest(str(lake), "p", {})


@pytest.fixture
def tidying(lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Maintenance:
    """Maintenance with small limits."""
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 4)
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 3)
    monkeypatch.setattr(maintenance, "SMALL_FILES_MAX", 2)
    settings = Settings(name="p", lake={"path": str(lake), "cut_retention_hours": 1})  # type: ignore[arg-type]
    return Maintenance(str(lake), manifest, settings)


def publish(manifest: Manifest, sequence: int, version: int, written_at: datetime | None = None) -> CutRow:
    entry = TableEntry(1, "public", "a", "p.public.a", PATH, version, "0" * 16, "current")
    lsn = 100 + sequence
    cuts, offset, now = (sequence, sequence), 2 * sequence, datetime.now(UTC)
    row = CutRow(sequence, "published", "p", EPOCH, *cuts, offset, lsn, None, written_at or now, (entry,))
    manifest.append(row)
    return row


def append(lake: Path, n: int) -> int:
    write_deltalake(str(lake / PATH), pa.table({"n": [n]}), mode="append")
    return DeltaTable(str(lake / PATH)).version()


def values(lake: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(str(lake / PATH), version=version).to_pyarrow_table()["n"].to_pylist())


def test_a_table_of_small_files_is_merged_and_holds_the_same_rows(tidying: Maintenance, lake: Path) -> None:
    for n in range(3):
        append(lake, n)
        tidying.after_plan([PATH])

    table = DeltaTable(str(lake / PATH))
    assert small_file_count(table) == 1
    assert values(lake) == [0, 1, 2]


def test_a_merge_of_files_changes_no_data_for_those_who_follow_the_log(tidying: Maintenance, lake: Path) -> None:
    """I5: the head of a table is its base plus commits without data change."""
    for n in range(3):
        append(lake, n)
        tidying.after_plan([PATH])

    operations = [entry["operation"] for entry in DeltaTable(str(lake / PATH)).history(3)]
    assert "OPTIMIZE" in operations
    assert set(operations) <= {"OPTIMIZE", "VACUUM START", "VACUUM END", "WRITE"}


def test_every_version_that_a_kept_row_names_stays_readable(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8, also where the newest published row is older than the retention."""
    long_ago = datetime.now(UTC) - timedelta(days=40)
    for n in range(3):
        publish(manifest, n + 1, append(lake, n), long_ago)
        tidying.after_plan([PATH])

    row = manifest.newest()
    assert row is not None
    assert values(lake, row.tables[0].version) == [0, 1, 2]


def test_the_manifest_is_compacted_after_so_many_rows(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    rows = []
    for n in range(1, 5):
        rows.append(publish(manifest, n, n))
        tidying.after_plan([])

    assert len(DeltaTable(str(lake / "_cuts")).file_uris()) == 1
    assert manifest.newest() == rows[-1]


def test_rows_older_than_the_retention_leave_the_manifest(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    for n in range(1, 5):
        publish(manifest, n, n, datetime.now(UTC) - timedelta(hours=2 if n < 3 else 0))
        tidying.after_plan([])

    assert sorted(DeltaTable(str(lake / "_cuts")).to_pyarrow_table()["sequence"].to_pylist()) == [3, 4]


def test_one_thing_is_tidied_in_a_gap(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """No plan waits for more than one table."""
    for n in range(3):
        append(lake, n)
        publish(manifest, n + 1, n)
        tidying.after_plan([PATH] if n else [])
    append(lake, 3)
    publish(manifest, 4, 3)
    tidying.after_plan([PATH])

    assert len(DeltaTable(str(lake / "_cuts")).file_uris()) == 1
    assert small_file_count(DeltaTable(str(lake / PATH))) == 4
