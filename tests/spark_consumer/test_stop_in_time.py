"""When a job that is asked to stop ends in order, and when it is left as a kill would leave it."""

from __future__ import annotations

import threading
from unittest.mock import MagicMock

import pytest
import structlog

from walbridge.runtime.reports import run_report
from walbridge.spark_consumer import stop_in_time
from walbridge.spark_consumer.stop_in_time import StopInTime

ENDS_S = 30
PLAN = MagicMock(from_cut=3, to_cut=5, rows=70)


def stopping(
    monkeypatch: pytest.MonkeyPatch, plan: object, finish_s: float = 0.01
) -> tuple[threading.Event, MagicMock, threading.Event, StopInTime]:
    """The stop, the report, whether the process was left, and the context manager."""
    monkeypatch.setattr(stop_in_time, "FINISH_S", finish_s)
    stop, report, left = threading.Event(), MagicMock(), threading.Event()

    def leave(code: int) -> None:
        assert code == 0
        left.set()

    return stop, report, left, StopInTime(stop, report, MagicMock(return_value=plan), leave)


def test_plan_that_takes_longer_than_a_moment_is_left_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: the next start makes it again."""
    stop, report, left, in_time = stopping(monkeypatch, PLAN)
    with structlog.testing.capture_logs() as said, in_time:
        stop.set()
        assert left.wait(ENDS_S)
    report.end.assert_called_once_with()
    assert said == [
        {
            "event": "stopped",
            "plan": "left unfinished: the next start makes it again",
            "from_cut": 3,
            "to_cut": 5,
            "rows": 70,
            "log_level": "info",
        }
    ]


def test_process_is_left_also_where_its_end_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, report, left, in_time = stopping(monkeypatch, None)
    report.end.side_effect = RuntimeError("threads can only be started once")
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with in_time:
        stop.set()
        assert left.wait(ENDS_S)


def test_block_that_ends_soon_after_the_stop_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, report, left, in_time = stopping(monkeypatch, PLAN, finish_s=ENDS_S)
    before = set(threading.enumerate())
    with in_time:
        (watcher,) = set(threading.enumerate()) - before
        stop.set()
    watcher.join(ENDS_S)
    assert not watcher.is_alive()
    assert not left.is_set()
    report.end.assert_not_called()


def test_waits_of_a_stop_are_five_seconds_together() -> None:
    """For a plan that is almost done, and for the record of the end."""
    assert stop_in_time.FINISH_S + run_report.END_S <= 5
