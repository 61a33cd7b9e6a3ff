"""Single rows of a current table that the producer read again: each is as it says, whatever the lake held (I5, I8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract_writer import Event
from tests.spark_consumer.memory_pipeline import MemoryPipeline
from tests.spark_consumer.two_tables import ACCOUNTS, Run, cut_rows, killed_at

LSN = 0x2000
Rows = list[tuple[int, int]]


def row(id_: int, n: int, *, op: str = "r", at: int = LSN, ordinal: int = -1) -> Event:
    return Event(ACCOUNTS, op, at, ordinal, after={"id": id_, "n": n})


def gone(id_: int, *, at: int = LSN, ordinal: int = -1) -> Event:
    return Event(ACCOUNTS, "d", at, ordinal, before={"id": id_}, before_image="key")


def accounts(lake: Path) -> tuple[str, Rows]:
    (entry,) = (entry for entry in cut_rows(lake)[-1].tables if entry.topic == ACCOUNTS.topic)
    found = DeltaTable(f"{lake}/{entry.path}", version=entry.version).to_pyarrow_table()
    return entry.state, sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


LATER = LSN + 0x100
CASES: dict[str, tuple[list[Event], Rows]] = {
    "there, with another value": ([row(1, 9)], [(1, 9)]),
    "missing": ([row(2, 9)], [(1, 0), (2, 9)]),
    "there, and gone from the source": ([gone(1)], []),
    "missing in both": ([gone(2)], [(1, 0)]),
    "all of them": ([row(1, 9), row(2, 9), gone(3)], [(1, 9), (2, 9)]),
    "beside rows that the source inserts": (
        [row(2, 9), row(3, 3, op="c", at=LSN - 16, ordinal=0), row(4, 4, op="c", at=LATER, ordinal=0)],
        [(1, 0), (2, 9), (3, 3), (4, 4)],
    ),
    "changed later": ([row(2, 9), row(2, 10, op="u", at=LATER, ordinal=0)], [(1, 0), (2, 10)]),
    "deleted later": ([row(2, 9), gone(2, at=LATER, ordinal=0)], [(1, 0)]),
    "gone, and inserted later": ([gone(1), row(1, 5, op="c", at=LATER, ordinal=0)], [(1, 5)]),
    "changed before": ([row(1, 8, op="u", at=LSN - 16, ordinal=0), row(1, 9)], [(1, 9)]),
}


@pytest.mark.parametrize("case", CASES)
def test_row_is_what_the_copied_one_says_and_the_table_stays_current(
    pipeline: MemoryPipeline, run: Run, lake: Path, case: str
) -> None:
    events, rows = CASES[case]
    run()
    pipeline.send(*sorted(events, key=lambda event: (event.commit_lsn, event.ordinal)))
    run()
    assert accounts(lake) == ("current", rows)


@pytest.mark.parametrize("point", ["apply:segment-applied", "job:table-applied", "job:before-publish"])
def test_row_enters_once_after_a_death(pipeline: MemoryPipeline, run: Run, lake: Path, point: str) -> None:
    run()
    pipeline.send(row(1, 9), row(2, 9), gone(3))
    assert killed_at(point, run)
    run()
    assert accounts(lake) == ("current", [(1, 9), (2, 9)])


def test_operations_tell_again_what_the_lake_holds_once_the_rows_are_in(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    """I7: a row that only the source has is noticed as ever, and one that was mended is none."""
    run()
    pipeline.send(row(2, 9))
    run()
    pipeline.send(row(2, 10, op="u", at=LATER, ordinal=0))
    run()
    assert accounts(lake) == ("current", [(1, 0), (2, 10)])
    pipeline.send(row(7, 7, op="u", at=LATER + 16, ordinal=0))
    run()
    assert accounts(lake)[0] == "stale"


def test_copied_rows_that_are_older_than_the_lakes_change_nothing(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    run()
    pipeline.send(row(1, 5, op="u", at=LATER, ordinal=0))
    run()
    pipeline.send(row(1, 9), gone(1, at=LSN - 16))
    run()
    assert accounts(lake) == ("current", [(1, 5)])
