"""Lag and delay while a peer is away: they go on, or say that they are not known."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from walbridge.producer import source_gauges
from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.producer.postgres.slots.wal_samples import WalSamples
from walbridge.producer.postgres.slots.wal_watch import WalWatch
from walbridge.producer.source_gauges import SourceGauges

MIB = 2**20


class World:
    """A clock, a stream and a server that says how far its WAL is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s, time=lambda: self.now_s)
        monkeypatch.setattr(source_gauges, "time", clock)
        self.stream: Any = SimpleNamespace(received=0, confirmed=100)
        self.watch: Any = SimpleNamespace(
            samples=WalSamples(), seen=None, seen_s=1000.0, settled=0, is_answered=False, begin_anew=lambda: None
        )
        self.gauges = SourceGauges("p")
        self.gauges.watch = cast("WalWatch", self.watch)

    def says(self, wal_lsn: int, slot: Slot | None = None) -> None:
        """The server answers."""
        self.watch.samples.add(self.now_s, wal_lsn)
        self.watch.seen = Source("18", wal_lsn, datetime.now(UTC), slot)
        self.watch.seen_s, self.watch.is_answered = self.now_s, True

    def silent(self) -> None:
        self.watch.is_answered = False

    def value(self, name: str, **labels: str) -> float:
        (value,) = [
            sample.value
            for metric in self.gauges.collect()
            for sample in metric.samples
            if sample.name == f"p_{name}" and sample.labels == labels
        ]
        return float(value)

    def follow(self) -> None:
        """A session that has read all up to 500 and published it."""
        self.gauges.follow(self.stream)
        self.stream.received = self.stream.confirmed = 500
        self.gauges.drained(is_batch_open=False)
        self.says(500)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_wal_that_waits_while_kafka_is_away_is_lag_though_the_stream_reads_none_of_it(world: World) -> None:
    world.follow()
    world.now_s += 5
    world.says(220_500)
    world.now_s += 55
    world.says(330_500)

    assert world.value("lag_bytes") == 330_000
    assert world.value("publish_delay_seconds") == 55


def test_delay_falls_to_that_of_the_newest_batch_once_all_is_published(world: World) -> None:
    world.follow()
    world.now_s += 60
    world.says(900)
    world.now_s += 60
    world.gauges.committed(900, commit_time_us=int((world.now_s - 0.25) * 1e6))
    world.stream.confirmed = world.stream.received = 900

    assert world.value("publish_delay_seconds") == pytest.approx(0.25)
    assert world.value("lag_bytes") == 0


def test_delay_of_a_batch_is_told_for_a_while_and_then_nothing_waits(world: World) -> None:
    world.follow()
    world.gauges.committed(500, commit_time_us=int((world.now_s - 40) * 1e6))
    assert world.value("publish_delay_seconds") == pytest.approx(40)
    world.now_s += source_gauges.DELAY_HELD_S

    assert world.value("publish_delay_seconds") == 0


def test_wal_without_changes_of_ours_waits_no_more_once_all_of_it_was_read(world: World) -> None:
    world.follow()
    world.says(800)
    world.now_s += 3
    assert world.value("publish_delay_seconds") == 3
    world.stream.received = 800
    world.gauges.drained(is_batch_open=False)

    assert world.value("publish_delay_seconds") == 0
    assert world.value("lag_bytes") == 300, "it is not confirmed yet"


def test_what_was_read_into_an_open_batch_waits(world: World) -> None:
    world.follow()
    world.says(800)
    world.now_s += 3
    world.stream.received = 800
    world.gauges.drained(is_batch_open=True)

    assert world.value("publish_delay_seconds") == 3


def test_lag_is_not_known_while_postgres_is_away(world: World) -> None:
    world.follow()
    world.gauges.ended()
    world.silent()
    world.now_s += 30

    assert math.isnan(world.value("lag_bytes"))
    assert math.isnan(world.value("publish_delay_seconds"))
    assert world.value("server_silent_seconds") == 30
    assert world.value("slot_wal_status", status="unknown") == 1


def test_commit_that_waited_before_postgres_went_away_goes_on_to_wait(world: World) -> None:
    world.follow()
    world.says(800)
    world.gauges.ended()
    world.silent()
    world.now_s += 30

    assert world.value("publish_delay_seconds") == 30


def test_lag_is_told_by_the_slot_before_the_first_session(world: World) -> None:
    world.says(800, Slot(None, "reserved", 700, None, 300))

    assert world.value("lag_bytes") == 500


def test_slot_tells_the_wal_that_it_keeps_and_how_long_that_may_go_on(world: World) -> None:
    world.says(0)
    world.now_s += 10
    world.says(20 * MIB, Slot(1, "extended", 15 * MIB, 100 * MIB, 100))

    assert world.value("slot_wal_bytes") == 15 * MIB
    assert world.value("slot_wal_left_bytes") == 100 * MIB
    assert world.value("slot_wal_left_seconds") == 50
    assert world.value("slot_wal_status", status="extended") == 1
    assert world.value("slot_wal_status", status="reserved") == 0


def test_slot_without_a_limit_has_no_time_left_to_tell(world: World) -> None:
    world.says(20 * MIB, Slot(1, "reserved", 15 * MIB, None, 100))

    assert math.isnan(world.value("slot_wal_left_bytes"))
    assert math.isnan(world.value("slot_wal_left_seconds"))


def test_slot_without_a_limit_may_keep_what_an_operator_says_that_the_disk_takes(world: World) -> None:
    world.gauges = SourceGauges("p", 8 * MIB)
    world.gauges.watch = cast("WalWatch", world.watch)
    world.says(0, Slot(None, "reserved", 5 * MIB, None, 100))
    world.now_s += 10
    world.says(MIB, Slot(None, "reserved", 6 * MIB, None, 100))

    assert world.value("slot_wal_left_bytes") == 2 * MIB
    assert world.value("slot_wal_left_seconds") == pytest.approx(20)


def test_slot_that_is_gone_is_missing(world: World) -> None:
    world.says(20 * MIB)

    assert world.value("slot_wal_status", status="missing") == 1
