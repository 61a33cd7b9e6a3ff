"""The last day: bounded, the worst of each minute, a gap where nothing is known (I9)."""

from __future__ import annotations

from tests.walbridge.ui.statuses import JOB_FAILED, KAFKA_AWAY, STREAMING, later
from walbridge.ui import history as module
from walbridge.ui.history import EVENTS_MAX, POINTS_MAX, History, Rates


def test_point_has_the_largest_lag_of_its_minute_and_rates_since_the_one_before() -> None:
    history = History()
    for seconds, wal in ((0, 0), (10, 50_000), (20, 0), (60, 600_000), (70, 700_000)):
        history.add(later(STREAMING, seconds, wal))

    first, second = history.points()

    assert (first.kafka_lag_s, first.lake_lag_s, first.slot_bytes) == (2.0, 30.0, 23_400_000)
    assert second.wal_rate == 700_000 / 50
    assert history.rates() == Rates(650_000 / 60, 650_000 / 60, 0.0)


def test_day_is_all_that_is_kept() -> None:
    history = History()
    for minute in range(POINTS_MAX + 100):
        history.add(later(JOB_FAILED if minute % 2 else KAFKA_AWAY, 60 * minute))

    assert len(history.points()) == POINTS_MAX + 1
    assert len(history.events()) == EVENTS_MAX
    assert len(history._ends) == 1


def test_what_is_not_known_is_a_gap_and_no_zero() -> None:
    history = History()
    history.add(KAFKA_AWAY)
    history.add(later(KAFKA_AWAY, 5, 100))

    (point,) = history.points()

    assert (point.kafka_lag_s, point.wal_rate) == (None, 20.0)
    assert history.rates().kafka is None


def test_pause_without_looks_makes_no_rate_over_all_of_it() -> None:
    history = History()
    history.add(STREAMING)
    history.add(later(STREAMING, 3600, 10**9))
    history.add(later(STREAMING, 3610, 10**9 + 1000))

    assert history.points()[-1].wal_rate == 100.0


def test_lsn_that_goes_back_is_another_history_and_no_rate() -> None:
    history = History()
    history.add(later(STREAMING, 0, 1000))
    history.add(later(STREAMING, 10, 0))

    assert history.rates().wal is None


def test_each_trouble_is_told_once_as_long_as_it_lasts_newest_first() -> None:
    history = History()
    for seconds, there in enumerate([KAFKA_AWAY, KAFKA_AWAY, STREAMING, JOB_FAILED, JOB_FAILED, KAFKA_AWAY]):
        history.add(later(there, seconds))

    told = [(event.who, event.remedy) for event in history.events()]

    assert told == [("Kafka", None), ("Kafka", None), ("Spark job", "walbridge copy --all")]
    assert module.EVENTS_MAX < 100


def test_end_of_months_ago_is_nothing_that_went_wrong_today() -> None:
    history = History()
    history.add(later(JOB_FAILED, 90 * 86_400))

    assert history.events() == []
