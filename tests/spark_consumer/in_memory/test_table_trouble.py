"""One table's trouble is a state of that table: readers are refused it, all others go on, and a copy mends it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import kill_points
from tests.in_soak import others_in_variants
from tests.spark_consumer.delta.set_by_others import UNREADABLE, UNWRITABLE, Features, constrain, set_features
from tests.spark_consumer.memory_pipeline import MemoryPipeline
from tests.spark_consumer.two_tables import Run, accounts, copy_again, cut_rows, history, killed_at, rows_of, transfer
from walbridge.lake import tables_at
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.apply import apply
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


def table_of(lake: Path) -> Path:
    return lake / "public" / "accounts"


def with_features(features: Features) -> Callable[[Path], object]:
    return lambda lake: set_features(table_of(lake), features)


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    **{name: (with_features(features), f"another program set {name}") for name, features in UNWRITABLE.items()},
    "unknown to delta-rs": (with_features(UNREADABLE), "another program set ofTomorrow"),
    "constraint that a row fails": (lambda lake: constrain(table_of(lake), "n > 1000"), "CHECK strict"),
    "constraint of Spark's alone": (lambda lake: constrain(table_of(lake), "typeof(n) = 'int'"), "CHECK strict"),
    "gone": (remove, "the lake's table public/accounts is gone"),
    "log gone": (lambda lake: shutil.rmtree(logs(lake)[0].parent), "is gone"),
    "rolled back": (lambda lake: logs(lake)[-1].unlink(), "before version 1 that was published"),
    "first commit gone": (lambda lake: logs(lake)[0].unlink(), "its log is damaged"),
    "log overwritten": (lambda lake: logs(lake)[-1].write_text("no log"), "its log is damaged"),
    "newest commit empty": (lambda lake: logs(lake)[-1].write_bytes(b""), "its log is damaged: commit 1 is empty"),
    "newest commit blank": (lambda lake: logs(lake)[-1].write_bytes(b" \n"), "its log is damaged: commit 1 is empty"),
    "newest commit zeroed": (lambda lake: logs(lake)[-1].write_bytes(bytes(700)), "its log is damaged"),
    "files lost": (lose_files, "has lost files"),
    "files overwritten": (damage_files, "has lost files, or they are damaged"),
}


IN_EACH_RUN = {"delta.columnMapping.mode", "constraint that a row fails", "gone", "newest commit empty", "files lost"}


@pytest.mark.parametrize("harm", others_in_variants(HARM, IN_EACH_RUN))
def test_table_that_another_program_harmed_is_stale_until_it_is_copied(
    pipeline: MemoryPipeline, run: Run, lake: Path, harm: str
) -> None:
    """I8: it stays as it was at the last cut that was certain, and takes nothing more."""
    pipeline.visits = harm in ("gone", "newest commit empty", "files lost")
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


@pytest.mark.parametrize("table", ["accounts", "history"])
@pytest.mark.parametrize("moment", ["reshape", "write_changes"])
def test_table_whose_folder_goes_while_it_is_written_is_stale(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch, table: str, moment: str
) -> None:
    """Delta tells that in many ways. The other table goes on."""
    run()
    transfer(pipeline, 1)
    step = getattr(apply, moment)

    def lose_before(*arguments: Any) -> Any:
        shutil.rmtree(lake / "public" / table, ignore_errors=True)
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(apply, moment, lose_before)
        run()

    states = {entry.name: entry.state for entry in cut_rows(lake)[-1].tables}
    assert states == {"accounts": "current", "history": "current"} | {table: "stale"}


GONE = ("gone", "log gone", "rolled back", "first commit gone", "newest commit empty")


@pytest.mark.parametrize("harm", others_in_variants(GONE, ["gone"]))
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


def test_table_of_which_a_power_cut_left_an_empty_first_commit_is_made_in_a_folder_of_its_own(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """In the same folder each copy of it would fail again."""
    assert killed_at("apply:table-created", run)
    for commit in lake.glob("public/*/_delta_log/*.json"):
        commit.write_bytes(b"")
    assert killed_at("apply:table-created", run)
    run()
    transfer(pipeline, 1)
    run()

    entry = accounts(cut_rows(lake)[-1])
    assert (entry.state, rows_of(lake, entry), history(lake)) == ("current", [1], [0, 1])


def test_readers_are_refused_a_table_of_which_a_commit_is_empty_until_it_is_copied(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: also before the job has seen it."""
    run()
    logs(lake)[-1].write_bytes(b"")
    with pytest.raises(OperatorError, match="commit 1 is empty") as refused:
        tables_at(str(lake))["public.accounts"]
    assert refused.value.remedy == "copy it again: walbridge copy public.accounts"

    copy_again(pipeline, 1)
    run()
    assert tables_at(str(lake))["public.accounts"].reader().read_all()["n"].to_pylist() == [1]


def newest_of_cuts(lake: Path) -> Path:
    return max((lake / "_cuts" / "_delta_log").glob("*.json"))


@pytest.mark.parametrize(
    ("point", "left"), [("job:plan-open", b""), ("job:published", b""), ("job:published", bytes(700))]
)
def test_job_whose_newest_row_was_lost_with_its_commit_stops_and_goes_on_once_that_is_deleted(
    pipeline: MemoryPipeline, run: Run, lake: Path, point: str, left: bytes
) -> None:
    """I8: what the row said is done again, whether tables were written or not."""
    run()
    transfer(pipeline, 1)
    assert killed_at(point, run)
    newest = newest_of_cuts(lake)
    newest.write_bytes(left)

    with pytest.raises(OperatorError, match="_cuts cannot be read: its log is damaged") as refused:
        run()
    assert f"delete {newest.name} from its _delta_log" in refused.value.remedy
    newest.unlink()
    run()
    transfer(pipeline, 2)
    run()

    assert (rows_of(lake, accounts(cut_rows(lake)[-1])), history(lake)) == ([2], [0, 1, 2])


def test_empty_commit_before_others_of_the_manifest_is_not_to_be_deleted(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I8: without a plan's finished row before it a job would take the lake for a new one."""
    run()
    empty = newest_of_cuts(lake)
    transfer(pipeline, 1)
    run()
    empty.write_bytes(b"")

    with pytest.raises(OperatorError, match="its log is damaged") as refused:
        run()
    assert "delete" not in refused.value.remedy
    assert "from a backup" in refused.value.remedy


@pytest.mark.parametrize("passing", others_in_variants(range(2), [0]))
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
