"""Files of one table become another's: no row is read, and none is lost, doubled or seen in both."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.spark_consumer.delta.marked_rows import mark
from walbridge.spark_consumer.delta import folder
from walbridge.spark_consumer.delta.adopted_files import AdoptedFiles, MarkedRows
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.delta.commit import DATA, Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit

FIELDS = [LakeField("n", "long", {"pg.name": "N"}), LakeField("day", "date", {})]
COMMIT = Commit(plan="p/1/copy-7", app_id="p/1", txn_version=7, step=DATA)


def made(lake: Path, path: str, *numbers: int) -> LakeTable:
    """A table of one file for each number."""
    table = LakeTable.create(f"{lake}/{path}", FIELDS, Commit(plan=None), {})
    for number in numbers:
        table.append(rows(number), Commit(plan=None))
    return table


def rows(number: int) -> pa.RecordBatchReader:
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32())])
    return pa.table({"n": [number], "day": [None]}, schema=schema).to_reader()


def numbers(table: LakeTable) -> list[int]:
    return sorted(table.query("SELECT n FROM target").read_all()["n"].to_pylist())


@pytest.mark.parametrize("is_object_store", [False, True])
def test_files_are_the_other_tables_by_one_commit(
    lake: Path, monkeypatch: pytest.MonkeyPatch, is_object_store: bool
) -> None:
    """With the bounds that their own log has of them."""
    if is_object_store:  # the way of one, to a folder
        monkeypatch.setattr(folder, "local_folder", lambda _uri: None)
    source, target = made(lake, "_copies/1-7", 1, 2), made(lake, "public/t")
    files = AdoptedFiles.of(source, {})
    files.move(str(lake), "_copies/1-7", "public/t", {})
    bounds = source.file_statistics().drop_columns(["modification_time"])
    files.add_to(target, COMMIT, {})

    assert (target.version, numbers(target)) == (1, [1, 2])
    assert target.file_statistics().drop_columns(["modification_time"]).sort_by("path") == bounds.sort_by("path")
    assert (target.commits(1)[-1].plan, target.transaction_version("p/1")) == (COMMIT.plan, 7)
    assert [field.metadata for field in target.fields] == [field.metadata for field in FIELDS]
    assert not list((lake / "_copies" / "1-7").glob("*.parquet"))


def test_files_that_the_source_has_no_more_are_left_behind(lake: Path) -> None:
    source = made(lake, "_copies/1-7", 1, 2)
    source.overwrite(rows(3), Commit(plan=None))
    files = AdoptedFiles.of(source, {})

    assert len(files.files) == 1


def test_files_of_a_log_with_a_checkpoint_are_adopted_with_their_bounds(lake: Path) -> None:
    source, target = made(lake, "_copies/1-7", 1, 2), made(lake, "public/t")
    DeltaTable(source.uri).create_checkpoint()
    files = AdoptedFiles.of(source, {})
    files.move(str(lake), "_copies/1-7", "public/t", {})
    files.add_to(target, COMMIT, {})

    assert sorted(target.file_statistics()["max.n"].to_pylist()) == [1, 2]


def test_another_commit_to_the_table_is_noticed(lake: Path) -> None:
    source, target = made(lake, "_copies/1-7", 1), made(lake, "public/t")
    files = AdoptedFiles.of(source, {})
    files.move(str(lake), "_copies/1-7", "public/t", {})
    made_meanwhile = LakeTable.open(target.uri, {})
    assert made_meanwhile is not None
    made_meanwhile.append(rows(5), Commit(plan=None))

    with pytest.raises(ConcurrentCommit):
        files.add_to(target, COMMIT, {})


def test_a_table_with_marked_rows_is_not_adopted(lake: Path) -> None:
    """The commit could not say which: they would be there again (I5)."""
    made(lake, "_copies/1-7", 1)
    mark(lake / "_copies" / "1-7", [0])
    source = LakeTable.open(f"{lake}/_copies/1-7", {})
    assert source is not None

    with pytest.raises(MarkedRows):
        AdoptedFiles.of(source, {})


def test_a_file_that_is_gone_cannot_be_moved(lake: Path) -> None:
    source = made(lake, "_copies/1-7", 1)
    made(lake, "public/t")
    files = AdoptedFiles.of(source, {})
    for file in (lake / "_copies" / "1-7").glob("*.parquet"):
        file.unlink()

    with pytest.raises(FileNotFoundError):
        files.move(str(lake), "_copies/1-7", "public/t", {})
