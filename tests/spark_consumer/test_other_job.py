"""A second job on a lake waits for the first, as far as that is seen to run, and names it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from walbridge.runtime.reports.own_process import own_process
from walbridge.schemas.control.run_record import JOB, RUN, End, How, Run
from walbridge.schemas.errors import OperatorError, RetryableError, Superseded
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake
from walbridge.spark_consumer import other_job
from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.other_job import naming_other_job, wait_for_other_job

NOW = datetime.now(UTC)
ELSEWHERE = Run(JOB, "p", "1", "0.1.0", "db-host", 7, "other boot/pid:[1]/7/99", NOW, NOW, "running")
HERE = replace(ELSEWHERE, process=own_process())


class Clock:
    """Time that passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.on_wait: Callable[[], None] = lambda: None
        self.is_stopped = False

    def monotonic(self) -> float:
        return self.now_s

    def is_set(self) -> bool:
        return self.is_stopped

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        assert self.now_s < 1000, "it waits for ever"
        self.on_wait()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(other_job, "time", clock)
    return clock


@pytest.fixture
def status(tmp_path: Path) -> LakeStatus:
    Manifest(str(tmp_path), "p", {})
    return LakeStatus(Settings(name="p", lake=Lake(path=str(tmp_path))))


def wait(status: LakeStatus, clock: Clock) -> float:
    stop: threading.Event = clock  # type: ignore[assignment]
    wait_for_other_job(status, 30, stop)
    return clock.now_s


def test_lake_without_another_job_is_taken_at_once(status: LakeStatus, clock: Clock) -> None:
    assert wait(status, clock) == 0


@pytest.mark.parametrize(
    "record",
    [
        ELSEWHERE.ended(End(NOW, How.STOPPED, 0)),
        replace(ELSEWHERE, seen=NOW - timedelta(minutes=5)),
        replace(HERE, process=own_process() + "0"),
    ],
    ids=["ended", "silent for long", "killed on this machine"],
)
def test_job_that_does_not_run_is_not_waited_for(status: LakeStatus, clock: Clock, record: Run) -> None:
    status.write({RUN: record})
    assert wait(status, clock) == 0


def test_job_that_runs_on_this_machine_is_named_after_the_wait(status: LakeStatus, clock: Clock) -> None:
    status.write({RUN: HERE})
    clock.on_wait = lambda: status.write({RUN: replace(HERE, seen=NOW + timedelta(seconds=clock.now_s))})
    with pytest.raises(Superseded, match="another job runs on this lake: process 7 on db-host"):
        wait(status, clock)
    assert 30 < clock.now_s < 35


def test_job_elsewhere_whose_record_is_renewed_is_named_after_the_wait(status: LakeStatus, clock: Clock) -> None:
    seen = datetime.now(UTC)
    status.write({RUN: replace(ELSEWHERE, seen=seen)})
    clock.on_wait = lambda: status.write({RUN: replace(ELSEWHERE, seen=seen + timedelta(seconds=clock.now_s))})
    with pytest.raises(Superseded, match="db-host"):
        wait(status, clock)


def test_job_elsewhere_whose_record_stands_still_is_gone(status: LakeStatus, clock: Clock) -> None:
    status.write({RUN: replace(ELSEWHERE, seen=NOW + timedelta(hours=1))})  # its clock is ahead
    assert 30 <= wait(status, clock) <= 35


@pytest.mark.parametrize("days", [-2, 2])
def test_clock_of_this_machine_that_is_set_meanwhile_does_not_end_the_wait(
    status: LakeStatus, clock: Clock, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    class Set(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(days=days if clock.now_s > 5 else 0)

    monkeypatch.setattr(other_job, "datetime", Set)
    seen = datetime.now(UTC)
    clock.on_wait = lambda: status.write({RUN: replace(ELSEWHERE, seen=seen + timedelta(seconds=clock.now_s))})
    clock.on_wait()
    with pytest.raises(Superseded, match="db-host"):
        wait(status, clock)


def test_record_in_a_copy_of_the_lake_whose_job_goes_on_elsewhere_stands_still(
    status: LakeStatus, clock: Clock
) -> None:
    """A backup was restored beside the lake that it is of: the process lives, but does not write here."""
    status.write({RUN: HERE})
    assert 30 <= wait(status, clock) <= 35


def test_record_that_cannot_be_read_once_does_not_end_the_wait(
    status: LakeStatus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file on NFS that was replaced a moment ago."""
    read = status.read

    def fails_now_and_then() -> tuple[Run | None, Run | None]:
        if clock.now_s in (3, 7):
            raise RetryableError("the lake cannot be read: OSError")
        return read()

    monkeypatch.setattr(status, "read", fails_now_and_then)
    status.write({RUN: HERE})
    clock.on_wait = lambda: status.write({RUN: replace(HERE, seen=NOW + timedelta(seconds=clock.now_s))})
    with pytest.raises(Superseded, match="db-host"):
        wait(status, clock)


def test_record_that_cannot_be_read_any_more_does_not_hold_up_for_ever(
    status: LakeStatus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = status.read

    def fails() -> tuple[Run | None, Run | None]:
        if clock.now_s > 2:
            raise RetryableError("the lake cannot be read: OSError")
        return read()

    monkeypatch.setattr(status, "read", fails)
    status.write({RUN: HERE})
    assert 30 <= wait(status, clock) <= 35


def test_job_that_ends_meanwhile_lets_the_next_one_begin(status: LakeStatus, clock: Clock) -> None:
    status.write({RUN: HERE})
    clock.on_wait = lambda: status.write({RUN: HERE.ended(End(NOW, How.STOPPED, 0))}) if clock.now_s > 5 else None
    assert 5 < wait(status, clock) < 10


def test_stop_ends_the_wait(status: LakeStatus, clock: Clock) -> None:
    status.write({RUN: HERE})
    clock.on_wait = lambda: setattr(clock, "is_stopped", True)
    assert wait(status, clock) < 5


@pytest.mark.parametrize(
    ("is_own", "what"), [(False, "overtaken; a job runs there: process 7 on db-host, since SINCE"), (True, "overtaken")]
)
def test_job_that_was_overtaken_says_by_whom_unless_it_knows_only_itself(
    status: LakeStatus, is_own: bool, what: str
) -> None:
    status.write({RUN: HERE})
    with pytest.raises(OperatorError) as raised, naming_other_job(status, lambda run: is_own):
        raise Superseded("overtaken", "stop one")
    assert raised.value.what == what.replace("SINCE", f"{NOW:%F %T} UTC")
