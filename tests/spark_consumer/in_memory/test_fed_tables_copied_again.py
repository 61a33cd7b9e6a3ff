"""A table that is current is copied again: readers have its rows, with all changes, until its copy takes their place.

The lake's table holds other rows than the copy, which no change would bring: so each test tells which of the two
readers have. ``test_copies_in_memory.py`` has random histories in which both equal the source.
"""

from __future__ import annotations

import shutil
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract_events import copied
from tests.contract_writer import Event
from tests.faults import kill_points
from tests.in_soak import in_variants, others_in_simulation, others_in_variants
from tests.spark_consumer.in_memory.test_copies_written_beside import MORE, WIDER, Copied
from tests.spark_consumer.two_tables import cut_rows, killed_at, rows_of, transfer
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.errors import TableError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.apply.copies import copy_entry
from walbridge.spark_consumer.apply.table_folder import ATTEMPTS_MAX
from walbridge.spark_consumer.plan.ended_copies import ASIDE

TRUNCATE = Barrier("truncate", Position(Lsn(0x6100), 0))


class Fed(Copied):
    """Readers have rows 1 and 2 (10, 20) of a table that is current."""

    def __init__(self, lake: Path) -> None:
        super().__init__(lake)
        self.copy_more()
        with self.job() as run:
            run()
        assert self.shown() == [10, 20]
        self.known = len(self.entries())

    def copy_again(self, lsn: int = 0x4000) -> None:
        """The source has rows 1 and 3 (10, 30)."""
        self.copy_more(lsn, _1=10, _3=30)

    def shown(self) -> list[int | str]:
        """Column n, as readers have it."""
        return rows_of(self.lake, self.newest)

    def since(self) -> list[list[int | str]]:
        """Column n in each row that was published since the table was copied for the first time."""
        entries = self.entries()[self.known :]
        assert {entry.state for entry in entries} == {"current"}
        assert {entry.path for entry in entries} == {"public/more"}
        return [rows_of(self.lake, entry) for entry in entries]

    @property
    def aside(self) -> list[Path]:
        return list((self.lake / ASIDE).glob("*"))


@pytest.fixture
def fed(lake: Path) -> Fed:
    return Fed(lake)


def test_readers_have_the_rows_that_were_there_and_all_changes_until_the_copy_is_written(fed: Fed) -> None:
    """I8: the rows of one or of the other, at each published cut; all others are published meanwhile."""
    fed.copy_again()
    fed.change(0x6100, id=1, n=11)
    transfer(fed.pipeline, 0x500)
    with fed.job(plan_rows_max=1) as run:
        run()
        fed.change(0x8100, id=3, n=33)
        run()

    shown = fed.since()
    assert [rows for rows, _ in groupby(shown)] == [[10, 20], [11, 20], [11, 30], [11, 33]]
    rows = [row for row in cut_rows(fed.lake) if row.kind == "published"]
    assert any(row.end_lsn == before.end_lsn for before, row in pairwise(rows[fed.known :])), "the same state"
    assert (fed.newest.copy_from, fed.aside) == (None, [])


@pytest.mark.parametrize("point", kill_points.ENTERS)
def test_a_job_that_is_killed_at_any_step_has_the_copy_once(fed: Fed, point: str) -> None:
    """I5: nothing is left of what was written before, in no folder."""
    fed.copy_again()
    with fed.job() as run:
        assert killed_at(point, run)
        fed.change(0x6100, id=1, n=11)
        killed_at(point, run)
        assert all(rows in ([10, 20], [11, 20], [10, 30], [11, 30]) for rows in fed.since())
        fed.change(0x6200, "d", id=1)
        run()

    assert (fed.shown(), fed.aside) == ([30], [])
    assert fed.since()[-1] == DeltaTable(str(fed.lake / "public" / "more")).to_pyarrow_table()["n"].to_pylist()
    sequences = [row.sequence for row in cut_rows(fed.lake)]
    assert sequences == sorted({*sequences})


@pytest.mark.parametrize("passing", others_in_variants(range(3), [0]))
@pytest.mark.parametrize("point", others_in_simulation(kill_points.JOB, kill_points.JOB_PROCESS))
def test_a_plan_that_feeds_the_table_is_finished_whatever_the_copy_had_done(fed: Fed, point: str, passing: int) -> None:
    """A copy that has entered the folder and that no row names is not what the plan began with."""
    fed.copy_again()
    with fed.job() as run:
        assert killed_at("build:entered", run)
        fed.change(0x6100, id=1, n=11)
        killed_at(point, run, passing=passing)
        killed_at(point, run)
        run()

    assert (fed.shown(), fed.aside) == ([11, 30], [])


