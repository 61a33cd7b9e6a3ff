"""An executor that comes later may have another disk where the lake is: what it writes there is in no table (I8)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.in_soak import in_soak, in_variants
from tests.spark_consumer.apply import test_frame_writer as frames
from tests.spark_consumer.apply.test_appliers import ITEMS, engines, event, rows
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import changed, copied
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.apply import appliers as appliers_module
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold import segment_rows
from walbridge.spark_consumer.kafka import change_reader, slices
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import TableHead

KEYS = range(40)
Lose = Callable[[str], None]


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment of two records is, and each table for a merge."""
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    monkeypatch.setattr(slices, "SLICE_ROWS_MAX", 1)
    monkeypatch.setattr(segment_rows, "ONE_TASK_ROWS_MAX", 1)
    monkeypatch.setattr(appliers_module, "DRIVER_MAX", Volume(1, 1))
    monkeypatch.setattr(appliers_module, "REWRITTEN_BYTES_MIN", 1)


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Have what the next commit of executors writes on another disk: each file whose name ends so."""
    endings: list[str] = []
    advance_over = LakeTable.advance_over

    def with_loss(table: LakeTable, *rest: Any) -> None:
        lost = [file for ending in endings for file in _newest_files(Path(table.uri), ending)]
        for file in lost:
            file.unlink()
            endings.clear()
        advance_over(table, *rest)

    monkeypatch.setattr(LakeTable, "advance_over", with_loss)
    return endings.append


def _newest_files(folder: Path, ending: str) -> list[Path]:
    """Written since the last but one commit."""
    before = sorted((folder / "_delta_log").glob("*.json"))[-2].stat().st_mtime_ns
    return [file for file in folder.glob(f"*{ending}") if file.stat().st_mtime_ns > before]


def forty(lake: Path) -> TableHead:
    return copied(None, lake, ITEMS, *[{"id": key, "body": "b", "n": 0} for key in KEYS])


NEW = [event("c", at, id=100 + at, body="new", n=at) for at in range(2)]
UPDATED = [event("u", 0, id=1, body="x", n=7)]
CASES = pytest.mark.parametrize(
    ("changes", "ending"),
    [in_variants(NEW, ".parquet"), in_soak(UPDATED, ".parquet"), (UPDATED, ".bin")],
    ids=["a file of new rows", "a file of a merge", "a file of deletion vectors"],
)


def applied_by(spark: SparkSession, lake: Path, base: TableHead, changes: list[Any], appliers: Appliers) -> TableHead:
    """New rows are a frame of Spark's, and those of a merge are held by the driver."""
    return changed(spark if changes is NEW else None, lake, base, *changes, appliers=appliers)


def expected(changes: list[Any]) -> list[list[Any]]:
    found = {key: [key, "b", 0] for key in KEYS}
    found |= {each.after["id"]: [*each.after.values()] for each in changes}
    return sorted(found.values(), key=repr)


@CASES
def test_driver_writes_what_executors_wrote_to_another_disk(
    spark: SparkSession, lake: Path, lose: Lose, changes: list[Any], ending: str
) -> None:
    """I5, I8: and all else from then on."""
    base, auto = forty(lake), Appliers("auto", spark)
    lose(ending)

    head = applied_by(spark, lake, base, changes, auto)

    assert rows(lake, head) == expected(changes)
    assert engines(lake, head) == ["spark", "local"]
    assert auto.setting == "local"
    assert applied_by(spark, lake, base, changes, auto) == head


@pytest.mark.variant(of="test_driver_writes_what_executors_wrote_to_another_disk")
@CASES
def test_job_whose_settings_ask_for_executors_stops_with_the_table_as_it_was(
    spark: SparkSession, lake: Path, lose: Lose, changes: list[Any], ending: str
) -> None:
    """I8: nobody reads a version that names lost files; with the folder mounted the plan is done."""
    base = forty(lake)
    lose(ending)

    with pytest.raises(OperatorError, match="wrote to another disk than the driver's") as told:
        applied_by(spark, lake, base, changes, Appliers("spark", spark))
    table = LakeTable.open(f"{lake}/{base.path}", {})
    assert table is not None
    assert table.query("SELECT * FROM target").read_all().num_rows == len(KEYS)
    assert "mount the lake at the same path" in told.value.remedy

    head = applied_by(spark, lake, base, changes, Appliers("spark", spark))
    assert rows(lake, head) == expected(changes)


@pytest.mark.variant(of="test_driver_writes_what_executors_wrote_to_another_disk")
@pytest.mark.parametrize("then", [in_soak("local"), "spark"])
def test_start_after_a_kill_takes_no_lost_file_for_work_that_is_done(
    spark: SparkSession, lake: Path, crash_at: Counter[str], then: str
) -> None:
    """I5: what a commit says of itself is not enough."""
    base = forty(lake)
    crash_at["apply:segment-applied"] = 1
    with pytest.raises(Crash):
        changed(spark, lake, base, *NEW, appliers=Appliers("spark", spark))
    _newest_files(lake / base.path, ".parquet")[-1].unlink()

    heads = [changed(spark, lake, base, *NEW, appliers=Appliers(then, spark)) for _ in range(2)]

    assert rows(lake, heads[0]) == expected(NEW)
    assert heads[0] == heads[1]


@pytest.mark.variant(of="test_driver_writes_what_executors_wrote_to_another_disk")
def test_copy_of_which_files_are_lost_is_begun_again(spark: SparkSession, lake: Path, lose: Lose) -> None:
    """I8: no published version is there to go back to."""
    lose(".parquet")
    auto = Appliers("auto", spark)

    heads = [frames.copied(spark, lake, ITEMS, auto, {"id": 1, "body": "b"}, {"id": 2}) for _ in range(2)]

    assert frames.bodies(lake, heads[0]) == [(1, "b"), (2, None)]
    assert heads[0] == heads[1]


@pytest.mark.variant(of="test_driver_writes_what_executors_wrote_to_another_disk")
def test_checkpoint_that_an_executor_wrote_elsewhere_is_not_missed(spark: SparkSession, lake: Path, lose: Lose) -> None:
    """Delta has executors write it, and the driver names it: nobody opens a table without the one that is named."""
    head = forty(lake)
    DeltaTable(str(lake / head.path)).create_checkpoint()
    hint = json.loads((lake / head.path / "_delta_log" / "_last_checkpoint").read_text())
    (lake / head.path / "_delta_log" / f"{hint['version']:020}.checkpoint.parquet").unlink()

    change = event("u", 0, id=1, body="z", n=0)
    head = changed(None, lake, head, change, appliers=Appliers("spark", spark))

    assert rows(lake, head)[1] == [1, "z", 0]
