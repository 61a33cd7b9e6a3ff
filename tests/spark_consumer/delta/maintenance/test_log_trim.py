"""A table's log is as long as kept versions need it, and every one of them can be read."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from hypothesis import given
from hypothesis import strategies as st

from tests.in_soak import in_variants, others_in_variants
from tests.spark_consumer.delta.long_log import LongLog
from walbridge.spark_consumer.delta.folder import put_object
from walbridge.spark_consumer.delta.maintenance import log_trim, slim_checkpoint
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, checkpoint_name, commit_name, contents_at
from walbridge.spark_consumer.delta.maintenance.log_trim import LogTrim

NOW = datetime.now(UTC)
COMMITS = 205
NAMED = [3, 47, 78, 79, 99, 100, 133, 200, 205]


def never() -> bool:
    return False


@pytest.fixture
def table(lake: Path) -> LongLog:
    """One commit a minute, the last just now."""
    made = LongLog(lake / "public/a", NOW - timedelta(minutes=COMMITS))
    for n in range(1, COMMITS + 1):
        made.commit(NOW - timedelta(minutes=COMMITS - n))
    return made


def trim(table: LongLog, *, is_late: Callable[[], bool] = never, hours: float = 0.5) -> bool:
    trim = LogTrim(DeltaTable(str(table.folder)), {}, is_late)
    return trim.trim(NAMED, NAMED, {NAMED[-1]}, NOW - timedelta(hours=hours))


def assert_named_are_readable(table: LongLog) -> None:
    assert [table.rows(version) for version in NAMED] == [[version] for version in NAMED]
    assert table.rows() == [COMMITS]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        *map(in_variants, (b"[]", b"7", b'{"version": "x"}', b'{"size": 1}', b"[" * 20_000)),
        b'{"version": 99, "size": "many"}',
    ],
)
def test_log_whose_named_checkpoint_cannot_be_told_is_trimmed_all_the_same(table: LongLog, said: bytes) -> None:
    """Another program wrote that file. Readers pass over it, too."""
    (table.log / "_last_checkpoint").write_bytes(said)

    assert trim(table)
    assert_named_are_readable(table)


def test_two_files_of_the_log_stay_for_a_named_version_and_none_for_others(table: LongLog) -> None:
    """I8: each is readable; what is younger than the tail stays as it is."""
    assert trim(table)

    assert_named_are_readable(table)
    commits = [version for version in range(COMMITS + 1) if commit_name(version) in table.names()]
    # 3 has the log's beginning; 78 needs no more than 79; 100 builds on 99.
    assert commits == [0, 1, 2, 3, 47, 78, 79, 99, 100, 133, *range(159, COMMITS + 1)]
    checkpoints = [version for version in range(COMMITS + 1) if checkpoint_name(version) in table.names()]
    assert checkpoints == [47, 78, 79, 99, 133, 159, 179, 199]


def test_commits_go_on_as_ever_and_older_versions_go_with_their_rows(table: LongLog) -> None:
    trim(table)
    for _ in range(60):
        table.commit(NOW)
    LogTrim(DeltaTable(str(table.folder)), {}, never).trim([260], [260], {260}, NOW + timedelta(minutes=1))

    assert table.rows(260) == [260]
    assert table.rows() == [COMMITS + 60]
    assert min(int(name[:20]) for name in table.names() if name[0] == "0") == 239


def test_log_is_left_as_it_is_while_it_is_young(table: LongLog) -> None:
    """I8: whoever follows the log, or reads a version that he took before its row went."""
    before = table.names()
    assert trim(table, hours=24)

    assert {*before} <= {*table.names()}


def test_trim_that_is_late_goes_on_the_next_time(table: LongLog) -> None:
    turns = iter([False] * 20)
    assert not trim(table, is_late=lambda: next(turns, True))

    assert_named_are_readable(table)
    assert trim(table)
    assert_named_are_readable(table)
    assert commit_name(10) not in table.names()


@pytest.mark.parametrize("step", others_in_variants(range(0, 60, 7), [14, 42]))
def test_every_named_version_is_readable_wherever_a_trim_is_killed(
    table: LongLog, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """I8; and the next job finishes it."""
    left = step

    def dies(done: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **named: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            done(*args, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(DeltaStorageHandler, "delete_file", dies(DeltaStorageHandler.delete_file))
        patched.setattr(slim_checkpoint, "put_object", dies(put_object))
        with pytest.raises(KeyboardInterrupt):
            trim(table)
    assert_named_are_readable(table)

    trim(table)
    assert_named_are_readable(table)
    assert commit_name(10) not in table.names()


def test_checkpoints_are_without_tombstones_of_files_that_are_gone(
    table: LongLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each checkpoint of nine days would have them all. Those of files that a kept version needs keep them from a
    VACUUM."""
    monkeypatch.setattr(log_trim, "TOMBSTONES_MAX", 50)
    held = {name: table.folder / name for name in contents_at(files(table), listed(table), 47)}
    for path in table.folder.glob("*.parquet"):
        if path.name not in held and path.name != table.file:
            path.unlink()
    trim(table)
    for _ in range(20):
        table.commit(NOW)

    assert {*held} <= tombstones(table, 219)
    assert len(tombstones(table, 219)) < 30
    assert tombstones(table, 133) == set()
    assert json.loads((table.log / "_last_checkpoint").read_text())["version"] == 219


