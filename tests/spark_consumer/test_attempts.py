"""What a job ends with, sorted by who must act: waited out, told with a remedy, or a bug."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer import __main__ as program
from walbridge.spark_consumer.jvm import spark_session
from walbridge.spark_consumer.metrics import JobMetrics

AWAY = "Job aborted: org.apache.kafka.common.errors.DisconnectException"
FULL = "Generic LocalFileSystem error\n  Unable to copy data to file\n  No space left on device (os error 28)\n"


class Jobs:
    """Stands for ``Job``: each new one fails with the next error, and the last one ends in peace."""

    is_started = True

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.closed = list(failures), 0

    def __call__(self, *_: object) -> Jobs:
        return self

    def run(self, *, once: bool) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def close(self) -> None:
        self.closed += 1


Attempt = Callable[..., Jobs]


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Run jobs until one ends; nobody waits between them."""

    def run(*failures: Exception) -> Jobs:
        jobs = Jobs(*failures)
        monkeypatch.setattr(program, "Job", jobs)
        stop: Any = MagicMock(threading.Event, is_set=lambda: False)
        monkeypatch.setattr(program, "wait_for_other_job", lambda *_: None)
        program._Attempts(MagicMock(), Settings(), stop, JobMetrics(), MagicMock()).run(once=True)
        return jobs

    return run


def test_broker_that_leaves_while_tables_are_applied_is_waited_for(attempt: Attempt) -> None:
    """Wherever Spark meets it: tables read Kafka again while they are applied."""
    jobs = attempt(RuntimeError(AWAY), RuntimeError(AWAY))

    assert jobs.closed == 3


def test_full_disk_of_the_lake_stops_the_job_with_a_remedy(attempt: Attempt) -> None:
    """As delta-rs tells it."""
    with pytest.raises(OperatorError, match="No space left on device") as stopped:
        attempt(OSError(FULL))
    assert "[lake] path" in stopped.value.remedy


@pytest.mark.parametrize("said", ["No space left on device", "No usable temporary directory found in ['/tmp']"])
def test_scratch_disk_that_is_full_at_the_start_of_spark_is_told_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Before any attempt at the job."""
    monkeypatch.setattr(program, "spark_session", MagicMock(side_effect=OSError(28, said)))
    with pytest.raises(OperatorError, match=said[:9]) as stopped:
        program._started(Settings(), threading.Event())
    assert "temporary folder" in stopped.value.remedy


def test_jvm_that_ends_while_spark_starts_is_told_or_was_stopped_with_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Service managers send SIGTERM to all processes of a service."""
    builder = MagicMock()
    builder.getOrCreate.side_effect = Py4JNetworkError("Answer from Java side is empty")
    monkeypatch.setattr(spark_session, "SparkSession", MagicMock(builder=builder))
    monkeypatch.setattr(program, "spark_session", lambda _: spark_session._started({}))
    stop = threading.Event()
    with pytest.raises(OperatorError, match="JVM ended while it started"):
        program._started(Settings(), stop)
    stop.set()
    assert program._started(Settings(), stop) is None


def test_what_nobody_knows_is_a_bug(attempt: Attempt) -> None:
    with pytest.raises(ZeroDivisionError):
        attempt(ZeroDivisionError())


def test_a_job_says_and_records_that_it_stopped_before_it_lets_its_jvm_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under spark-submit Python is the JVM's child, and ends with it."""
    told: list[str] = []

    @contextmanager
    def stopping_with_jvm(*_: object) -> Iterator[None]:
        yield
        told.append("JVM let go")

    monkeypatch.setattr(program, "preflight", lambda *_: None)
    monkeypatch.setattr(program, "spark_session", lambda _: MagicMock())
    monkeypatch.setattr(program, "stopping_with_jvm", stopping_with_jvm)
    monkeypatch.setattr(program, "naming_jvm_end", lambda _: nullcontext())
    monkeypatch.setattr(program, "_Attempts", MagicMock())
    monkeypatch.setattr(program, "stop_session", lambda _: told.append("session stopped"))
    monkeypatch.setattr(program, "set_on_stop_signals", lambda _: None)
    monkeypatch.setattr(program, "log", MagicMock(info=told.append))

    report: Any = MagicMock()
    report.__exit__.side_effect = lambda *_: told.append("recorded")

    program._materialize(Settings(), JobMetrics(), report, once=True)

    assert told == ["session stopped", "stopped", "recorded", "JVM let go"]
