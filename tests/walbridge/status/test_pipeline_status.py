"""Lags follow from what each peer said, and are not known where one said nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from walbridge.producer.postgres.slots.slot_row import Source
from walbridge.status.pipeline_status import UNKNOWN, Lag, Lake, LakeCut, NewestCut, PipelineStatus, Published, Silent
from walbridge.status.show import as_text

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
AWAY = Silent("away")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def status(wal_lsn: int = 1_000, cut_lsn: int = 900, lake_lsn: int = 700) -> PipelineStatus:
    return PipelineStatus(
        pipeline="p",
        slot_name="s",
        lake_path="lake",
        at=NOW,
        source=Source("18.1", wal_lsn, NOW, None),
        published=Published("streaming", NewestCut(9, cut_lsn, complete=True, reached_at=ago(2))),
        lake=Lake(True, "p", LakeCut(5, 7, lake_lsn, commit_time=ago(30), written_at=ago(20)), ()),
    )


def test_lag_is_the_wal_that_is_missing_and_the_age_of_the_moment_reached() -> None:
    there = status()

    assert (there.kafka_lag, there.lake_lag, there.lake_behind_kafka_bytes) == (Lag(100, 2.0), Lag(300, 30.0), 200)


def test_whoever_holds_all_is_not_behind_however_old_the_last_commit() -> None:
    there = status(wal_lsn=1_000, cut_lsn=1_000, lake_lsn=1_000)

    assert (there.kafka_lag, there.lake_lag, there.lake_behind_kafka_bytes) == (Lag(0, 0.0), Lag(0, 0.0), 0)


def test_cut_beyond_the_wal_that_was_seen_a_moment_before_is_not_behind() -> None:
    assert status(wal_lsn=1_000, cut_lsn=1_050).kafka_lag == Lag(0, 0.0)


def test_lake_that_holds_the_newest_cut_is_as_fresh_as_that_cut() -> None:
    assert status(wal_lsn=1_000, cut_lsn=900, lake_lsn=900).lake_lag == Lag(100, 2.0)


@pytest.mark.parametrize(("unchanged_since", "expected"), [(700, Lag(100, 2.0)), (701, Lag(300, 30.0))])
def test_lake_that_lacks_only_cuts_in_which_no_table_changed_is_as_fresh_as_the_newest(
    unchanged_since: int, expected: Lag
) -> None:
    """Their row comes later."""
    there = status()
    assert isinstance(there.published, Published)
    assert there.published.cut is not None
    newest = replace(there.published.cut, unchanged_since=unchanged_since)
    idle = replace(there, published=replace(there.published, cut=newest))

    assert (idle.lake_lag, idle.lake_behind_kafka_bytes) == (expected, 200)
    assert idle.lake_holds_all_changes == (unchanged_since <= 700)
    assert ("200 B behind Kafka, in which no table changed" in as_text(idle)) == idle.lake_holds_all_changes


def test_lake_of_an_idle_source_is_as_fresh_as_its_row() -> None:
    there = status()
    assert isinstance(there.lake, Lake)
    assert there.lake.cut is not None
    idle = replace(there, lake=replace(there.lake, cut=replace(there.lake.cut, commit_time=None)))

    assert idle.lake_lag == Lag(300, 20.0)


def test_clock_of_the_broker_ahead_of_the_servers_makes_no_negative_lag() -> None:
    there = status()
    assert isinstance(there.published, Published)
    assert there.published.cut is not None
    ahead = replace(there.published, cut=replace(there.published.cut, reached_at=ago(-5)))

    assert replace(there, published=ahead).kafka_lag == Lag(100, 0.0)


@pytest.mark.parametrize(
    ("silent", "kafka_lag", "lake_lag", "between"),
    [
        ("source", UNKNOWN, UNKNOWN, 200),
        ("published", UNKNOWN, Lag(300, 30.0), None),
        ("lake", Lag(100, 2.0), UNKNOWN, None),
    ],
)
def test_lag_to_a_peer_that_is_silent_is_not_known(
    silent: str, kafka_lag: Lag, lake_lag: Lag, between: int | None
) -> None:
    there = replace(status(), **{silent: AWAY})  # type: ignore[arg-type]

    assert (there.kafka_lag, there.lake_lag, there.lake_behind_kafka_bytes) == (kafka_lag, lake_lag, between)


def test_a_lake_that_does_not_exist_is_no_answer() -> None:
    everybody_away = replace(status(), source=AWAY, published=AWAY)

    assert everybody_away.anybody_answers
    assert not replace(everybody_away, lake=Lake(False, None, None, ())).anybody_answers


def test_lsns_of_an_epoch_that_is_over_are_not_compared_with_those_of_the_next() -> None:
    """I8: an older server was restored and is followed; its WAL ends below what the lake has of before."""
    there = status(wal_lsn=600, cut_lsn=500)
    assert isinstance(there.published, Published)
    assert there.published.cut is not None
    began = replace(there.published, cut=replace(there.published.cut, epoch="7-1-s-0/1F4", unchanged_since=100))
    later = replace(there, published=began)

    assert (later.lake_lag, later.lake_behind_kafka_bytes, later.lake_holds_all_changes) == (UNKNOWN, None, False)
    assert "of an epoch that is over: walbridge materialize goes on with the next one" in as_text(later)
