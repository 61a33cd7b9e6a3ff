"""What the client library raises, sorted by who must act."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka.instance import Instance
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.kafka.publisher import Publisher
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

WAIT_S = 60
TOPIC = "rows"


def _publisher(client: object) -> Publisher:
    """With a transaction that was begun just now."""
    publisher = Publisher(Settings(), "id", lambda: None)
    publisher._instance = Instance(client)  # type: ignore[arg-type]
    publisher._begun_s = float("inf")
    publisher.in_transaction = True
    publisher._partition_counts[TOPIC] = 2
    return publisher


class Client:
    """Fails as the library does: fatal errors are raised from inside its callbacks."""

    def __init__(self, code: int, *, in_callback: bool) -> None:
        self._code, self._in_callback = code, in_callback
        self.called: list[str] = []

    def produce(self, *row: object, **more: object) -> None:
        """Nothing is queued."""

    def flush(self, timeout_s: float) -> int:
        self.called.append("flush")
        fatal = KafkaException(KafkaError(self._code, fatal=True))
        if self._in_callback:
            raise SystemError("<method 'str'> returned a result with an exception set") from fatal
        raise fatal

    def abort_transaction(self, timeout_s: float) -> None:
        self.called.append("abort_transaction")
        raise KafkaException(KafkaError(self._code, fatal=True))

    def purge(self) -> None:
        self.called.append("purge")

    def poll(self, timeout_s: float) -> int:
        self.called.append("poll")
        return 0


@pytest.mark.parametrize("in_callback", [False, True])
@pytest.mark.parametrize(
    ("code", "wanted", "after"),
    [
        (KafkaError._FENCED, OperatorError, []),
        (KafkaError._FATAL, BatchAborted, ["abort_transaction", "purge", "poll"]),
    ],
)
def test_fatal_error_is_told_apart_also_when_a_callback_met_it(
    code: int, wanted: type[Exception], after: list[str], in_callback: bool
) -> None:
    """A callback that runs while the error is already raised makes Python add a SystemError.
    A client that said that it is fenced is not called again."""
    client = Client(code, in_callback=in_callback)
    with pytest.raises(wanted):
        _publisher(client)._flush()
    assert client.called == ["flush", *after]


class FencedClient(Client):
    """``produce`` says only that the instance is dead; why, the next call says."""

    def __init__(self) -> None:
        super().__init__(KafkaError._FENCED, in_callback=False)

    def produce(self, *row: object, **more: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))


def test_fenced_producer_ends_also_when_a_row_met_it_first() -> None:
    """Else it would fence the other one, which would fence it, for ever."""
    client = FencedClient()
    with pytest.raises(OperatorError):
        _publisher(client).send(TOPIC, b"key", b"value")
    assert client.called == ["abort_transaction"]


def test_fence_after_the_transactions_timeout_is_taken_for_the_timeout() -> None:
    """The broker answers both alike, and a batch that was given up comes again."""
    publisher = _publisher(FencedClient())
    publisher._begun_s = 0.0
    publisher._settings = Settings(producer={"transaction_timeout_ms": 1000})  # type: ignore[arg-type]
    with pytest.raises(BatchAborted):
        publisher.send(TOPIC, b"key", b"value")


def test_time_that_the_broker_does_not_take_is_the_clocks_and_comes_again() -> None:
    """Its own words tell of no clock."""
    with pytest.raises(BatchAborted, match=r"Invalid timestamp; the clock of this machine .*: set both by NTP"):
        _publisher(Client(KafkaError.INVALID_TIMESTAMP, in_callback=False))._flush()


def test_system_error_of_another_origin_is_a_bug() -> None:
    publisher = _publisher(Client(KafkaError._FENCED, in_callback=False))

    def fail(timeout_s: float) -> int:
        raise SystemError

    with pytest.raises(SystemError):
        publisher._serve(fail, 0.1)


def _send_until_refused(publisher: Publisher) -> None:
    while True:
        _send(publisher)


def _send(publisher: Publisher) -> None:
    for number in range(100):
        publisher.send(TOPIC, str(number).encode(), b"value")


def _commit(publisher: Publisher) -> None:
    _send(publisher)
    publisher.commit([])


def _read_ranges(publisher: Publisher) -> None:
    _send(publisher)
    publisher.delivered_ranges()


CALLS: dict[str, Callable[[Publisher], object]] = {
    "send": _send_until_refused,
    "delivered_ranges": _read_ranges,
    "commit": _commit,
    "commit of what was delivered": lambda publisher: publisher.commit([]),
    "abort": Publisher.abort,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_publisher_that_another_fences_ends_in_words(
    kafka: KafkaBroker, pipeline_name: str, call: Callable[[Publisher], object]
) -> None:
    """Real clients and a real broker. It says who runs and where, and opens no instance that would fence the other."""
    settings = Settings(name=pipeline_name, kafka={"bootstrap_servers": kafka.bootstrap_servers})  # type: ignore[arg-type]
    with contextlib.suppress(KafkaException):  # it is there already
        topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        topics.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(WAIT_S)
    publisher, other = (Publisher(settings, pipeline_name, lambda: None) for _ in range(2))
    publisher._partition_counts[TOPIC] = 2
    publisher.open_instance()
    publisher.begin()
    _send(publisher)
    publisher.delivered_ranges()
    other.open_instance()

    with pytest.raises(OperatorError) as refused:
        call(publisher)

    assert f"another producer runs under transactional id {pipeline_name}" in refused.value.what
    assert f"slot {settings.postgres.slot}" in refused.value.what
    assert publisher.instance_count == 1


def test_property_that_breaks_our_promises_is_the_operators_mistake() -> None:
    """librdkafka takes it alone, but not beside idempotence."""
    settings = Settings(kafka={"bootstrap_servers": "127.0.0.1:1", "client": {"max.in.flight": "10"}})  # type: ignore[arg-type]

    with pytest.raises(OperatorError, match=r"\[kafka\.client\] is not accepted: .*max\.in\.flight"):
        Publisher(settings, "id", lambda: None).open_instance(timeout_s=0.2)
