"""One table's trouble is a state of that table: readers are refused it, all others go on, and a copy mends it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import kill_points
from tests.spark_consumer.memory_pipeline import MemoryPipeline
from tests.spark_consumer.two_tables import Run, accounts, copy_again, cut_rows, history, killed_at, rows_of, transfer
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.manifest.manifest_reader import open_table


def logs(lake: Path) -> list[Path]:
    return sorted((lake / "public" / "accounts" / "_delta_log").glob("*.json"))


def remove(lake: Path) -> None:
    shutil.rmtree(lake / "public" / "accounts")


def lose_files(lake: Path) -> None:
    for file in (lake / "public" / "accounts").glob("*.parquet"):
        file.unlink()


def damage_files(lake: Path) -> None:
    for file in (lake / "public" / "accounts").glob("*.parquet"):
        file.write_bytes(b"PAR1 and nothing else")


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (remove, "the lake's table public/accounts is gone"),
    "log gone": (lambda lake: shutil.rmtree(logs(lake)[0].parent), "is gone"),
    "rolled back": (lambda lake: logs(lake)[-1].unlink(), "before version 1 that was published"),
    "first commit gone": (lambda lake: logs(lake)[0].unlink(), "its log is damaged"),
    "log overwritten": (lambda lake: logs(lake)[-1].write_text("no log"), "its log is damaged"),
    "files lost": (lose_files, "has lost files"),
    "files overwritten": (damage_files, "has lost files, or they are damaged"),
}


@pytest.mark.parametrize("harm", HARM)
def test_table_that_another_program_harmed_is_stale_until_it_is_copied(
    pipeline: MemoryPipeline, run: Run, lake: Path, harm: str
) -> None:
    """I8: it stays as it was at the last cut that was certain, and takes nothing more."""
    run()
    certain = cut_rows(lake)[-1]
    bring, why = HARM[harm]
    bring(lake)
    for n in (1, 2):
        transfer(pipeline, n)
        run()
        row = cut_rows(lake)[-1]
        entry = accounts(row)
        assert (row.kind, entry.state, entry.since) == ("published", "stale", certain.end_lsn)
        assert why in (entry.why or "")
        assert (entry.path, entry.version) == (accounts(certain).path, accounts(certain).version)
        assert history(lake) == [*range(n + 1)]

    copy_again(pipeline, 2)
    run()
    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.why, rows_of(lake, entry)) == ("current", None, [2])
    transfer(pipeline, 3)
    run()
    assert rows_of(lake, accounts(cut_rows(lake)[-1])) == [3]
    assert history(lake) == [0, 1, 2, 3]


@pytest.mark.parametrize("harm", ["gone", "log gone", "rolled back", "first commit gone"])
def test_versions_that_rows_of_cuts_name_are_never_those_of_a_new_table(
    pipeline: MemoryPipeline, run: Run, lake: Path, harm: str
) -> None:
    """I8: begun anew in its folder, the table would have rows of today under a version of yesterday."""
    for n in (1, 2, 3):
        transfer(pipeline, n)
        run()
    HARM[harm][0](lake)
    left = logs(lake)
    transfer(pipeline, 4)
    run()
    copy_again(pipeline, 4)
    assert killed_at("apply:table-created", run)
    run()
    for n in (5, 6, 7, 8):
        transfer(pipeline, n)
        run()

    newest = accounts(cut_rows(lake)[-1])
    assert newest.path.startswith("public/accounts~")
    assert rows_of(lake, newest) == [8]
    assert logs(lake) == left


@pytest.mark.parametrize("passing", range(2))
@pytest.mark.parametrize("point", kill_points.JOB)
def test_a_job_killed_at_any_step_gives_the_table_the_same_state(
    pipeline: MemoryPipeline, run: Run, lake: Path, point: str, passing: int
) -> None:
    """I5, I8: before or after the row that says it."""
    run()
    certain = cut_rows(lake)[-1]
    remove(lake)
    transfer(pipeline, 1)
    killed_at(point, run, passing=passing)
    killed_at(point, run)
    transfer(pipeline, 2)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.since, entry.version) == ("stale", certain.end_lsn, accounts(certain).version)
    assert history(lake) == [0, 1, 2]
    assert all(accounts(row).state == "stale" for row in cut_rows(lake)[-2:] if row.kind == "published")


def test_a_table_that_is_back_before_its_state_was_published_is_current(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: the plan is made again over the same base, and nothing of it is lost."""
    run()
    transfer(pipeline, 1)
    (lake / "public" / "accounts").rename(lake / "elsewhere")
    assert killed_at("job:before-publish", run)
    (lake / "elsewhere").rename(lake / "public" / "accounts")
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, entry.why, rows_of(lake, entry)) == ("current", None, [1])


def test_lake_that_is_lost_as_a_whole_stops_the_job(pipeline: MemoryPipeline, run: Run, lake: Path) -> None:
    """I8: its tables are gone with it, and none of them is what is in trouble."""
    run()
    transfer(pipeline, 1)

    def unmounted(*_: object) -> None:
        lake.rename(lake.parent / "elsewhere")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "walbridge.spark_consumer.plan_runner.kill_point", lambda at: unmounted() if at == "job:plan-open" else None
        )
        with pytest.raises(OperatorError, match="was there when this job started"):
            run()
    assert open_table(str(lake)) is None