@pytest.mark.parametrize(("deleted", "is_made"), [(80, False), (120, True)])
def test_checkpoint_without_tombstones_is_made_once_half_of_them_are_of_no_use(
    table: LongLog, monkeypatch: pytest.MonkeyPatch, deleted: int, is_made: bool
) -> None:
    """Files of a busy table are kept for readers by thousands: it takes a second then, and would leave nearly all."""
    monkeypatch.setattr(log_trim, "TOMBSTONES_MAX", 50)
    trim = LogTrim(DeltaTable(str(table.folder)), {}, never, deleted)
    trim.trim(NAMED, NAMED, {NAMED[-1]}, NOW - timedelta(hours=0.5))

    assert trim.has_slimmed == (checkpoint_name(COMMITS) in table.names()) == is_made


def files(table: LongLog) -> DeltaStorageHandler:
    return DeltaStorageHandler(str(table.folder))


def listed(table: LongLog) -> LogFiles:
    return LogFiles.of(str(table.folder), files(table))


def tombstones(table: LongLog, version: int) -> set[str]:
    found = pq.read_table(table.log / checkpoint_name(version))["remove"].to_pylist()
    return {each["path"] for each in found if each is not None and each["path"] is not None}


def test_what_a_version_holds_is_what_delta_says(table: LongLog) -> None:
    log = listed(table)
    for version in (1, 18, 19, 20, 100, COMMITS):
        uris = DeltaTable(str(table.folder), version=version).file_uris()
        assert [*contents_at(files(table), log, version)] == [uri.rpartition("/")[2] for uri in uris]


def test_what_spark_and_hadoop_write_beside_a_file_goes_with_it(table: LongLog) -> None:
    left = [f".{commit_name(10)}.crc", f"{10:020}.crc", f".{10:020}.crc.crc", f".{checkpoint_name(39)}.crc"]
    kept = [f".{commit_name(47)}.crc", f"{47:020}.crc", f".{47:020}.crc.crc", "notes.txt"]
    for name in left + kept:
        (table.log / name).touch()
    trim(table)

    assert {*left}.isdisjoint(table.names())
    assert {*kept} <= {*table.names()}


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_all_that_a_wanted_version_needs_stays(checkpoints: set[int], wanted: set[int], tail: int) -> None:
    """I8, wherever checkpoints are."""
    names = [*map(commit_name, range(61)), *map(checkpoint_name, checkpoints)]
    log = LogFiles(dict.fromkeys(range(61), NOW), checkpoints, names)
    gone = {*log.unneeded(wanted, tail, None)}
    left = LogFiles(
        {version: NOW for version in range(61) if commit_name(version) not in gone},
        {version for version in checkpoints if checkpoint_name(version) not in gone},
        [],
    )

    for version in wanted | {*range(tail, 61)}:
        assert left.base(version) == log.base(version)
        assert left.is_whole(version)
        assert version in left.commits
