"""What the client library raises while it serves callbacks, sorted by who must act."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from producer.kafka.publisher import BatchAborted, Publisher
from schemas.errors import OperatorError
from schemas.settings import Settings


class Client:
    """Fails as the library does: fatal errors are raised from inside its callbacks."""

    def __init__(self, code: int, *, in_callback: bool) -> None:
        self._code, self._in_callback = code, in_callback

    def flush(self, timeout_s: float) -> int:
        fatal = KafkaException(KafkaError(self._code, fatal=True))
        if self._in_callback:
            raise SystemError("<method 'str'> returned a result with an exception set") from fatal
        raise fatal


@pytest.mark.parametrize("in_callback", [False, True])
@pytest.mark.parametrize(("code", "wanted"), [(KafkaError._FENCED, OperatorError), (KafkaError._FATAL, BatchAborted)])
def test_fatal_error_is_told_apart_also_when_a_callback_met_it(
    code: int, wanted: type[Exception], in_callback: bool
) -> None:
    """A callback that runs while the error is already raised makes Python add a SystemError."""
    publisher = Publisher(Settings(), "id", lambda: None)
    publisher._producer = Client(code, in_callback=in_callback)  # type: ignore[assignment]
    publisher._begun_s = float("inf")
    with pytest.raises(wanted):
        publisher._flush()


class FencedClient:
    """``produce`` says only that the instance is dead; why, the next call says."""

    def produce(self, *row: object, **more: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def abort_transaction(self, timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))

    def purge(self) -> None:
        """Nothing is queued."""

    def poll(self, timeout_s: float) -> int:
        return 0


def test_fenced_producer_ends_also_when_a_row_met_it_first() -> None:
    """Else it would fence the other one, which would fence it, for ever."""
    publisher = Publisher(Settings(), "id", lambda: None)
    publisher._producer = FencedClient()  # type: ignore[assignment]
    publisher._begun_s = float("inf")
    publisher.in_transaction = True
    publisher._partition_counts["t"] = 2
    with pytest.raises(OperatorError):
        publisher.send("t", b"key", b"value")


def test_system_error_of_another_origin_is_a_bug() -> None:
    publisher = Publisher(Settings(), "id", lambda: None)

    def fail(timeout_s: float) -> int:
        raise SystemError

    with pytest.raises(SystemError):
        publisher._serve(fail, 0.1)


def test_property_that_breaks_our_promises_is_the_operators_mistake() -> None:
    """librdkafka takes it alone, but not beside idempotence."""
    settings = Settings(kafka={"bootstrap_servers": "127.0.0.1:1", "client": {"acks": "1"}})  # type: ignore[arg-type]

    with pytest.raises(OperatorError, match=r"\[kafka\.client\] is not accepted: .*acks"):
        Publisher(settings, "id", lambda: None).open_instance(timeout_s=0.2)
