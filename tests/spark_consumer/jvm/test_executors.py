"""When the job has been without an executor for too long."""

from __future__ import annotations

from walbridge.spark_consumer.jvm.executors import ExecutorWatch


def looks(waiting: list[bool], timeout_s: float) -> list[bool]:
    """What each look tells; a second passes between two."""
    answers, seconds = iter(waiting), iter(range(len(waiting)))
    watch = ExecutorWatch(lambda: next(answers), timeout_s, lambda: float(next(seconds)))
    return [watch.look() for _ in waiting]


def test_job_that_waits_for_so_long_is_over_and_stays_so() -> None:
    assert looks([True, True, True, False], 2) == [False, False, True, True]


def test_executor_that_comes_in_time_begins_the_wait_anew() -> None:
    assert looks([True, True, False, True, True, True], 2) == [False, False, False, False, False, True]
