"""From when on Kafka's records are needed: that of the published state, or of a copy that is not in the lake."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.unread_since import UnreadSince

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(hours: float, *copies: PendingCopy, kind: str = "published", lsn: int = 0) -> CutRow:
    at = BEGAN + timedelta(hours=hours)
    entries = tuple(
        TableEntry(number, "public", f"t{number}", copy.topic, f"t{number}", None, "s", "stale", copy_from=copy)
        for number, copy in enumerate(copies, 1)
    )
    return CutRow(1, kind, "shop", "7-1-walbridge-0/1", 1, 1, 1, lsn, at, at, entries)


def copy(lsn: int) -> PendingCopy:
    return PendingCopy("shop.public.t", (CopyShape(lsn, -1, "s"),))


def hours(unread: UnreadSince) -> float:
    return (unread.at_s - BEGAN.timestamp()) / 3600


def test_nothing_is_told_of_a_lake_in_which_nothing_is_published() -> None:
    assert math.isnan(UnreadSince().at_s)


def test_without_a_copy_it_is_the_time_of_the_published_state() -> None:
    unread = UnreadSince()
    for at in (1, 2):
        unread.add_row(row(at))
        assert hours(unread) == at
    unread.reached(BEGAN + timedelta(hours=5))
    assert hours(unread) == 5


def test_copy_is_needed_from_its_first_record_on_until_it_is_in_the_lake() -> None:
    unread = UnreadSince()
    unread.add_row(row(1))
    unread.add_row(row(3, copy(30)))
    assert hours(unread) == 1, "it began after that"
    unread.add_row(row(9, copy(30)))
    unread.reached(BEGAN + timedelta(hours=10))
    assert hours(unread) == 1
    unread.add_row(row(10))
    assert hours(unread) == 10


def test_copy_that_began_anew_is_needed_from_there_on() -> None:
    unread = UnreadSince()
    for at, copies in ((1, ()), (3, (copy(30),)), (9, (copy(90),))):
        unread.add_row(row(at, *copies))
    assert hours(unread) == 3


def test_oldest_of_several_copies_counts() -> None:
    unread = UnreadSince()
    for at, copies in ((1, ()), (3, (copy(30),)), (9, (copy(30), copy(90)))):
        unread.add_row(row(at, *copies))
    assert hours(unread) == 1


@pytest.mark.parametrize(("kept", "found"), [(row(2, lsn=20), 2), (None, 9)], ids=["kept", "not kept any more"])
def test_job_that_is_started_again_asks_the_lake_when_a_copy_began(kept: CutRow | None, found: float) -> None:
    unread, asked = UnreadSince(), []

    def published_by(lsn: int) -> CutRow | None:
        asked.append(lsn)
        return kept

    unread.add_row(row(9, copy(30)), published_by)
    assert (asked, hours(unread)) == ([30], found)
    unread.add_row(row(12, copy(30)))
    assert hours(unread) == found


def test_row_that_is_not_published_tells_of_its_copies_alone() -> None:
    unread = UnreadSince()
    unread.add_row(row(1))
    unread.add_row(row(4, copy(30), kind="applied"))
    assert hours(unread) == 1
