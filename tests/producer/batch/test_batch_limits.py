"""Limits of a batch: when it is full, when it may wait, and where a transaction is split."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.producer.kept import SETTINGS
from walbridge.producer.batch.batch_limits import BARRIERS_MAX, BARRIERS_SPLIT, BatchLimits
from walbridge.producer.batch.progress import Batch
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer


def limits(**given: int) -> BatchLimits:
    """Far from every limit that is not given."""
    far = {"batch_rows_max": 10**9, "batch_bytes_max": 10**12, "batch_ms_max": 10**9, "cut_bytes_max": 10**9}
    return BatchLimits(Settings(name=SETTINGS.name, producer=Producer(**(far | given))))  # type: ignore[arg-type]


Held = dict[str, int]


def held(*, rows: int = 0, size_bytes: int = 0, barriers: int = 0, tables: int = 0, open_ms: float = 0) -> Batch:
    """A batch that holds so much."""
    batch = Batch(row_count=rows, byte_count=size_bytes, opened_s=time.monotonic() - open_ms / 1000)
    for n in range(barriers):
        batch.add_barrier(1, "t", Barrier("truncate", Position(Lsn(5), n)))
    for relation_id in range(tables):
        batch.table(relation_id, "t")
    return batch


def test_batch_without_rows_and_time_is_not_full() -> None:
    assert not limits().is_full(held())


@pytest.mark.parametrize(
    ("given", "below", "at"),
    [
        ({"batch_rows_max": 2}, {"rows": 1}, {"rows": 2}),
        ({"batch_bytes_max": 1024}, {"size_bytes": 1023}, {"size_bytes": 1024}),
        ({}, {"barriers": BARRIERS_MAX - 1}, {"barriers": BARRIERS_MAX}),
        ({"batch_ms_max": 3_600_000}, {}, {"open_ms": 3_600_000}),
        ({"cut_bytes_max": 10_000}, {"tables": 62}, {"tables": 63}),
    ],
    ids=["rows", "bytes", "barriers of one table", "time", "tables of a cut"],
)
def test_batch_is_full_at_its_limit_and_not_before(given: dict[str, int], below: Held, at: Held) -> None:
    """I9: the job has a bounded number of segments a plan, and a cut is one record."""
    assert [limits(**given).is_full(held(**batch)) for batch in (below, at)] == [False, True]


@pytest.mark.parametrize(
    ("batch", "may"),
    [
        ({"rows": 3}, True),
        ({"rows": 4}, False),
        ({"barriers": BARRIERS_MAX}, False),
        ({"rows": 2, "open_ms": 600_000}, False),
    ],
    ids=["full", "twice as full", "barriers", "as old as a quarter of Kafka's patience"],
)
def test_full_batch_may_wait_until_it_holds_twice_as_much(batch: Held, may: bool) -> None:
    """I9"""
    assert limits(batch_rows_max=2).may_wait(held(**batch)) is may


def test_transaction_is_split_where_it_alone_fills_a_batch() -> None:
    """Small transactions before it do not make it a split one."""
    of = limits(batch_rows_max=10, batch_bytes_max=2_000)
    of.begin_transaction(held(rows=9, size_bytes=500))

    found = [
        of.is_split_due(each) for each in (held(rows=18), held(rows=19), held(size_bytes=2_499), held(size_bytes=2_500))
    ]

    assert found == [False, True, False, True]
    assert of.is_split_due(held(barriers=BARRIERS_SPLIT))


def test_what_came_after_the_last_whole_transaction_is_a_part_of_one() -> None:
    of, before = limits(), held(rows=9)
    of.begin_transaction(before)

    assert not of.is_in_transaction(before)
    assert of.is_in_transaction(held(rows=10))
    assert of.is_in_transaction(replace(before, dropped={1: TableProgress(1, "stale")}))
