"""Every table is visited again after some time: while the source is at rest, and by jobs that end after one plan."""

import os
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from structlog.testing import capture_logs

from tests.spark_consumer.delta.maintenance.test_maintenance import (
    EPOCH,
    PATH,
    Clock,
    append,
    logged_versions,
    publish,
    values,
)
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance import maintenance, old_files, revisits
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance, small_file_count
from walbridge.spark_consumer.delta.maintenance.old_files import OldFiles
from walbridge.spark_consumer.delta.maintenance.revisits import INTERVAL, Revisits
from walbridge.spark_consumer.delta.maintenance.unnamed_files import FileHistory
from walbridge.spark_consumer.delta.manifest import manifest_reader
from walbridge.spark_consumer.delta.manifest.manifest_reader import written_rows
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

COMMITS_BETWEEN_VISITS = 8
BURST = COMMITS_BETWEEN_VISITS + 3
RETENTION_HOURS = 6
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    return Manifest(str(lake), "p", {})


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 4)
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", COMMITS_BETWEEN_VISITS)
    monkeypatch.setattr(maintenance, "SMALL_FILES_MAX", 6)


def started(lake: Path, manifest: Manifest, clock: Clock) -> Maintenance:
    hours = {"all_cuts_hours": 1, "minute_cuts_hours": 2, "cut_retention_hours": RETENTION_HOURS}
    return Maintenance(str(lake), manifest, Settings(name="p", lake={"path": str(lake), **hours}), clock)  # type: ignore[arg-type]


def overwrite(lake: Path, n: int) -> int:
    write_deltalake(str(lake / PATH), pa.table({"n": [n]}), mode="overwrite")
    return DeltaTable(str(lake / PATH)).version()


def data_files(lake: Path) -> int:
    return len([*(lake / PATH).glob("*.parquet")])


def test_files_of_a_burst_go_while_the_source_is_at_rest(lake: Path, manifest: Manifest) -> None:
    """At the visit after so many commits all of them were too young."""
    clock = Clock()
    tidying = started(lake, manifest, clock)
    version = 0
    for n in range(1, BURST + 1):
        clock.now += timedelta(seconds=1)
        version = overwrite(lake, n)
        publish(manifest, n, version, clock.now)
        tidying.after_plan([PATH])
    assert data_files(lake) == BURST
    clock.now += timedelta(days=9)
    for n in range(BURST + 1, BURST + 13):
        clock.now += timedelta(minutes=30)
        publish(manifest, n, version, clock.now)
        tidying.after_plan([])

    assert data_files(lake) == 1
    assert values(lake) == [BURST]


