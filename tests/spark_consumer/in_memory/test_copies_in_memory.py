"""Copies beside the stream: whatever happens meanwhile, what is published as current equals the source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.contract_events import Event, copied, copy_begin, copy_end
from tests.faults import kill_points
from tests.in_soak import others_in_variants
from tests.spark_consumer.copied_source import VERSIONS, Row, Source
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import Beside, MemoryPipeline, job_over
from tests.spark_consumer.two_tables import ACCOUNTS, Run, begun, cut_rows, killed_at, shown, transfer
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.kafka.control import cuts_source
from walbridge.spark_consumer.plan.ended_copies import ASIDE
from walbridge.spark_consumer.plan.manifest_row import TableEntry

KILL_POINTS = (*kill_points.JOB, *kill_points.ENTERS)
MORE = relation([column("id", "int4", is_key=True), column("n", "int4")], name="more", relation_id=3)


def rows_of(lake: Path, entry: TableEntry) -> list[Row]:
    uri = f"{lake}/{entry.path}"
    table = LakeTable(uri, DeltaTable(uri, version=entry.version), {}).query("SELECT * FROM target").read_all()
    found: list[Row] = table.drop_columns(["_walbridge"]).to_pylist()
    return found


def by_id(rows: list[Row]) -> list[Row]:
    """The rows in one order; a column that the lake has not heard of yet is null in all of them."""
    return sorted(({name: value for name, value in row.items() if value is not None} for row in rows), key=repr)


def refuse_differences(source: Source, lake: Path, harmed: Collection[str] = ()) -> None:
    """I8: over every row that readers may take. ``harmed``: folders whose versions may be gone."""
    for row in cut_rows(lake):
        names = [entry.name for entry in row.tables]
        assert len(names) == len({*names})
        if row.kind != "published":
            continue
        for entry in row.tables:
            assert entry.state in ("current", "stale", "copying")
            assert (entry.version is None) == (entry.state == "copying")
            assert (entry.why is not None) <= (entry.state == "stale")
            if entry.state == "current" and entry.path not in harmed:
                assert by_id(rows_of(lake, entry)) == by_id(source.states[row.end_lsn][entry.name])


def step(source: Source, run: Run) -> None:
    """Something happens to the source or to its job."""
    random = source.random
    often: list[Callable[[], object]] = [source.transaction, lambda: source.copy_on(source.pick())]
    sometimes: list[Callable[[], object]] = [
        source.send,
        source.send,
        run,
        lambda: source.begin_copy(source.pick()),
        lambda: killed_at(random.choice(KILL_POINTS), run, passing=random.randrange(4)),
    ]
    seldom: list[Callable[[], object]] = [
        lambda: source.truncate(source.pick()),
        lambda: source.alter(source.pick()),
        lambda: source.leave(source.pick()),
        source.reconnect,
    ]
    random.choice([*often * 8, *sometimes * 2, *seldom])()


Job = Callable[[MemoryPipeline, Path], AbstractContextManager[Run]]


def refuse_wrong(source: Source, lake: Path, steps: int, over: Job = job_over) -> None:
    """Let the source live for some steps beside its job, end all copies, and compare every row that was published."""
    with over(source.pipeline, lake) as run, pytest.MonkeyPatch.context() as patch:
        # Few enough that none of them are counted in bytes first, which would take Spark.
        patch.setattr(cuts_source, "OFFSETS_PER_READ", cuts_source.LARGE_OFFSETS_PER_READ)
        for _ in range(steps):
            step(source, run)
        for table in source.tables.values():
            if not table.is_followed and table.copying is None:
                source.begin_copy(table)
            while table.copying is not None:
                source.copy_on(table)
                source.send()
        source.send()
        run()
    refuse_differences(source, lake)
    newest = cut_rows(lake)[-1]
    assert (newest.kind, newest.end_lsn) == ("published", source.pipeline.last.end_lsn)
    assert {entry.name: entry.state for entry in newest.tables} == dict.fromkeys("abc", "current")
    assert all(entry.copy_from is None for entry in newest.tables)
    assert not list((lake / ASIDE).glob("*"))


def copied_meanwhile(random: Random, lake: Path, over: Job = job_over) -> None:
    """Copies begin, begin anew and end, tables are left; changes, truncates, key changes, deaths of the job."""
    refuse_wrong(Source(random), lake, 60, over)


def written_beside(random: Random, lake: Path, over: Job = job_over) -> None:
    """Each copy is done sooner or later; tables are emptied, altered, left, and copied anew meanwhile."""
    beside = Beside(deferred_from=2, gets_on=lambda: random.random() < 0.4)
    refuse_wrong(Source(random, MemoryPipeline(beside=beside)), lake, 60, over)


class Vandal:
    """Another program that harms folders of tables; ``harmed``: those of which no version can be trusted."""

    def __init__(self, source: Source, lake: Path) -> None:
        self.source, self.lake = source, lake
        self.harmed: set[str] = set()

    def strike(self) -> None:
        rows = cut_rows(self.lake)
        entries = [
            entry for entry in (rows[-1].tables if rows else ()) if (self.lake / entry.path / "_delta_log").exists()
        ]
        entries = [entry for entry in entries if entry.path and entry.path not in self.harmed]
        if entries:
            entry = self.source.random.choice(entries)
            folder = self.lake / entry.path
            logs = sorted((folder / "_delta_log").glob("*.json"))
            how = self.source.random.choice(["gone", "emptied", "rolled back", "first commit gone", "files lost"])
            if how == "emptied":  # by a commit, which is taken back
                with suppress(DeltaError):
                    DeltaTable(str(folder)).delete()
                return
            self.harmed.add(entry.path)
            if how == "gone":
                shutil.rmtree(folder)
            elif how == "files lost":
                for file in folder.glob("*.parquet"):
                    file.unlink()
            else:
                logs[-1 if how == "rolled back" else 0].unlink()


def harmed_folders(random: Random, lake: Path, over: Job = job_over) -> None:
    """Folders are removed, rolled back, damaged or written to by others; nothing stops, and copies mend all."""
    beside = random.choice([Beside(), Beside(deferred_from=2, gets_on=lambda: random.random() < 0.4)])
    source = Source(random, MemoryPipeline(visits=True, beside=beside))
    vandal = Vandal(source, lake)
    with over(source.pipeline, lake) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts_source, "OFFSETS_PER_READ", cuts_source.LARGE_OFFSETS_PER_READ)
        for _ in range(60):
            step(source, run)
            if random.random() < 0.1 and (lake / "_cuts").exists():
                vandal.strike()
                refuse_differences(source, lake, vandal.harmed)
        source.send()
        run()
        refuse_differences(source, lake, vandal.harmed)
        for table in source.tables.values():
            source.begin_copy(table)
            while table.copying is not None:
                source.copy_on(table)
                source.send()
        run()
    newest = cut_rows(lake)[-1]
    assert {entry.name: (entry.state, entry.why) for entry in newest.tables} == dict.fromkeys("abc", ("current", None))
    for entry in newest.tables:
        assert by_id(rows_of(lake, entry)) == by_id(source.states[newest.end_lsn][entry.name])


histories = pytest.mark.parametrize("happens", [copied_meanwhile, written_beside, harmed_folders])


@pytest.mark.simulation
@histories
@settings(max_examples=5, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_what_is_published_as_current_equals_the_source(
    tmp_path_factory: pytest.TempPathFactory, happens: Callable[[Random, Path], None], random: Random
) -> None:
    """I5, I8"""
    happens(random, tmp_path_factory.mktemp("lake") / "lake")


@pytest.mark.soak
@histories
@settings(max_examples=50, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_what_is_published_as_current_equals_the_source_in_many_histories(
    tmp_path_factory: pytest.TempPathFactory, happens: Callable[[Random, Path], None], random: Random
) -> None:
    """I5, I8"""
    happens(random, tmp_path_factory.mktemp("lake") / "lake")


@pytest.mark.soak
@histories
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=False))
def test_what_spark_merges_equals_the_source_too(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[..., None],
    random: Random,
) -> None:
    """I5, I8: rows of every second merge or so come by a folder. Some of the tables have marked rows by then."""
    monkeypatch.setattr(Spool, "is_in_memory", property(lambda rows: rows.rows % 2 == 0))
    lake = tmp_path_factory.mktemp("lake") / "lake"
    happens(random, lake, partial(job_over, spark=spark, applier="spark"))


def swapping(pipeline: MemoryPipeline) -> None:
    """Accounts are copied again, the history goes on; the copy lacks a row that the lake has."""
    marker, begin = copy_begin(ACCOUNTS, 0x3000)
    pipeline.send(marker, barriers=[begin])
    transfer(pipeline, 0x200)
    marker, end = copy_end(ACCOUNTS, 0x5000)
    pipeline.send(*copied(ACCOUNTS, 0x5000, {"id": 7, "n": 70}), marker, barriers=[end])


@pytest.mark.parametrize("point", kill_points.JOB)
@pytest.mark.parametrize("passing", others_in_variants(range(3), [1]))
def test_a_job_killed_at_any_step_of_a_copy_that_ends_swaps_the_table_once(
    lake: Path, point: str, passing: int
) -> None:
    """I5, I8: readers have the old rows or the new ones, and nothing is left of either in the other."""
    pipeline = begun()
    with job_over(pipeline, lake) as run:
        run()
        swapping(pipeline)
        killed_at(point, run, passing=passing)
        killed_at(point, run)
        run()

    assert shown(lake) == {"accounts": [70, 0x200], "history": [0, 0x200]}
    sequences = [row.sequence for row in cut_rows(lake)]
    assert sequences == sorted({*sequences})


def test_a_copy_whose_beginning_left_no_row_is_whole_after_a_death(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: the cuts before an open plan are gone over again."""
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", 2)
    pipeline = begun()
    with job_over(pipeline, lake) as run:
        run()
        marker, begin = copy_begin(MORE, 0x3000)
        pipeline.announce(MORE)
        pipeline.send(marker, *copied(MORE, 0x3000, {"id": 1, "n": 1}), barriers=[begin], complete=False)
        transfer(pipeline, 0x200)
        assert killed_at("job:plan-open", run)
        marker, end = copy_end(MORE, 0x5000)
        pipeline.send(*copied(MORE, 0x5000, {"id": 2, "n": 2}), marker, barriers=[end])
        run()

    assert shown(lake) == {"accounts": [0x200], "history": [0, 0x200], "more": [1, 2]}


