"""Files that no named version holds: by the log, against what each version is made of."""

import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.delta.long_log import LongLog
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, commit_name, contents_at
from walbridge.spark_consumer.delta.maintenance.unnamed_files import FileHistory

FILES = [f"part-{n}.parquet" for n in range(5)]


def commits(choices: Sequence[set[str]], marked: set[str]) -> list[list[object]]:
    """From one content to the next. Of files that are marked, rows are marked as deleted in each commit."""
    steps = []
    for before, after in pairwise(choices):
        kept = before & after & marked
        gone = [{"remove": {"path": path, "deletionTimestamp": 5}} for path in sorted(before - after | kept)]
        steps.append([*gone, *({"add": {"path": path}} for path in sorted(after - before | kept))])
    return steps


@given(
    st.lists(st.sets(st.sampled_from(FILES)), min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.sampled_from(FILES)),
)
def test_file_goes_that_went_and_that_no_named_version_holds(
    contents: list[set[str]], named: set[int], marked: set[str]
) -> None:
    """I8: also one that a restore brought back, or of which rows were marked."""
    lives = FileHistory(0)
    for version, actions in enumerate(commits(contents, marked), 1):
        lives.add_commit(version, actions)
    wanted = {version for version in named if version < len(contents)}
    needed = set().union(*(contents[version] for version in wanted), contents[-1])

    assert {*lives.unnamed(wanted, 10)} == set().union(*contents) - needed
    assert lives.unnamed(wanted, 5) == []


def test_named_versions_are_not_gone_through_for_each_file() -> None:
    """A table with four commits a second has ten thousands of both."""

    class Named(set[int]):
        times = 0

        def __iter__(self) -> Iterator[int]:
            Named.times += 1
            return super().__iter__()

    lives = FileHistory(0)
    for version in range(1, 100):
        lives.add_commit(
            version, [{"remove": {"path": f"{version - 1}.parquet"}}, {"add": {"path": f"{version}.parquet"}}]
        )

    assert len(lives.unnamed(Named(range(0, 100, 3)), 10)) == 66
    assert Named.times == 1


def test_log_is_listed_once_however_many_versions_are_kept_of_it(tmp_path: Path) -> None:
    """Else a job that begins behind a week of them reads for hours, and nothing is deleted meanwhile."""
    table, now = LongLog(tmp_path / "t", datetime(2026, 1, 1, tzinfo=UTC)), datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(30):
        table.commit(now)
    kept = [*range(3, 30, 3)]
    for version in kept:
        DeltaTable(str(table.folder), version=version).create_checkpoint()
    for version in {*range(kept[-1])} - {*kept}:
        (table.log / commit_name(version)).unlink()
    files, listings = DeltaStorageHandler(str(table.folder)), 0

    def log() -> LogFiles:
        nonlocal listings
        listings += 1
        return LogFiles.of(str(table.folder), files)

    lives = FileHistory(3, contents_at(files, log(), 3))
    late = iter([False, False, True])
    assert not lives.read(files, 30, kept, log, lambda: next(late))
    assert lives.read(files, 30, kept, log, lambda: False)
    assert listings == 2
    assert len(lives.unnamed(kept[:-1], 10**15)) == 3  # of the last of them, and of what came behind it


def test_file_of_which_a_part_is_deleted_by_a_vector_is_there_still() -> None:
    lives = FileHistory(0)
    lives.add_commit(1, [{"add": {"path": "a.parquet"}}, {"remove": {"path": "a.parquet", "deletionTimestamp": 1}}])

    assert lives.unnamed([], 10) == []


def test_file_in_a_place_that_is_not_ours_is_left_to_the_vacuum() -> None:
    lives = FileHistory(0)
    for path in ("file:/elsewhere/a.parquet", "p=1/a.parquet", "a%20b.parquet", "deletion_vector_1.bin"):
        lives.add_commit(lives.read_to + 1, [{"remove": {"path": path, "deletionTimestamp": 1}}])

    assert lives.unnamed([], 10) == []


def test_file_that_was_deleted_is_not_named_again() -> None:
    lives = FileHistory(0)
    lives.add_commit(1, [{"remove": {"path": FILES[0], "deletionTimestamp": 1}}])
    lives.forget(FILES[0])

    assert lives.unnamed([], 10) == []


def test_files_of_which_each_commit_marks_rows_take_no_more_memory_with_each_of_them() -> None:
    """I9: a job runs for weeks."""
    lives = FileHistory(0)
    lives.add_commit(1, [{"add": {"path": path}} for path in FILES])
    mark = [{"remove": {"path": path, "deletionTimestamp": 5}} for path in FILES]
    tracemalloc.start()
    for version in range(2, 2_000):
        lives.add_commit(version, [*mark, *({"add": {"path": path}} for path in FILES)])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 20_000
