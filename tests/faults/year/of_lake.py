"""What happens to the lake: others write to it, tidy it, its disk is full, the power fails."""

from __future__ import annotations

import shutil
from pathlib import Path

from deltalake import DeltaTable

from tests.faults.year.of_database import large_transaction
from tests.faults.year.year_stage import BUSY, YearStage


def folder_removed(stage: YearStage) -> None:
    shutil.rmtree(_folder(stage, "pgbench_tellers"))


def written_by_others(stage: YearStage) -> None:
    """Rows are deleted from the lake by another tool."""
    DeltaTable(str(_folder(stage, "pgbench_branches"))).delete()


def checkpoint_removed(stage: YearStage) -> None:
    """Somebody tidies the lake, while its job is down."""
    stage.job.kill()
    shutil.rmtree(stage.lake / "_checkpoint", ignore_errors=True)


def folder_restored(stage: YearStage) -> None:
    """From a backup of that table alone."""
    folder = _folder(stage, BUSY)
    backup = folder.with_name("backup")
    shutil.copytree(folder, backup)
    stage.play(4)
    stage.job.kill()
    shutil.rmtree(folder)
    backup.rename(folder)


def disk_full(stage: YearStage) -> None:
    """In the middle of whatever is written."""
    stage.disk.fill()
    stage.attendant.knows("make room", stage.disk.make_room)
    large_transaction(stage)


def power_lost(stage: YearStage) -> None:
    """The newest commits have names and nothing in them."""
    stage.job.kill()
    for folder in (_folder(stage, BUSY), stage.lake / "_cuts"):
        newest = max((folder / "_delta_log").glob("[0-9]*.json"))
        newest.write_bytes(b"")


def lake_linked(stage: YearStage) -> None:
    """It is moved, and its path in the settings is a link from then on."""
    stage.job.stop()
    link = stage.config.with_name(f"lake-{stage.dice.randrange(10**6)}")
    link.symlink_to(stage.lake)
    stage.attendant.set("lake", "path", f'"{link}"')


def _folder(stage: YearStage, table: str) -> Path:
    return stage.folder_of(table)