def test_rows_of_a_copy_are_not_for_the_table_that_is_fed(lake: Path) -> None:
    """I8: the table equals the source by its changes alone, and is no mixture of two copies."""
    pipeline = begun()
    with job_over(pipeline, lake) as run:
        marker, begin = copy_begin(ACCOUNTS, 0x3000)
        pipeline.send(marker, *copied(ACCOUNTS, 0x3000, {"id": 7, "n": 70}), barriers=[begin])
        transfer(pipeline, 0x200)
        run()

    assert shown(lake) == {"accounts": [0x200], "history": [0, 0x200]}


def test_a_row_that_is_not_whole_when_the_shape_changes_is_left_until_it_is_copied(lake: Path) -> None:
    """I6: nobody has seen its value before the copy reads it; one that nobody ever sees is not invented."""
    old, new = VERSIONS["a"]
    pipeline = MemoryPipeline()
    pipeline.announce(old, new)
    marker, begin = copy_begin(old, 0x3000)
    for key in (1, 2):
        update = Event(old, "u", 0x3000 + 16 * key, 0, after={"id": key, "n": 1}, unchanged=["body"])
        pipeline.send(*([marker] if key == 1 else []), update, barriers=[begin] if key == 1 else [])
    altered = Barrier("shape", Position(Lsn(0x4000), -1), new.schema_id)
    marker, end = copy_end(new, 0x4000)
    pipeline.send(*copied(new, 0x4000, {"id": 1, "n": 1, "body": "x"}), marker, barriers=[(new, altered), end])
    with job_over(pipeline, lake) as run:
        run()

    (entry,) = cut_rows(lake)[-1].tables
    assert rows_of(lake, entry) == [{"id": 1, "n": 1, "body": "x", "more": None}]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_copy_takes_the_place_of_a_table_that_is_gone_or_was_changed(lake: Path, is_gone: bool) -> None:
    """I8: it needs nothing of what was there."""
    pipeline = begun()
    with job_over(pipeline, lake) as run:
        run()
        pipeline.send(barriers=[(ACCOUNTS, Barrier("dropped", Position(Lsn(0x2800), 0)))])
        run()
        if is_gone:
            shutil.rmtree(lake / "public" / "accounts")
        else:
            DeltaTable(str(lake / "public" / "accounts")).delete()
        marker, begin = copy_begin(ACCOUNTS, 0x3000)
        pipeline.send(marker, *copied(ACCOUNTS, 0x3000, {"id": 7, "n": 70}), barriers=[begin])
        run()
        marker, end = copy_end(ACCOUNTS, 0x3000)
        pipeline.send(marker, barriers=[end])
        killed_at("apply:segment-applied", run)
        run()

    assert shown(lake) == {"accounts": [70], "history": [0]}
    assert {entry.state for entry in cut_rows(lake)[-1].tables} == {"current"}
