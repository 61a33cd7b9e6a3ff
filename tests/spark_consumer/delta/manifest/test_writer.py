"""The manifest: one commit a row, exact versions, newest row."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.in_soak import in_variants
from tests.spark_consumer.delta.set_by_others import UNWRITABLE, set_features
from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.manifest import writer
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, open_table, published_rows
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA
from walbridge.spark_consumer.delta.manifest.published import published
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.kept_cuts import Retention
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, parse_epoch
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy

EPOCH = Epoch("7000000000000000001", 1, "wal_bridge", 0x1_0000_0010)
ENTRY = TableEntry(1, "public", "a", "p.public.a", "public/a", None, "0" * 16, "copying")
NOW = datetime.now(UTC).replace(microsecond=0)
WEEK = Retention(timedelta(hours=1), timedelta(days=1), timedelta(days=7))


def row(sequence: int, kind: str = "published", **fields: object) -> CutRow:
    plain = CutRow(
        sequence, kind, "p", str(EPOCH), sequence, sequence, 2 * sequence, 100 + sequence, None, NOW, (ENTRY,)
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    return Manifest(str(lake), "p", {})


def test_a_new_lake_has_no_newest_row(manifest: Manifest) -> None:
    assert manifest.newest() is None


def test_a_row_is_read_back_as_it_was_written(manifest: Manifest, lake: Path) -> None:
    first = row(1, "plan", commit_time=NOW, tables=(ENTRY, replace(ENTRY, relation_id=2, version=7, since=5)))
    manifest.append(first)

    assert Manifest(str(lake), "p", {}).newest() == first


def test_copies_that_go_on_are_read_back_as_they_were_written(manifest: Manifest, lake: Path) -> None:
    shapes = (CopyShape(0x2000, -1, "0" * 16), CopyShape(0x3000, 4, "1" * 16))
    copy = PendingCopy(ENTRY.topic, shapes, (CopyRange(0, 5, 9, 4), CopyRange(1, 0, 2, 2)))
    ended = replace(ENTRY, relation_id=3, copy_from=copy.ended())
    tables = replace(ENTRY, copy_from=copy), replace(ENTRY, relation_id=2), ended
    manifest.append(row(1, tables=tables))

    assert Manifest(str(lake), "p", {}).newest() == row(1, tables=tables)


@pytest.mark.parametrize("lacks", [{"shapes_at_end"}, {"shapes_at_end", "why"}, {"shapes_at_end", "why", "copy_from"}])
def test_a_manifest_of_earlier_versions_is_read_and_carried_on(lake: Path, lacks: set[str]) -> None:
    """It has no column for copies that go on, their ends, or trouble; from the first new row on earlier versions refuse
    it."""
    entry = pa.struct([field for field in SCHEMA.field("tables").type.value_type if field.name not in lacks])
    old = SCHEMA.set(SCHEMA.get_field_index("tables"), pa.field("tables", pa.list_(entry)))
    written = row(1, tables=(replace(ENTRY, version=7),))
    write_deltalake(str(lake / "_cuts"), pa.Table.from_pylist([asdict(written)], schema=old))

    manifest = Manifest(str(lake), "p", {})
    assert manifest.newest() == written
    copy = PendingCopy(ENTRY.topic, (CopyShape(0x2000, -1, "0" * 16),), (CopyRange(0, 5, 9, 4),), 1)
    manifest.append(row(2, tables=(replace(ENTRY, copy_from=copy, why="is gone"),)))
    manifest.compact()

    assert manifest.newest() == row(2, tables=(replace(ENTRY, copy_from=copy, why="is gone"),))
    assert manifest.finished_before(row(2)) == written
    found = open_table(str(lake))
    assert found is not None
    assert newest_published(found, 101) == written


def test_the_newest_row_is_the_one_with_the_highest_sequence(manifest: Manifest) -> None:
    for n in range(1, 13):
        manifest.append(row(n))

    assert manifest.newest() == row(12)


def test_the_row_that_a_plan_started_from_is_found(manifest: Manifest) -> None:
    for each in (row(1), row(2, "plan")):
        manifest.append(each)

    assert manifest.finished_before(row(2, "plan")) == row(1)


def test_of_two_jobs_on_one_lake_the_second_to_append_stops(manifest: Manifest, lake: Path) -> None:
    """I5: put-if-absent fences a second job."""
    other = Manifest(str(lake), "p", {})
    manifest.append(row(1, "plan"))

    with pytest.raises(OperatorError, match="second Spark job"):
        other.append(row(1, "plan"))


def test_a_second_job_is_noticed_by_maintenance_too(manifest: Manifest, lake: Path) -> None:
    manifest.append(row(1))
    other = Manifest(str(lake), "p", {})
    manifest.append(row(2))

    with pytest.raises(OperatorError, match="second Spark job"):
        other.compact()


def test_a_lake_of_another_pipeline_is_refused(manifest: Manifest, lake: Path) -> None:
    manifest.append(row(1))

    with pytest.raises(OperatorError, match="belongs to pipeline p"):
        Manifest(str(lake), "q", {})


@pytest.mark.parametrize("put", [Path.touch, Path.mkdir, lambda path: path.symlink_to(path)])
def test_manifest_whose_files_others_replaced_has_lost_them(
    manifest: Manifest, lake: Path, put: Callable[[Path], object]
) -> None:
    manifest.append(row(1))
    for file in (lake / "_cuts").glob("*.parquet"):
        file.unlink()
        put(file)

    with pytest.raises(OperatorError, match="has lost files, or they are damaged"):
        Manifest(str(lake), "p", {})


def test_manifest_whose_files_are_lost_is_told_until_they_are_back(manifest: Manifest, lake: Path) -> None:
    """Such an error is one of the system, too: `walbridge status` and `check` say it in one line."""
    manifest.append(row(1))
    shutil.copytree(lake, lake.parent / "backup")
    for file in (lake / "_cuts").glob("*.parquet"):
        file.unlink()

    for look in (manifest.newest, lambda: manifest.versions_in_rows("public/a")):
        with pytest.raises(OSError, match="has lost files, or they are damaged") as told:
            look()
        assert isinstance(told.value, OperatorError)
        assert "from a backup" in told.value.remedy
    shutil.rmtree(lake)
    (lake.parent / "backup").rename(lake)
    assert Manifest(str(lake), "p", {}).newest() == row(1)


@pytest.mark.parametrize("feature", ["clustering, domainMetadata", "delta.columnMapping.mode"])
def test_manifest_on_which_another_program_set_what_cannot_be_written_is_told_at_once(
    manifest: Manifest, lake: Path, feature: str
) -> None:
    manifest.append(row(1))
    shutil.copytree(lake, lake.parent / "backup")
    set_features(lake / "_cuts", UNWRITABLE[feature])

    with pytest.raises(OperatorError, match=rf"/_cuts/? cannot be written any more: .* set {feature} on it") as refused:
        Manifest(str(lake), "p", {})
    assert "from a backup" in refused.value.remedy
    shutil.rmtree(lake)
    (lake.parent / "backup").rename(lake)
    Manifest(str(lake), "p", {}).append(row(2))


def test_manifest_that_another_program_let_nobody_delete_from_drops_rows_all_the_same(
    manifest: Manifest, lake: Path
) -> None:
    for n in range(1, 4):
        manifest.append(row(n))
    set_features(lake / "_cuts", UNWRITABLE["delta.appendOnly"])
    again = Manifest(str(lake), "p", {})
    again.append(row(4))

    again.thin(WEEK, NOW + timedelta(days=30))

    assert [each.sequence for each in published(str(lake))] == [4]


def test_manifest_whose_rows_another_program_set_a_limit_to_gets_its_rows_all_the_same(
    manifest: Manifest, lake: Path
) -> None:
    manifest.append(row(1))
    DeltaTable(lake / "_cuts").alter.add_constraint({"some": "sequence < 2", "other": "to_cut < 2"})

    with pytest.raises(OperatorError, match="a second Spark job") as refused:
        manifest.append(row(2))
    assert "start this one again" in refused.value.remedy
    Manifest(str(lake), "p", {}).append(row(2))

    assert Manifest(str(lake), "p", {}).newest() == row(2)


def test_compaction_keeps_every_row_in_fewer_files(manifest: Manifest, lake: Path) -> None:
    for n in range(1, 6):
        manifest.append(row(n))
    manifest.compact()
    manifest.append(row(6))

    table = DeltaTable(str(lake / "_cuts"))
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == [1, 2, 3, 4, 5, 6]
    assert len(table.file_uris()) == 2


def test_old_rows_are_dropped_but_not_the_newest_published_nor_a_plan_after_it(manifest: Manifest, lake: Path) -> None:
    """I8: what readers take stays, however old it is."""
    old = NOW - timedelta(days=30)
    for n in range(1, 4):
        manifest.append(row(n, written_at=old))
    manifest.append(row(4, "plan", written_at=old))
    manifest.thin(WEEK, NOW)

    assert sorted(DeltaTable(str(lake / "_cuts")).to_pyarrow_table()["sequence"].to_pylist()) == [3, 4]
    assert manifest.newest() == row(4, "plan", written_at=old)


def test_the_oldest_row_tells_how_long_versions_are_needed(manifest: Manifest) -> None:
    assert manifest.oldest_written_at() is None
    for n, days in enumerate((2, 30, 1), 1):
        manifest.append(row(n, written_at=NOW - timedelta(days=days)))

    assert manifest.oldest_written_at() == NOW - timedelta(days=30)


def test_the_row_of_a_second_job_is_not_written(manifest: Manifest, lake: Path) -> None:
    """I5: a second plan row would be finished by whoever starts next."""
    other = Manifest(str(lake), "p", {})
    manifest.append(row(1))
    with pytest.raises(OperatorError, match="second Spark job"):
        other.append(row(1, "plan"))

    assert DeltaTable(str(lake / "_cuts")).to_pyarrow_table()["kind"].to_pylist() == ["published"]


def test_young_rows_are_kept(manifest: Manifest, lake: Path) -> None:
    for n in range(1, 4):
        manifest.append(row(n))
    manifest.thin(WEEK, NOW)

    assert DeltaTable(str(lake / "_cuts")).to_pyarrow_table().num_rows == 3


def test_appends_go_on_after_a_vacuum(manifest: Manifest) -> None:
    manifest.append(row(1))
    manifest.compact()
    manifest.vacuum()
    manifest.append(row(2))

    assert manifest.newest() == row(2)


def test_the_published_row_at_an_lsn_is_the_newest_that_ends_there_or_before(manifest: Manifest, lake: Path) -> None:
    for n, kind in enumerate(("published", "plan", "published", "plan", "applied"), 1):
        manifest.append(row(n, kind))
    table = open_table(str(lake))
    assert table is not None

    found = {lsn: newest_published(table, lsn) for lsn in (100, 101, 102, 103, 200)}
    assert {lsn: row and row.sequence for lsn, row in found.items()} == {100: None, 101: 1, 102: 1, 103: 3, 200: 3}


def test_an_epoch_is_read_back_from_its_text() -> None:
    assert parse_epoch(str(EPOCH)) == EPOCH


def test_folder_that_lost_its_storage_gets_no_row(manifest: Manifest, lake: Path) -> None:
    """I8: a row in the empty mount point would be a second state, beside the one that the storage has."""
    manifest.append(row(1))
    lake.rename(lake.parent / "elsewhere")
    lake.mkdir()

    with pytest.raises(OperatorError, match="mount the lake's storage again"):
        manifest.append(row(2))
    assert list(lake.iterdir()) == []


@pytest.mark.variant(of="test_files_stay_few_also_while_rows_wait_for_others_to_be_merged")
def test_rows_that_come_are_merged_without_those_of_before(
    manifest: Manifest, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each gap between plans would be as long as all rows that are kept take; and yet there are few files."""
    monkeypatch.setattr(writer, "FILE_ROWS", 12)
    monkeypatch.setattr(writer, "FILES_MAX", 8)
    dice, files, stayed = random.Random(1), list[set[str]](), 0
    for sequence in range(1, 121):
        manifest.append(row(sequence, tables=(replace(ENTRY, why=dice.randbytes(10_000).hex()),)))
        if sequence % 4 == 0:
            manifest.compact()
            files.append({*DeltaTable(str(lake / "_cuts")).file_uris()})
            stayed += len(files) > 1 and bool(files[-1] & files[-2])

    assert stayed > 20
    assert max(map(len, files)) <= 8
    assert [each.sequence for each in published_rows(manifest._table)] == [*range(1, 121)]