def test_what_killed_jobs_have_written_aside_is_deleted_when_a_job_starts(fed: Fed) -> None:
    shutil.copytree(fed.lake / "public" / "more", fed.lake / ASIDE / "3-1")
    with fed.job() as run:
        run()

    assert fed.aside == []


def emptied(fed: Fed) -> None:
    truncate, insert = Event(MORE, "t", 0x6100, 0), Event(MORE, "c", 0x6100, 1, after={"id": 5, "n": 50})
    fed.pipeline.send(truncate, insert, barriers=[(MORE, TRUNCATE)], end_lsn=0x6200)


def copied_anew(fed: Fed) -> None:
    fed.copy_more(0x6100, _5=50, _6=60)
    fed.change(0x6200, "d", id=6)


@pytest.mark.parametrize("happens", [emptied, copied_anew])
@pytest.mark.parametrize("point", [in_variants(None), in_variants("build:written"), "build:entered"])
def test_what_was_written_is_void_once_the_copy_is_another_one(fed: Fed, happens: object, point: str | None) -> None:
    assert callable(happens)
    fed.copy_again()
    with fed.job(plan_rows_max=1) as run:
        if point is not None:
            assert killed_at(point, run)
        happens(fed)
        run()

    assert (fed.shown(), fed.aside, fed.newest.copy_from) == ([50], [], None)


def test_a_table_that_leaves_while_its_copy_is_written_stays_as_it_was(fed: Fed) -> None:
    fed.copy_again()
    with fed.job(plan_rows_max=1) as run:
        killed_at("build:written", run)
        fed.pipeline.send(barriers=[(MORE, Barrier("dropped", Position(Lsn(0x6100), 0)))], end_lsn=0x6200)
        run()

    assert (fed.newest.state, fed.newest.copy_from) == ("stale", None)
    assert (fed.shown(), fed.aside) == ([10, 20], [])


def test_a_column_that_comes_while_the_copy_is_written_is_in_both(fed: Fed) -> None:
    fed.copy_again()
    shape = Barrier("shape", Position(Lsn(0x6100), 0), WIDER.schema_id)
    event = Event(WIDER, "c", 0x6100, 0, after={"id": 7, "n": 70, "w": 1})
    fed.pipeline.send(event, barriers=[(WIDER, shape)], end_lsn=0x6200)
    with fed.job(plan_rows_max=1) as run:
        run()

    assert [10, 20, 70] in fed.since()
    assert (fed.shown(), fed.newest.schema_id) == ([10, 30, 70], WIDER.schema_id)


def test_a_copy_in_another_shape_gives_the_table_its_columns(fed: Fed) -> None:
    shape = Barrier("shape", Position(Lsn(0x3800), 0), WIDER.schema_id)
    event = Event(WIDER, "c", 0x3800, 0, after={"id": 7, "n": 70, "w": 1})
    with fed.job() as run:
        fed.pipeline.send(event, barriers=[(WIDER, shape)], end_lsn=0x3900)
        fed.copy_again()
        run()

    fields = DeltaTable(str(fed.lake / "public" / "more")).schema().fields
    assert (fed.shown(), [each.name for each in fields]) == ([10, 30], ["id", "n", "_walbridge"])


def test_rows_of_listed_keys_are_for_the_table_that_is_fed_once_the_copy_has_ended(fed: Fed) -> None:
    """The copy's own are not."""
    fed.copy_again()
    row = copied(MORE, 0x6100, {"id": 2, "n": 22})
    gone = Event(MORE, "d", 0x6100, -1, before={"id": 1}, before_image="key", snapshot="incremental")
    fed.pipeline.send(*row, gone, end_lsn=0x6200)
    with fed.job(plan_rows_max=100) as run:
        killed_at("build:written", run)
        assert fed.since()[-1] == [22]
        run()

    assert fed.shown() == [22, 30]


def test_a_plan_in_which_an_earlier_version_ended_the_copy_is_made_anew(fed: Fed) -> None:
    """What that had written of it is taken back."""
    fed.copy_again()
    fed.change(0x6100, id=1, n=11)
    with fed.job(deferred_from=100, plan_rows_max=100) as run:
        assert killed_at("apply:segment-applied", run)
    assert cut_rows(fed.lake)[-1].kind == "plan"
    with fed.job(plan_rows_max=100) as run:
        killed_at("build:written", run)
        assert fed.since()[-1] == [11, 20]
        run()

    assert fed.shown() == [11, 30]


