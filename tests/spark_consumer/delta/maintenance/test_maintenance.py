"""Between plans: fewer files, same rows, and nothing a reader can still ask for is deleted."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from structlog.testing import capture_logs

from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.delta.commit import WITHOUT_DATA_CHANGE, Commit
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance.clock import Clock as ProcessClock
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance, small_file_count
from walbridge.spark_consumer.delta.manifest.manifest_reader import published_rows
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.plan.kept_cuts import Retention, WrittenRow, dropped
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

EPOCH = "7-1-s-0/10"
PATH = "public/a"


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    return Manifest(str(lake), "p", {})


@pytest.fixture
def tidying(lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Maintenance:
    return with_small_limits(lake, manifest, monkeypatch)


def with_small_limits(lake: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Maintenance:
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 4)
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 3)
    monkeypatch.setattr(maintenance, "SMALL_FILES_MAX", 2)
    settings = Settings(name="p", lake={"path": str(lake), "cut_retention_hours": 1})  # type: ignore[arg-type]
    return Maintenance(str(lake), manifest, settings)


def publish(
    manifest: Manifest,
    sequence: int,
    version: int,
    written_at: datetime | None = None,
    *,
    kind: str = "published",
    path: str = PATH,
) -> CutRow:
    entry = TableEntry(1, "public", "a", "p.public.a", path, version, "0" * 16, "current")
    lsn = 100 + sequence
    cuts, offset, now = (sequence, sequence), 2 * sequence, datetime.now(UTC)
    row = CutRow(sequence, kind, "p", EPOCH, *cuts, offset, lsn, None, written_at or now, (entry,))
    manifest.append(row)
    return row


def append(lake: Path, n: int) -> int:
    write_deltalake(str(lake / PATH), pa.table({"n": [n]}), mode="append")
    return DeltaTable(str(lake / PATH)).version()


def values(lake: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(str(lake / PATH), version=version).to_pyarrow_table()["n"].to_pylist())


def test_a_table_of_small_files_is_merged_and_holds_the_same_rows(tidying: Maintenance, lake: Path) -> None:
    for n in range(3):
        append(lake, n)
        tidying.after_plan([PATH])

    table = DeltaTable(str(lake / PATH))
    assert small_file_count(table) == 1
    assert values(lake) == [0, 1, 2]


def test_a_merge_of_files_changes_no_data_for_those_who_follow_the_log(tidying: Maintenance, lake: Path) -> None:
    """I5: the head of a table is its base plus commits without data change."""
    for n in range(3):
        append(lake, n)
        tidying.after_plan([PATH])

    operations = [entry["operation"] for entry in DeltaTable(str(lake / PATH)).history(3)]
    assert "OPTIMIZE" in operations
    assert set(operations) <= WITHOUT_DATA_CHANGE | {"WRITE"}


def test_every_version_that_a_kept_row_names_stays_readable(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8, also where the newest published row is older than the retention."""
    long_ago = datetime.now(UTC) - timedelta(days=40)
    for n in range(3):
        publish(manifest, n + 1, append(lake, n), long_ago)
        tidying.after_plan([PATH])

    row = manifest.newest()
    assert row is not None
    assert values(lake, row.tables[0].version) == [0, 1, 2]


def replaced(lake: Path, hours_ago: float) -> None:
    """Version 0 holds 0; version 1 holds 1 and was written that long ago."""
    append(lake, 0)
    write_deltalake(str(lake / PATH), pa.table({"n": [1]}), mode="overwrite")
    log = lake / PATH / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "remove" in action:
            action["remove"]["deletionTimestamp"] -= int(hours_ago * 3_600_000)
    log.write_text("\n".join(map(json.dumps, actions)))


def tidied(tidying: Maintenance, lake: Path) -> bool:
    """Whether version 0 can still be read after the table was visited."""
    for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
        tidying.after_plan([PATH])
    try:
        return values(lake, 0) == [0]
    except FileNotFoundError:
        return False


