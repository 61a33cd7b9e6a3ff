"""A table that left the source is kept, or taken out of the lake with its folder, as the settings say (I8)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import Event
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import EPOCH, PIPELINE, column, relation
from tests.spark_consumer.memory_pipeline import MemoryPipeline, job_over
from tests.spark_consumer.two_tables import ACCOUNTS, HISTORY, Run, begun, cut_rows
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress, encode_progress
from walbridge.schemas.control.table_progress import CURRENT, DROPPED, STALE, TableProgress, encode_table, table_key
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic
from walbridge.spark_consumer import plan_runner
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance.clock import Clock
from walbridge.spark_consumer.delta.maintenance.purge import Purge
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name

FOLDER = Path("public", "accounts")
NAME = "public.accounts"
AGAIN = relation([column("id", "int4", is_key=True), column("n", "int4")], name="accounts", relation_id=7)


@pytest.fixture
def pipeline() -> MemoryPipeline:
    pipeline = begun()
    pipeline.announce(AGAIN)
    return pipeline


@contextmanager
def hours_later(hours: float, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The job's maintenance runs then, after each row."""
    with patch.context() as later:
        later.setattr(maintenance, "MANIFEST_ROWS_MAX", 1)
        later.setattr(maintenance.Maintenance, "__init__", _with_clock(hours))
        yield


def _with_clock(hours: float) -> Callable[..., None]:
    made = maintenance.Maintenance.__init__

    class Later(Clock):
        def __call__(self) -> datetime:
            return super().__call__() + timedelta(hours=hours)

    def init(
        self: maintenance.Maintenance, lake: str, manifest: Manifest, settings: Settings, purge: Purge | None
    ) -> None:
        made(self, lake, manifest, settings, Later(), purge)

    return init


@pytest.fixture
def run(pipeline: MemoryPipeline, lake: Path) -> Iterator[Run]:
    with job_over(pipeline, lake, dropped_tables="drop") as run_job:
        yield run_job


def write_progress(pipeline: MemoryPipeline, table: TableProgress, *, cut_id: int | None = None) -> None:
    """As the producer writes it with the newest cut."""
    topic, at = progress_topic(PIPELINE), pipeline.last.cut_id if cut_id is None else cut_id
    point = Lsn(EPOCH.consistent_point)
    progress = Progress("streaming", EPOCH.system_id, EPOCH.timeline, EPOCH.slot, "shop", point, at)
    tables = {each.relation_id: each for each in (table, TableProgress(2, CURRENT))}
    progress = Progress(**{name: getattr(progress, name) for name in progress.__slots__} | {"tables": tables})
    for each in tables.values():
        pipeline.topics.add(topic, encode_table(each), key=table_key(EPOCH.slot, each.relation_id))
    pipeline.topics.add(topic, encode_progress(progress), key=progress.key)


def leave(pipeline: MemoryPipeline, state: str = DROPPED, *, ahead: int = 0, behind: int = 0) -> None:
    """The cut that says so. ``ahead``: so far behind that cut it left; ``behind``: progress is so many cuts older."""
    cut = pipeline.send(barriers=[(ACCOUNTS, Barrier("dropped", Position(Lsn(pipeline.last.end_lsn + 16), 0)))])
    table = TableProgress(1, state, since=Lsn(cut.end_lsn + ahead))
    write_progress(pipeline, table, cut_id=cut.cut_id - behind)


def insert(pipeline: MemoryPipeline, n: int) -> None:
    """Into the table that stays."""
    lsn = pipeline.last.end_lsn + 8
    pipeline.send(Event(HISTORY, "c", lsn, 0, after={"id": 1, "n": n}))


def copy_again(pipeline: MemoryPipeline, of: RelationRecord, n: int) -> None:
    lsn = pipeline.last.end_lsn + 8
    marker, begin = copy_begin(of, lsn)
    pipeline.send(marker, *copied(of, lsn, {"id": 1, "n": n}), barriers=[begin])
    marker, end = copy_end(of, lsn)
    pipeline.send(marker, barriers=[end])


def newest(lake: Path) -> dict[str, TableEntry]:
    return by_name(cut_rows(lake)[-1].tables)


def rows_of(lake: Path, entry: TableEntry) -> list[int]:
    return sorted(DeltaTable(f"{lake}/{entry.path}", version=entry.version).to_pyarrow_table()["n"].to_pylist())