def test_files_of_a_busy_table_go_within_the_hour(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of an hour would wait for the next one."""
    monkeypatch.setattr(old_files, "COMMITS_BETWEEN_SWEEPS", COMMITS_BETWEEN_VISITS)
    clock = Clock()
    clock.now += timedelta(hours=9)
    tidying = started(lake, manifest, clock)
    for n in range(1, 6 * COMMITS_BETWEEN_VISITS):
        version = overwrite(lake, n)
        if n % COMMITS_BETWEEN_VISITS == 1:
            publish(manifest, n, version, clock.now)
        tidying.after_plan([PATH])

    assert data_files(lake) <= 6 + 2 * COMMITS_BETWEEN_VISITS


def test_files_go_from_the_start_on_though_the_oldest_row_was_dropped_just_before(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may have taken it. A lake that is older than what it keeps drops a row an hour: there always is one."""
    monkeypatch.setattr(old_files, "COMMITS_BETWEEN_SWEEPS", COMMITS_BETWEEN_VISITS)
    clock = Clock()
    clock.now += timedelta(hours=9)
    dropped = overwrite(lake, 0)
    for n in range(1, 6 * COMMITS_BETWEEN_VISITS):
        version = overwrite(lake, n)
        if n % COMMITS_BETWEEN_VISITS == 1:
            publish(manifest, n, version, clock.now)
    monkeypatch.setattr(manifest, "replaced_versions", lambda *_: {dropped})
    tidying = started(lake, manifest, clock)
    for n in range(2 * COMMITS_BETWEEN_VISITS):
        overwrite(lake, n)
        tidying.after_plan([PATH])

    assert data_files(lake) <= 7 + 2 * COMMITS_BETWEEN_VISITS
    assert values(lake, dropped) == [0]


@pytest.fixture
def slow_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read on in a log takes more time than there is in a gap, by a clock that only goes as it is looked at."""
    passed = count()
    monkeypatch.setattr(old_files, "GAP_S", 50)
    monkeypatch.setattr(old_files, "monotonic", lambda: next(passed))
    read = FileHistory.read

    def slow(*arguments: Any) -> bool:
        is_read = read(*arguments)
        return is_read and all(next(passed) > -1 for _ in range(60))

    monkeypatch.setattr(FileHistory, "read", slow)


def make_long_log(lake: Path, manifest: Manifest, clock: Clock) -> None:
    """Of 44 commits of nine hours ago, of which rows name the first and the last."""
    for n in range(1, 45):
        version = overwrite(lake, n)
        if n == 24:
            DeltaTable(str(lake / PATH)).create_checkpoint()
    publish(manifest, 1, 0, clock.now - timedelta(hours=10))
    publish(manifest, 2, version, clock.now)
    written_s = (clock.now - timedelta(hours=9)).timestamp()
    for log in (lake / PATH / "_delta_log").iterdir():
        os.utime(log, (written_s, written_s))


@pytest.mark.usefixtures("slow_files")
def test_log_is_trimmed_though_there_was_no_time_for_it_in_the_gap_that_files_have_taken(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the log of a table for which the time never suffices would grow for ever; and no plan waits for both."""
    clock = Clock()
    make_long_log(lake, manifest, clock)
    monkeypatch.setattr(old_files, "random_order", lambda *_: b"\0")
    tidying = started(lake, manifest, clock)
    tidying.after_plan([])
    assert len(logged_versions(lake)) >= 45
    for _ in range(3):
        tidying.after_plan([])

    assert len(logged_versions(lake)) < 30


def test_files_go_of_commits_that_a_job_had_not_read_when_their_turn_to_be_trimmed_came(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is started over a long log reads on in it visit by visit. What it had not read would be files of no
    commit, which stay for a day: those of hours at four commits a second."""
    clock, read = Clock(), FileHistory.read

    def a_few(history: FileHistory, files: Any, newest: int, named: Any, log: Any, _is_late: Any) -> bool:
        times = count()
        return read(history, files, newest, named, log, lambda: next(times) >= 5)

    monkeypatch.setattr(FileHistory, "read", a_few)
    monkeypatch.setattr(old_files, "random_order", lambda *_: b"\3")  # the log's turn comes first
    make_long_log(lake, manifest, clock)
    clock.now += timedelta(hours=9)
    tidying = started(lake, manifest, clock)
    for _ in range(40):
        tidying.after_plan([])
        clock.now += timedelta(minutes=10)

    assert data_files(lake) == 2
    assert values(lake) == [44]
    assert values(lake, 0) == [1]


@pytest.mark.usefixtures("slow_files")
def test_jobs_that_end_after_one_plan_trim_a_log_though_there_is_never_time_for_more_than_one_turn(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, taken = Clock(), set[int]()
    overwrite(lake, 1)
    for name, turn in {"_delete_unnamed": 0, "_delete_orphans": 1, "_delete_expired": 2, "_trim_log": 3}.items():

        def work(_old: OldFiles, gap: Any, turn: int = turn) -> bool:
            taken.add(turn)
            return not any(gap.is_late for _ in range(60))

        monkeypatch.setattr(OldFiles, name, work)
    for n in range(1, 20):
        publish(manifest, n, 0, clock.now)
        started(lake, manifest, clock).after_plan([])

    assert taken == {0, 1, 2, 3}


@pytest.mark.usefixtures("slow_files")
def test_orphans_for_which_there_was_no_time_go_at_the_next_visits(lake: Path, manifest: Manifest) -> None:
    """Not an hour later: the folder of a busy table may have many."""
    clock = Clock()
    publish(manifest, 1, overwrite(lake, 1), clock.now)
    orphan = lake / PATH / "part-00000-0b1a9b5e-1f52-4a5e-9d0c-0a9f3f3f3f3f-c000.snappy.parquet"
    orphan.write_bytes(b"of a task that was killed")
    os.utime(orphan, ((clock.now - timedelta(days=2)).timestamp(),) * 2)
    tidying = started(lake, manifest, clock)
    for _ in range(4):
        tidying.after_plan([])

    assert not orphan.exists()
    assert values(lake) == [1]


def test_rows_are_read_once_in_a_gap(lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The more are kept, the longer it takes; plans wait."""
    clock, times = Clock(), Counter[str]()

    def counted(*arguments: Any) -> Any:
        times["of a file"] += 1
        return read(*arguments)

    read = manifest_reader._heads_in
    monkeypatch.setattr(manifest_reader, "_heads_in", counted)
    for n in range(1, 4):
        publish(manifest, n, overwrite(lake, n), clock.now)
    started(lake, manifest, clock).after_plan([])

    assert times["of a file"] == len(DeltaTable(str(lake / "_cuts")).file_uris())


def test_visit_that_is_late_is_gone_on_with_after_a_pause(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after an hour: what a busy day has left would take days to go."""
    clock, visits = Clock(), list[datetime]()

    def take(_old: OldFiles, _table: DeltaTable, _path: str) -> bool:
        visits.append(clock.now)
        clock.now += timedelta(seconds=old_files.GAP_S)
        return False

    monkeypatch.setattr(OldFiles, "delete", take)
    publish(manifest, 1, overwrite(lake, 1), clock.now)
    tidying = started(lake, manifest, clock)
    for _ in range(20):
        tidying.after_plan([])
        clock.now += timedelta(seconds=10)

    assert next((later - earlier for earlier, later in pairwise(visits)), INTERVAL) <= timedelta(minutes=1)


def test_rows_that_come_fast_are_thinned_before_their_turn(lake: Path, manifest: Manifest) -> None:
    """Else all files of so many plans would be kept for as long, and then go at once."""
    clock = Clock()
    tidying = started(lake, manifest, clock)
    rows = 4 * maintenance.COMPACTIONS_BETWEEN_THINS
    for n in range(1, rows + 9):
        publish(manifest, n, 0, clock.now - timedelta(hours=9 if n < rows else 0))
        tidying.after_plan([])

    assert len(written_rows(DeltaTable(str(lake / "_cuts")))) <= 16


@pytest.mark.variant(of="test_days_of_plans_leave_what_kept_rows_name_and_little_else")
@pytest.mark.simulation
def test_jobs_that_end_after_one_plan_leave_files_and_log_bounded(lake: Path, manifest: Manifest) -> None:
    clock = Clock()
    written = {}
    for n in range(1, 41):
        clock.now += timedelta(hours=1)
        version = overwrite(lake, n)
        written[version] = [n]
        publish(manifest, n, version, clock.now)
        started(lake, manifest, clock).after_plan([PATH])

    named = manifest.versions_in_rows(PATH)
    assert len(named) <= RETENTION_HOURS + maintenance.MANIFEST_ROWS_MAX + 1
    assert data_files(lake) <= len(named) + maintenance.MANIFEST_ROWS_MAX
    assert len(logged_versions(lake)) <= len(named) + 20
    assert {version: values(lake, version) for version in named} == {version: written[version] for version in named}


def test_jobs_that_end_after_one_plan_merge_small_files(lake: Path, manifest: Manifest) -> None:
    clock = Clock()
    for n in range(1, maintenance.SMALL_FILES_MAX + 9):
        clock.now += timedelta(hours=1)
        publish(manifest, n, append(lake, n), clock.now)
        started(lake, manifest, clock).after_plan([PATH])

    assert small_file_count(DeltaTable(str(lake / PATH))) <= maintenance.SMALL_FILES_MAX


def test_visits_of_a_table_at_rest_commit_nothing(lake: Path, manifest: Manifest) -> None:
    """Else its log would grow for ever."""
    clock = Clock()
    publish(manifest, 1, overwrite(lake, 1), clock.now)
    tidying = started(lake, manifest, clock)
    tidying.after_plan([])
    version = DeltaTable(str(lake / PATH)).version()
    for _ in range(10):
        clock.now += INTERVAL
        tidying.after_plan([])

    assert DeltaTable(str(lake / PATH)).version() == version


def test_table_at_rest_of_which_the_folder_is_gone_stops_no_plan(lake: Path, manifest: Manifest) -> None:
    """The plan that writes to it tells more of it; until then it is looked for seldom."""
    clock = Clock()
    publish(manifest, 1, overwrite(lake, 1), clock.now)
    shutil.rmtree(lake / PATH)
    tidying = started(lake, manifest, clock)
    with capture_logs() as told:
        for _ in range(3):
            tidying.after_plan([])

    assert [(each["log_level"], each["path"]) for each in told] == [("warning", PATH)]


def test_table_of_which_a_commit_is_empty_stays_as_it_is(lake: Path, manifest: Manifest) -> None:
    """I8: a checkpoint would make a state of the table of it, in which nobody sees any more that rows are lost."""
    clock = Clock()
    for n in range(BURST):
        publish(manifest, n + 1, append(lake, n), clock.now)
    (lake / PATH / "_delta_log" / f"{BURST - 1:020}.json").write_bytes(b"")
    before = {*(lake / PATH).rglob("*")}
    tidying = started(lake, manifest, clock)
    with capture_logs() as told:
        for _ in range(3):
            tidying.after_plan([])

    assert [(each["log_level"], each["path"], each["why"]) for each in told] == [("warning", PATH, "DamagedTable")]
    assert {*(lake / PATH).rglob("*")} == before


@pytest.mark.parametrize("days", [-2, 2])
def test_clock_that_is_set_moves_no_turn(
    lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Back, and nothing would be due for as long; ahead during a visit, and the pause after it would last weeks."""
    clock, turns = Clock(), Counter[str]()
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 2)
    vacuum = DeltaTable.vacuum

    def vacuumed(table: DeltaTable, *arguments: Any, **options: Any) -> list[str]:
        turns[Path(table.table_uri).name] += 1
        clock.set_by = timedelta(days=max(days, 0))
        return vacuum(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "vacuum", vacuumed)
    tidying = started(lake, manifest, clock)

    def plans() -> Counter[str]:
        for _ in range(3):
            newest = manifest.newest()
            publish(manifest, newest.sequence + 1 if newest is not None else 1, 0, clock.now)
            tidying.after_plan([])
        return turns

    overwrite(lake, 1)
    assert plans() == {Path(PATH).name: 1, "_cuts": 1}
    clock.set_by = timedelta(days=days)
    assert plans() == {Path(PATH).name: 1, "_cuts": 1}
    clock.now += INTERVAL
    assert plans() == {Path(PATH).name: 2, "_cuts": 2}


def entry(name: str, state: str = "current", version: int | None = 1) -> TableEntry:
    return TableEntry(1, "public", name, f"p.public.{name}", name, version, "0" * 16, state)


def row(sequence: int, *entries: TableEntry) -> CutRow:
    return CutRow(sequence, "published", "p", EPOCH, 1, 1, 1, 1, None, NOW, entries)


def taken(queue: Revisits, now: datetime) -> list[str]:
    found = []
    while (path := queue.next(now)) is not None:
        queue.visited(path, now, timedelta(0))
        found.append(path)
    return found


def test_every_table_is_due_once_at_a_start_and_again_after_the_interval() -> None:
    queue = Revisits()
    left = [entry("s", "stale"), entry("q", "quarantined"), entry("d", "dropped"), entry("n", version=None)]
    queue.seed(row(1, entry("a"), entry("b"), *left))
    queue.written(["a", "new"], NOW)

    assert sorted(taken(queue, NOW)) == ["a", "b"]
    queue.stop_visiting("b")
    assert taken(queue, NOW + INTERVAL - timedelta(seconds=1)) == []
    assert sorted(taken(queue, NOW + INTERVAL)) == ["a", "new"]


def test_jobs_that_visit_one_table_each_visit_all() -> None:
    """Also where each writes two rows, so that every second number comes."""
    first = set()
    for sequence in range(2, 60, 2):
        queue = Revisits()
        queue.seed(row(sequence, *map(entry, "abcd")))
        first.add(queue.next(NOW))

    assert first == {*"abcd"}


def test_visits_that_take_long_leave_time_for_plans() -> None:
    queue = Revisits()
    queue.seed(row(1, entry("a"), entry("b")))
    took = timedelta(seconds=2)
    queue.visited("a", NOW, took)

    assert queue.next(NOW + revisits.PAUSE * took - timedelta(seconds=1)) is None
    assert queue.next(NOW + revisits.PAUSE * took) == "b"
