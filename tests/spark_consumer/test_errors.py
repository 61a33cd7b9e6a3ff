"""What Spark says when a broker dies under it is waited out, and nothing else is."""

from __future__ import annotations

import pytest

from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.errors import sorted_error, sorting_errors

AWAY = [
    "java.util.concurrent.TimeoutException: Cannot fetch record for offset 3100 in 5000 milliseconds",
    "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
    "org.apache.kafka.common.errors.DisconnectException",
]


@pytest.mark.parametrize("cause", AWAY)
def test_read_that_a_dead_broker_left_unanswered_is_tried_again(cause: str) -> None:
    failed = RuntimeError(f"Job aborted due to stage failure: Task 0 in stage 63.0 failed 1 times: {cause}\n\tat x.Y")
    assert isinstance(sorted_error(failed), RetryableError)


def test_other_timeouts_are_bugs() -> None:
    failed = RuntimeError("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]")
    assert sorted_error(failed) is failed


def test_block_leaves_an_error_that_nobody_knows_as_it_came() -> None:
    """I10: as its own cause it would be told without an end."""
    unknown = RuntimeError("futures timed out")

    with pytest.raises(RuntimeError) as raised, sorting_errors():
        raise unknown
    assert raised.value is unknown
    assert unknown.__cause__ is None


def test_block_raises_what_is_known_as_an_error_of_ours() -> None:
    failed = RuntimeError(AWAY[0])

    with pytest.raises(RetryableError) as raised, sorting_errors():
        raise failed
    assert raised.value.__cause__ is failed