def test_table_that_left_is_no_table_of_newer_states_and_stays_readable_in_older_ones(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    run()
    leave(pipeline)
    run()
    assert newest(lake).keys() == {"public.history"}
    says_so, without = cut_rows(lake)[-2:]
    assert (says_so.kind, by_name(says_so.tables)[NAME].state) == ("published", STALE)
    assert (without.kind, without.end_lsn, without.next_offset) == ("published", says_so.end_lsn, says_so.next_offset)
    assert rows_of(lake, by_name(says_so.tables)[NAME]) == [0]
    insert(pipeline, 1)
    run()
    assert newest(lake).keys() == {"public.history"}
    assert rows_of(lake, newest(lake)["public.history"]) == [0, 1]


def test_table_is_kept_unless_the_settings_say_otherwise(pipeline: MemoryPipeline, lake: Path) -> None:
    with job_over(pipeline, lake) as run:
        leave(pipeline)
        run()
    assert newest(lake)[NAME].state == STALE
    assert rows_of(lake, newest(lake)[NAME]) == [0]


KEPT: dict[str, Callable[[MemoryPipeline], None]] = {
    "is stale, and copied again": lambda pipeline: leave(pipeline, STALE),
    "left behind that cut": lambda pipeline: leave(pipeline, ahead=1),
    "is back in the publication": lambda pipeline: leave(pipeline, CURRENT),
}


@pytest.mark.parametrize("case", KEPT)
def test_table_that_takes_no_changes_is_kept_if_it_has_not_left_at_that_cut(
    pipeline: MemoryPipeline, run: Run, lake: Path, case: str
) -> None:
    KEPT[case](pipeline)
    run()
    run()
    assert newest(lake)[NAME].state == STALE


def test_progress_that_is_not_visible_yet_is_asked_again(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition may show a transaction later than another one."""
    monkeypatch.setattr("walbridge.spark_consumer.kafka.control.unpublished_tables.SOON_S", 0.0)
    leave(pipeline, CURRENT, behind=1)
    run()
    assert newest(lake)[NAME].state == STALE
    write_progress(pipeline, TableProgress(1, DROPPED, since=Lsn(pipeline.last.end_lsn)))
    run()
    assert NAME not in newest(lake)


def test_folder_goes_once_no_kept_state_names_it(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows go first; then the folder, and only then its place in ``_cuts``."""
    leave(pipeline)
    run()
    # All rows are kept for an hour. At its end the first one goes if the minute that it was written in has ended.
    for number, hours in enumerate((0, 0.9)):
        with hours_later(hours, monkeypatch):
            insert(pipeline, number)
            run()
            before = next(by_name(row.tables)[NAME] for row in cut_rows(lake) if row.kind == "published")
            assert rows_of(lake, before) == [0]
    with hours_later(24 * 9, monkeypatch):
        insert(pipeline, 3)
        run()
        assert not (lake / FOLDER).exists()
        run()
    assert [entry.name for entry in cut_rows(lake)[-1].tables] == ["history"]
    assert rows_of(lake, newest(lake)["public.history"]) == [0, 0, 1, 3]


def test_folder_stays_while_the_settings_say_keep(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(pipeline)
    run()
    with job_over(pipeline, lake) as keeping, hours_later(24 * 9, monkeypatch):
        insert(pipeline, 1)
        keeping()
    assert (lake / FOLDER / "_delta_log").is_dir()


@pytest.mark.variant(of="test_tables_that_left_are_taken_out_of_the_lake_and_come_back_whole")
@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("back", [ACCOUNTS, AGAIN], ids=["the same table", "another in its topic"])
def test_table_of_that_name_that_comes_later_is_whole_and_not_in_a_folder_that_older_states_name(
    pipeline: MemoryPipeline,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    back: RelationRecord,
    is_deleted: bool,
) -> None:
    leave(pipeline)
    run()
    before = next(by_name(row.tables)[NAME] for row in reversed(cut_rows(lake)) if NAME in by_name(row.tables))
    if is_deleted:
        with hours_later(24 * 9, monkeypatch):
            insert(pipeline, 1)
            run()
            run()
    copy_again(pipeline, back, 5)
    run()
    entry = newest(lake)[NAME]
    assert (entry.relation_id, entry.state, rows_of(lake, entry)) == (back.table.relation_id, "current", [5])
    assert (entry.path == before.path) == is_deleted
    if not is_deleted:
        assert rows_of(lake, before) == [0]
    pipeline.send(Event(back, "u", pipeline.last.end_lsn + 8, 0, after={"id": 1, "n": 6}))
    run()
    assert rows_of(lake, newest(lake)[NAME]) == [6]


def test_table_comes_back_while_the_job_is_killed_in_its_plan(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan that was left open is made again over the same entries."""
    leave(pipeline)
    run()
    copy_again(pipeline, AGAIN, 5)

    def kill(reached: str) -> None:
        if reached == "job:before-publish":
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(plan_runner, "kill_point", kill)
        with pytest.raises(Crash):
            run()
    run()
    assert rows_of(lake, newest(lake)[NAME]) == [5]


@pytest.mark.parametrize("is_written", [False, True])
def test_job_that_dies_at_the_row_that_takes_a_table_out_takes_it_out_once(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    leave(pipeline)
    append = Manifest.append

    def die(self: Manifest, row: CutRow) -> None:
        if not any(entry.is_dropped for entry in row.tables) or is_written:
            append(self, row)
        if any(entry.is_dropped for entry in row.tables):
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "append", die)
        with pytest.raises(Crash):
            run()
    run()
    assert NAME not in newest(lake)
    assert sum(any(entry.is_dropped for entry in row.tables) for row in cut_rows(lake)) == 1


def test_job_that_dies_while_it_deletes_a_folder_deletes_the_rest(
    pipeline: MemoryPipeline, run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(pipeline)
    run()

    remove = shutil.rmtree

    def half(path: Path) -> None:
        remove(path / "_delta_log")
        raise Crash

    with hours_later(24 * 9, monkeypatch):
        insert(pipeline, 1)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", half)
            with pytest.raises(Crash):
                run()
        assert (lake / FOLDER).is_dir()
        insert(pipeline, 2)
        run()
        assert not (lake / FOLDER).exists()
        run()
    assert [entry.name for entry in cut_rows(lake)[-1].tables] == ["history"]


def test_folder_that_cannot_be_deleted_is_told_and_tried_again(
    pipeline: MemoryPipeline,
    run: Run,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leave(pipeline)
    run()

    def refuse(path: Path) -> None:
        raise PermissionError

    with hours_later(24 * 9, monkeypatch):
        insert(pipeline, 1)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", refuse)
            run()
        assert "folder of a dropped table is not deleted yet" in capsys.readouterr().out
        insert(pipeline, 2)
        run()
    assert not (lake / FOLDER).exists()
