"""Records that the heap has no room for: words instead of a JVM that dies."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from walbridge.runtime.heap import BASE_BYTES
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.large_records import RecordReader, reading

HEAP = DriverHeap(BASE_BYTES, 2, 2**20)


class Anything:
    """A JVM whose classes take any call."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *arguments: Any) -> Any:
        return Anything()


class Consumer(Anything):
    """Has polled up to an offset, and then does what it is told to."""

    def __init__(self, poll: Any) -> None:
        self.poll = poll

    def position(self, _place: Any) -> int:
        return 7


def walk(poll: Any) -> None:
    spark: Any = SimpleNamespace(_jvm=Anything())
    RecordReader(spark, Consumer(poll)).refuse_larger(("t", 3), (7, 9), HEAP)


def java_error(said: str) -> Py4JJavaError:
    return Py4JJavaError("", SimpleNamespace(_target_id="o1", toString=lambda: said))


def test_a_record_that_cannot_even_be_fetched_is_told_by_its_place() -> None:
    """I9: the client's own thread ran out of memory, which ends nothing but the fetch."""

    def poll(_patience: Any) -> Any:
        raise java_error("java.lang.OutOfMemoryError: Java heap space")

    with pytest.raises(OperatorError, match=r"the record at t\[3\] offset 7 takes more bytes than the heap has room"):
        walk(poll)


def test_what_raised_first_is_told_though_the_client_does_not_close() -> None:
    def close(*_: Any) -> None:
        raise java_error("org.apache.kafka.common.KafkaException: Failed to close")

    consumer = Consumer(None)
    consumer.close = close  # type: ignore[attr-defined]
    spark: Any = SimpleNamespace(_jvm=Anything())

    with pytest.raises(OperatorError, match="too large"), reading(spark, consumer):
        raise OperatorError("too large", remedy="none")


def test_any_other_failure_of_the_client_stays_what_it_is() -> None:
    def poll(_patience: Any) -> Any:
        raise java_error("java.lang.IllegalStateException: closed")

    with pytest.raises(Py4JJavaError):
        walk(poll)


def test_a_broker_that_sends_nothing_is_no_end_of_the_range() -> None:
    """I7: else a larger record behind it would not be seen."""
    nothing = SimpleNamespace(records=lambda _place: SimpleNamespace(toString=lambda: "[]"))

    with pytest.raises(RetryableError, match="does not send"):
        walk(lambda _patience: nothing)
