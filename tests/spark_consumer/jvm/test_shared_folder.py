"""Executors that do not share the driver's folder are not asked to write there."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.jvm import shared_folder
from walbridge.spark_consumer.jvm.shared_folder import LINES, executors_write, reason_against


def write_by_tasks(folder: str) -> None:
    Path(folder).mkdir(parents=True)
    for number in range(LINES):
        (Path(folder) / f"part-{number:05}.txt").write_text(f"{number}\n")


def test_what_executors_write_is_looked_for_and_removed(tmp_path: Path) -> None:
    assert reason_against(write_by_tasks, tmp_path / "lake") is None
    assert not [*(tmp_path / "lake").iterdir()]


def test_executors_that_write_to_another_disk_are_found_out(tmp_path: Path) -> None:
    def write(folder: str) -> None:
        Path(folder).mkdir()
        (Path(folder) / "_SUCCESS").touch()

    assert reason_against(write, tmp_path) == "what they write is not in the driver's folder"
    assert not [*tmp_path.iterdir()]


def test_one_executor_that_writes_elsewhere_is_enough(tmp_path: Path) -> None:
    def write(folder: str) -> None:
        write_by_tasks(folder)
        (Path(folder) / "part-00002.txt").unlink()

    assert reason_against(write, tmp_path) == "what they write is not in the driver's folder"


def test_folder_that_nobody_can_write_to_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")

    reason = reason_against(write_by_tasks, tmp_path / "lake")

    assert reason is not None
    assert "Not a directory" in reason


def test_text_of_a_job_that_fails_is_not_shown(tmp_path: Path) -> None:
    """I10: the system's own words are, as in any other error of a disk."""

    def write(folder: str) -> None:
        raise PySparkException(f"hunter2\nCaused by: java.io.FileNotFoundException: {folder} (Read-only file system)")

    reason = reason_against(write, tmp_path)

    assert reason == "a file of the lake, or a scratch file, cannot be written or read: Read-only file system"


@pytest.mark.parametrize("cores", [[], [2]])
def test_nothing_is_said_of_the_folder_while_no_executor_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: list[int]
) -> None:
    """The answer holds for as long as the job runs."""
    monkeypatch.setattr(shared_folder, "is_cluster", lambda _: True)
    monkeypatch.setattr(shared_folder, "executor_cores", lambda _: cores)
    spark = MagicMock()
    spark.range.side_effect = PySparkException("cancelled")

    with nullcontext() if cores else pytest.raises(RetryableError):
        assert executors_write(spark, str(tmp_path)) is False


@pytest.mark.parametrize(("path", "shared"), [("/lake", True), ("s3://bucket/lake", False)])
def test_a_job_without_other_processes_writes_to_any_folder(spark: SparkSession, path: str, shared: bool) -> None:
    assert executors_write(spark, path) is shared