def test_what_comes_while_the_copy_is_written_is_written_aside_too_where_it_is_much(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walbridge.spark_consumer.between_plans.CATCH_UP_ROWS_MAX", 1)
    fed.copy_again()
    with fed.job(plan_rows_max=1) as run:
        fed.change(0x6100, id=1, n=11)
        fed.change(0x6200, id=3, n=33)
        run()

    assert (fed.shown(), fed.aside) == ([11, 33], [])


def test_a_table_in_trouble_is_mended_by_the_copy_that_is_written(fed: Fed) -> None:
    """It is fed no more, and the copy has what it lacks."""
    fed.copy_again()
    with fed.job() as run:
        killed_at("build:written", run)
        fed.change(0x6100, id=9, n=90)  # a row that neither has: only the copy may be told of it
        fed.change(0x6200, "d", id=9)
        killed_at("build:before-named", run)
        assert "did not hold" in str(fed.newest.why)
        run()

    assert (fed.newest.state, fed.newest.why, fed.shown(), fed.aside) == ("current", None, [10, 30], [])


def test_a_copy_whose_records_are_gone_is_the_trouble_of_its_table(fed: Fed) -> None:
    """Why it was to be copied may be true: so it is current no more."""
    fed.copy_again()
    with fed.job() as run:
        killed_at("build:written", run)
        fed.pipeline.lost[MORE.topic] = TableError("records are gone")
        run()

    assert (fed.newest.state, fed.newest.why, fed.newest.copy_from) == ("stale", "records are gone", None)
    assert (fed.shown(), fed.aside) == ([10, 20], [])


def gone(table: Path) -> None:
    shutil.rmtree(table)


def rolled_back(table: Path) -> None:
    max((table / "_delta_log").glob("*.json")).unlink()


def constrained(table: Path) -> None:
    DeltaTable(str(table)).alter.add_constraint({"small": "n < 100"})


@pytest.mark.parametrize("harm", [gone, in_variants(rolled_back), in_variants(constrained)])
def test_a_copy_gets_another_folder_where_its_tables_own_cannot_be_used(fed: Fed, harm: object) -> None:
    """I8: versions that rows name are not made anew."""
    assert callable(harm)
    fed.copy_again()
    with fed.job() as run:
        killed_at("build:written", run)
        harm(fed.lake / "public" / "more")
        run()

    assert fed.newest.path.startswith("public/more~3-")
    assert (fed.newest.state, fed.shown(), fed.aside) == ("current", [10, 30], [])


def with_rival(fed: Fed, patch: pytest.MonkeyPatch, commits: int) -> None:
    """Another program commits that often while the copy enters."""
    left = iter(range(commits))

    def kill_point(point: str) -> None:
        if point == "build:emptied" and next(left, None) is not None:
            DeltaTable(str(fed.lake / "public" / "more")).restore(0)

    patch.setattr(copy_entry, "kill_point", kill_point)


def test_a_commit_of_another_program_while_the_copy_enters_is_overwritten(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed.copy_again()
    with_rival(fed, monkeypatch, 1)
    with fed.job() as run:
        run()

    assert (fed.newest.state, fed.shown(), fed.aside) == ("current", [10, 30], [])


def test_a_copy_enters_once_another_program_commits_no_more(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it is the table's trouble."""
    fed.copy_again()
    with fed.job() as run:
        with monkeypatch.context() as patch:
            with_rival(fed, patch, ATTEMPTS_MAX)
            run()
        assert fed.newest.state == "quarantined"
        assert "another program keeps committing" in str(fed.newest.why)
        assert (fed.shown(), fed.aside) == ([10, 20], [])

        fed.copy_again(0x7000)
        run()
    assert (fed.newest.state, fed.shown()) == ("current", [10, 30])


def test_a_copy_that_another_program_has_changed_is_the_trouble_of_its_table(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed.copy_again()
    with fed.job() as run, monkeypatch.context() as patch:
        patch.setattr("walbridge.spark_consumer.apply.copies.copy_builds.kill_point", lambda _point: _spoil(fed))
        run()

    assert (fed.newest.state, fed.shown(), fed.aside) == ("stale", [10, 20], [])
    assert "another program has changed" in str(fed.newest.why)


def _spoil(fed: Fed) -> None:
    for folder in fed.aside:
        DeltaTable(str(folder)).delete("n = 30")
