"""Rows of `_cuts` grow fewer as they grow old, whoever looks when."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.spark_consumer.plan.kept_cuts import Retention, WrittenRow, dropped

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WEEK = Retention(timedelta(hours=1), timedelta(days=1), timedelta(days=7))


def rows_at(*moments: datetime, kind: str = "published") -> list[WrittenRow]:
    return [WrittenRow(n, kind, moment) for n, moment in enumerate(moments, 1)]


def kept(rows: Sequence[WrittenRow], now: datetime, retention: Retention = WEEK) -> list[WrittenRow]:
    gone = dropped(rows, retention, now)
    return [row for row in rows if not any(first <= row.sequence <= last for first, last in gone)]


def sequences(rows: Sequence[WrittenRow]) -> list[int]:
    return [row.sequence for row in rows]


AGES = {
    "all while they are young": (timedelta(0), [1, 2, 3, 4, 5, 6, 7]),
    "the last of a minute that is all older than an hour": (timedelta(minutes=60), [2, 3, 4, 5, 6, 7]),
    "the last of each minute for a day": (timedelta(hours=4), [2, 4, 6, 7]),
    "the last of an hour that is all older than a day": (timedelta(hours=25), [4, 6, 7]),
    "the last of each hour for a week": (timedelta(days=3), [4, 6, 7]),
    "the newest for ever": (timedelta(days=40), [7]),
}


@pytest.mark.parametrize("case", AGES)
def test_rows_that_are_kept_after_some_time_are(case: str) -> None:
    age, expected = AGES[case]
    seconds = (10, 20, 70, 80, 3_600, 3_610, 7_300)
    rows = rows_at(*(NOON + timedelta(seconds=each) for each in seconds))

    assert sequences(kept(rows, NOON + MINUTE + age)) == expected


def test_minute_is_thinned_when_all_of_it_is_old() -> None:
    """Else another row would be its last one after each look."""
    rows = rows_at(*(NOON + timedelta(seconds=each) for each in (10, 50, 90)))

    assert sequences(kept(rows, NOON + timedelta(hours=1, seconds=30))) == [1, 2, 3]
    assert sequences(kept(rows, NOON + timedelta(hours=1, seconds=60))) == [2, 3]


def test_newest_published_row_and_the_plan_after_it_stay_however_old() -> None:
    """I8: readers take the one, a restart finishes the other."""
    kinds = ["plan", "published", "plan", "published", "plan", "applied", "plan"]
    rows = [WrittenRow(n, kind, NOON) for n, kind in enumerate(kinds, 1)]

    assert sequences(kept(rows, NOON + timedelta(days=40))) == [4, 5, 6, 7]


def test_plans_that_are_done_go_with_the_first_hour() -> None:
    rows = [*rows_at(NOON, NOON + MINUTE, kind="plan"), WrittenRow(3, "published", NOON + 2 * MINUTE)]

    assert sequences(kept(rows, NOON + timedelta(minutes=59))) == [1, 2, 3]
    assert sequences(kept(rows, NOON + timedelta(minutes=70))) == [3]


def test_lake_without_a_published_row_keeps_all() -> None:
    """Its first copy goes on."""
    rows = rows_at(NOON, NOON, kind="applied")

    assert kept(rows, NOON + timedelta(days=40)) == rows


def test_runs_are_as_long_as_they_can_be() -> None:
    """Each is a condition of one statement."""
    rows = rows_at(*(NOON + timedelta(seconds=each) for each in range(180)))

    assert dropped(rows, WEEK, NOON + timedelta(hours=2)) == [(1, 59), (61, 119), (121, 179)]


STEPS = st.lists(
    st.tuples(st.integers(0, 3 * 86_400), st.sampled_from(["plan", "applied", "published", "published"])), max_size=40
)


@given(STEPS, st.lists(st.integers(0, 9 * 86_400), min_size=1, max_size=4))
def test_what_is_kept_follows_from_the_rows_and_not_from_when_anybody_looked(
    steps: list[tuple[int, str]], looks: list[int]
) -> None:
    """I8: thinned again and again, or once. A clock that went back takes no more."""
    moments = [(NOON + timedelta(seconds=second), kind) for second, kind in steps]
    rows = [WrittenRow(n, kind, moment) for n, (moment, kind) in enumerate(moments, 1)]
    again = rows
    for look in sorted(looks):
        again = kept(again, NOON + timedelta(seconds=look))
    now = NOON + timedelta(seconds=max(looks))

    assert again == kept(rows, now)
    published = [row for row in rows if row.kind == "published"]
    assert not published or published[-1] in again
    young = [row for row in rows if row.written_at > now - WEEK.all_for]
    assert {*young} <= {*again}
    for row in published:
        if row.written_at > now - WEEK.hours_for:
            hour = int(row.written_at.timestamp()) // 3_600
            assert any(int(each.written_at.timestamp()) // 3_600 == hour for each in again if each.kind == "published")