@pytest.mark.parametrize("rows", [in_variants(12), 13])
def test_files_stay_few_also_while_rows_wait_for_others_to_be_merged(
    manifest: Manifest, lake: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Each row is a file until then; a plan has one or two."""
    monkeypatch.setattr(writer, "FILE_ROWS", rows)
    dice, files = random.Random(1), list[int]()
    for sequence in range(1, 10 * rows + 1):
        manifest.append(row(sequence, tables=(replace(ENTRY, why=dice.randbytes(10_000).hex()),)))
        files.append(len(DeltaTable(str(lake / "_cuts")).file_uris()))
        if sequence % rows == 0:
            manifest.compact()

    assert 18 < max(files) <= 20


def test_log_goes_back_an_hour_and_little_more(lake: Path) -> None:
    """I8: rows as they were an hour ago are read. Only compactions cut the log: what has expired is seen from all of
    it."""
    Manifest(str(lake), "p", {})
    DeltaTable(str(lake / "_cuts")).alter.set_table_properties({"delta.checkpointInterval": "10"})
    manifest, log, now = Manifest(str(lake), "p", {}), lake / "_cuts" / "_delta_log", datetime.now(UTC)
    hour_ago, of_then = now - timedelta(hours=1), set[int]()
    for file in log.iterdir():
        os.utime(file, ((now - timedelta(hours=3)).timestamp(),) * 2)
    for sequence in range(1, 40):
        at = now - timedelta(minutes=4 * (39 - sequence))
        manifest.append(row(sequence, tables=(replace(ENTRY, version=sequence),)))
        of_then |= {sequence} if at <= hour_ago else set()
        for file in log.glob(f"{manifest.version:020}.*"):
            os.utime(file, (at.timestamp(), at.timestamp()))
    assert (log / f"{0:020}.json").exists()
    manifest.compact()

    assert manifest.replaced_versions(ENTRY.path, hour_ago) == of_then
    assert min(int(file.name[:20]) for file in log.glob("0*")) >= 10