def test_files_are_kept_as_long_as_the_oldest_row_that_may_name_them(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8: an old row stays as long as the manifest is not yet trimmed, whatever the retention."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0, datetime.now(UTC) - timedelta(hours=10))
    publish(manifest, 2, 1)

    assert tidied(tidying, lake)


def test_files_are_kept_that_a_row_of_a_clock_names_that_was_ahead(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8: it stays until its time is old, and the times of the rows after it do not tell its age."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0, datetime.now(UTC) + timedelta(days=2))
    publish(manifest, 2, 1)

    assert tidied(tidying, lake)


def test_files_are_kept_for_the_retention_and_an_hour(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """I8: a reader may have read its row just before it was dropped."""
    replaced(lake, hours_ago=1.5)
    publish(manifest, 1, 1)

    assert tidied(tidying, lake)


@pytest.mark.parametrize("newest", ["published", "applied"])
def test_version_that_readers_take_now_is_kept_whatever_the_clocks_say(
    tidying: Maintenance, manifest: Manifest, lake: Path, newest: str
) -> None:
    """I8: a log whose times are far behind those of the manifest; a row that is applied is not read yet."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0)
    if newest == "applied":
        publish(manifest, 2, 1, kind="applied")

    assert tidied(tidying, lake)


def test_files_that_no_row_can_name_are_deleted(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """Another table's row names its own versions only."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0, path="public/b")

    assert not tidied(tidying, lake)


def test_table_of_which_only_marks_of_deleted_files_are_left_gets_no_commit(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """Their files went long before a vacuum would delete them: a table at rest would get two commits at each visit."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0, path="public/b")
    held = {Path(each).name for each in DeltaTable(str(lake / PATH)).file_uris()}
    for file in {*(lake / PATH).glob("*.parquet")}:
        if file.name not in held:
            file.unlink()
    tidied(tidying, lake)

    assert not [each for each in DeltaTable(str(lake / PATH)).history() if each["operation"].startswith("VACUUM")]


def test_the_manifest_is_compacted_after_so_many_rows(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    rows = []
    for n in range(1, 5):
        rows.append(publish(manifest, n, n))
        tidying.after_plan([])

    assert len(DeltaTable(str(lake / "_cuts")).file_uris()) == 1
    assert manifest.newest() == rows[-1]


def test_rows_older_than_the_retention_leave_the_manifest(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    for n in range(1, 5):
        publish(manifest, n, n, datetime.now(UTC) - timedelta(hours=2 if n < 3 else 0))
        tidying.after_plan([])

    assert sorted(DeltaTable(str(lake / "_cuts")).to_pyarrow_table()["sequence"].to_pylist()) == [3, 4]


def test_one_thing_is_tidied_in_a_gap(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """No plan waits for more than one table."""
    for n in range(3):
        append(lake, n)
        publish(manifest, n + 1, n)
        tidying.after_plan([PATH] if n else [])
    append(lake, 3)
    publish(manifest, 4, 3)
    tidying.after_plan([PATH])

    assert len(DeltaTable(str(lake / "_cuts")).file_uris()) == 1
    assert small_file_count(DeltaTable(str(lake / PATH))) == 4


CHECKPOINT = 19
"""The version at which delta-rs makes a table's first checkpoint, and deletes what has expired before it."""


def add_row(table: LakeTable) -> None:
    rows = pa.table({"n": [table.version]})
    table.append(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()), Commit("p"))


def rested(lake: Path, days: int, commits: int = CHECKPOINT - 1) -> LakeTable:
    """A table whose last commit was so many days ago."""
    table = LakeTable.create(str(lake / PATH), [LakeField("n", "long", {})], Commit("p"), {})
    while table.version < commits:
        add_row(table)
    written = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    for log in (lake / PATH / "_delta_log").iterdir():
        os.utime(log, (written, written))
    return table


def logged_versions(lake: Path) -> list[int]:
    return sorted(int(log.stem) for log in (lake / PATH / "_delta_log").glob("*[0-9].json"))


def test_published_version_of_a_table_that_rested_is_readable_after_its_next_commit(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8: it was written before the log's retention, and replaced only now."""
    table = rested(lake, days=12)
    publish(manifest, 1, table.version)
    add_row(table)
    publish(manifest, 2, table.version)
    for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
        tidying.after_plan([PATH])

    assert len(values(lake, CHECKPOINT - 1)) == CHECKPOINT - 1


def test_table_of_an_older_version_of_walbridge_gets_the_properties_of_a_new_one(
    tidying: Maintenance, lake: Path
) -> None:
    for n in range(3):
        append(lake, n)
        tidying.after_plan([PATH])

    assert DeltaTable(str(lake / PATH)).metadata().configuration["delta.enableExpiredLogCleanup"] == "false"


def test_log_that_no_kept_row_needs_is_deleted(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """Else it would grow without a bound."""
    table = rested(lake, days=12, commits=2 * CHECKPOINT + 1)
    add_row(table)
    publish(manifest, 1, table.version)
    for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
        tidying.after_plan([PATH])

    assert min(logged_versions(lake)) == CHECKPOINT
    assert len(values(lake)) == 2 * CHECKPOINT + 2


def test_log_is_left_alone_where_the_oldest_row_names_a_version_that_is_lost(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """By somebody else: plans go on."""
    table = rested(lake, days=12, commits=CHECKPOINT)
    publish(manifest, 1, 5)
    publish(manifest, 2, table.version)
    for version in range(8):
        (lake / PATH / "_delta_log" / f"{version:020}.json").unlink()
    for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
        tidying.after_plan([PATH])

    assert min(logged_versions(lake)) == 8
    assert table.version == CHECKPOINT


def test_table_whose_published_version_is_lost_keeps_its_files_and_plans_go_on(
    tidying: Maintenance, manifest: Manifest, lake: Path
) -> None:
    """I8: the next published row names another version; that this one is lost is told."""
    rested(lake, days=12, commits=CHECKPOINT)
    publish(manifest, 1, 5)
    for version in range(8):
        (lake / PATH / "_delta_log" / f"{version:020}.json").unlink()
    with capture_logs() as told:
        for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
            tidying.after_plan([PATH])

    assert [(each["log_level"], each["path"], each["version"]) for each in told] == [("warning", PATH, 5)]
    assert min(logged_versions(lake)) == 8


class Clock(ProcessClock):
    """A test moves it: time passes by ``now``, and somebody sets the wall clock by ``set_by``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        self.set_by = timedelta(0)

    def __call__(self) -> datetime:
        return self.now + self.set_by

    def steady(self) -> datetime:
        return self.now


@pytest.mark.simulation
def test_days_of_plans_leave_what_kept_rows_name_and_little_else(
    manifest: Manifest, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: all rows of an hour, one a minute for four, one an hour for a day; each of their versions is readable. Also
    where jobs come and go meanwhile."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 4)
    hours = {"all_cuts_hours": 1, "minute_cuts_hours": 4, "cut_retention_hours": 24}
    settings = Settings(name="p", lake={"path": str(lake), **hours})  # type: ignore[arg-type]
    clock = Clock()
    tidying = Maintenance(str(lake), manifest, settings, clock)
    retention = Retention(timedelta(hours=1), timedelta(hours=4), timedelta(hours=24))
    steps = [timedelta(seconds=20)] * 40 + [timedelta(minutes=10)] * 60 + [timedelta(hours=1)] * 40
    written = []
    for n, step in enumerate(steps, 1):
        clock.now += step
        if n % 45 == 0:
            tidying = Maintenance(str(lake), manifest, settings, clock)
        write_deltalake(str(lake / PATH), pa.table({"n": [n]}), mode="overwrite")
        row = publish(manifest, n, DeltaTable(str(lake / PATH)).version(), clock.now)
        written.append(WrittenRow(row.sequence, row.kind, row.written_at))
        tidying.after_plan([PATH])
    manifest.thin(retention, clock.now)

    gone = dropped(written, retention, clock.now)
    rows = published_rows(DeltaTable(str(lake / "_cuts")))
    assert [row.sequence for row in rows] == [
        row.sequence for row in written if not any(first <= row.sequence <= last for first, last in gone)
    ]
    assert [values(lake, row.tables[0].version) for row in rows] == [[row.sequence] for row in rows]
    assert len(rows) <= 27
    assert len(logged_versions(lake)) <= 2 * len(rows) + 40
    assert len([*(lake / PATH).glob("*.parquet")]) <= len(rows) + 12
    assert len(DeltaTable(str(lake / "_cuts")).file_uris()) <= 20


def test_log_of_which_a_commit_is_gone_lets_no_file_go(tidying: Maintenance, manifest: Manifest, lake: Path) -> None:
    """I8: whether a kept row names it, nobody knows then; plans go on."""
    replaced(lake, hours_ago=5)
    publish(manifest, 1, 0, datetime.now(UTC) - timedelta(hours=10))
    append(lake, 2)
    publish(manifest, 2, 2)
    DeltaTable(str(lake / PATH)).create_checkpoint()
    (lake / PATH / "_delta_log" / f"{1:020}.json").unlink()
    for _ in range(maintenance.COMMITS_BETWEEN_VISITS):
        tidying.after_plan([PATH])

    assert values(lake, 0) == [0]


def test_row_that_a_reader_took_before_it_was_dropped_is_readable_for_an_hour_more(
    manifest: Manifest, lake: Path
) -> None:
    """I8: rows as they were an hour ago count as well."""
    publish(manifest, 1, 5)
    taken = datetime.now(UTC)
    publish(manifest, 2, 9, taken + timedelta(days=1))
    manifest.thin(Retention(*[timedelta(hours=1)] * 3), taken + timedelta(hours=2))

    assert manifest.versions_in_rows(PATH) == {9}
    assert manifest.replaced_versions(PATH, datetime.now(UTC)) == set()
    assert 5 in manifest.replaced_versions(PATH, taken)
    assert manifest.replaced_versions(PATH, taken - timedelta(days=1)) == set()
    assert manifest.replaced_versions("public/b", taken) == set()
