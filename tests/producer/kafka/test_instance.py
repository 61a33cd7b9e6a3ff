"""Whatever comes out of the client once another instance fenced it: the real one, on a real broker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka import instance
from walbridge.producer.kafka.instance import FENCED, SLICE_S, Instance

WAIT_S = 60
TURNS_S = 5.0
"""Of a call that goes on serving callbacks after a fatal error."""
Callback = Callable[[KafkaError | None, Message], None]


def _quotes(error: KafkaError | None, message: Message) -> None:
    """Python notices the exception that is set already when a method returns; not always, once the code is warm."""
    if error is not None:
        error.str()


def _catches(error: KafkaError | None, message: Message) -> None:
    """The exception that is set already makes way for this one, and is gone with it."""
    with contextlib.suppress(KeyError):
        raise KeyError


def _quiet(error: KafkaError | None, message: Message) -> None:
    """Does nothing that could notice."""


def _poll(fenced: Instance) -> None:
    for _ in range(WAIT_S):
        fenced.poll(TURNS_S)


def _commit_in_slices(fenced: Instance) -> None:
    while True:
        try:
            return fenced.commit(0.001)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _begin(fenced: Instance) -> None:
    def is_dead() -> bool:
        with contextlib.suppress(KafkaException):
            fenced.produce("t", b"value")
            return False
        return True

    wait_until(is_dead, "the client to refuse records")
    fenced.begin()


CASES: dict[str, tuple[Callable[[Instance], object], Callback]] = {
    "flush": (lambda fenced: fenced.flush(TURNS_S), _quiet),
    "flush, and the callback notices": (lambda fenced: fenced.flush(TURNS_S), _quotes),
    "flush, and the reason is lost": (lambda fenced: fenced.flush(TURNS_S), _catches),
    "poll": (_poll, _catches),
    "commit": (lambda fenced: fenced.commit(TURNS_S), _catches),
    "commit in slices": (_commit_in_slices, _catches),
    "begin": (_begin, _catches),
}


@pytest.fixture
def client(kafka: KafkaBroker, pipeline_name: str) -> Producer:
    """Fenced, with records in flight in a transaction of which the broker knows."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    with contextlib.suppress(KafkaException):
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(WAIT_S)
    made = _client(kafka, pipeline_name)
    made.begin_transaction()
    made.produce("t", b"value", b"key")
    assert made.flush(WAIT_S) == 0
    _client(kafka, pipeline_name)
    return made


def _client(kafka: KafkaBroker, transactional_id: str) -> Producer:
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    made = Producer(config, logger=instance._SILENT)
    made.init_transactions(WAIT_S)
    return made


@pytest.mark.parametrize(("call", "callback"), CASES.values(), ids=CASES)
def test_fenced_instance_says_so_whatever_the_call_and_the_callback(
    client: Producer, call: Callable[[Instance], object], callback: Callback
) -> None:
    """And is never called again: neither is it there to be called."""
    fenced = Instance(client)
    with contextlib.suppress(KafkaException):  # where the machine is slow the client knows before the last one
        for number in range(100):
            fenced.produce("t", b"value", str(number).encode(), on_delivery=callback)

    with pytest.raises(KafkaException) as raised:
        call(fenced)

    assert raised.value.args[0].code() in FENCED
    assert fenced.is_fenced
    assert fenced._client is None
    for again in (fenced.begin, lambda: fenced.flush(SLICE_S), lambda: fenced.produce("t", b"value")):
        with pytest.raises(KafkaException) as refused:
            again()
        assert refused.value.args[0] is raised.value.args[0]


def test_transaction_given_up_shows_the_fence(client: Producer) -> None:
    fenced = Instance(client)
    fenced.produce("t", b"value", b"key", on_delivery=_catches)

    fenced.give_up()

    assert fenced.is_fenced


class Refusing:
    """Every call raises this, but for those that are named."""

    def __init__(self, error: BaseException, **others: BaseException) -> None:
        self._error, self._others = error, others
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*_: object) -> None:
            self.called.append(name)
            raise self._others.get(name, self._error)

        return call


def _refusing(error: BaseException, **others: BaseException) -> tuple[Instance, Refusing]:
    client = Refusing(error, **others)
    return Instance(client), client  # type: ignore[arg-type]


def _fatal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code, fatal=True))


def test_reason_is_found_behind_several_callbacks() -> None:
    error, behind = SystemError("returned a result with an exception set"), SystemError("the same of another callback")
    error.__cause__, behind.__context__ = behind, _fatal(KafkaError._FENCED)
    fenced, client = _refusing(error)

    with pytest.raises(KafkaException):
        fenced.poll(0)

    assert fenced.is_fenced
    assert client.called == ["poll"]


def test_lost_reason_is_asked_of_the_call_that_is_under_way() -> None:
    """Of a commit that was begun, librdkafka answers an abort with a conflict."""
    conflict = KafkaException(KafkaError(KafkaError._CONFLICT, retriable=True))
    lost, fenced = SystemError("returned NULL without setting an exception"), _fatal(KafkaError._FENCED)
    asked, client = _refusing(lost, abort_transaction=conflict, commit_transaction=fenced)

    with pytest.raises(KafkaException):
        asked.poll(0)

    assert asked.is_fenced
    assert client.called == ["poll", "abort_transaction", "commit_transaction"]


def test_system_error_of_another_origin_is_a_bug() -> None:
    alive = KafkaException(KafkaError(KafkaError._STATE))
    healthy, _ = _refusing(SystemError(), abort_transaction=alive, commit_transaction=alive)

    with pytest.raises(SystemError):
        healthy.poll(0)


def test_exception_of_our_own_passes_unchanged() -> None:
    broken, client = _refusing(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        broken.flush(0)

    assert client.called == ["flush"]


def test_fatal_error_of_another_kind_leaves_the_client_to_be_purged() -> None:
    dead, client = _refusing(_fatal(KafkaError.INVALID_TXN_STATE))

    dead.give_up()

    assert not dead.is_fenced
    assert client.called == ["abort_transaction", "purge", "poll"]


def test_record_refused_by_a_failed_transaction_is_told_with_the_reason_of_the_failure(
    kafka: KafkaBroker, pipeline_name: str
) -> None:
    """Whichever is heard first: the answer to the record that failed, or the refusal of the next."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    small = NewTopic(f"{pipeline_name}.small", 1, 1, config={"max.message.bytes": "1000"})
    admin.create_topics([small])[small.topic].result(WAIT_S)
    client = _client(kafka, pipeline_name)
    failed = Instance(client)
    failed.begin()
    failed.produce(small.topic, os.urandom(5000))
    assert client.flush(WAIT_S) == 0  # its answer has no callback, so nobody hears it

    with pytest.raises(KafkaException) as refused:
        failed.produce(small.topic, b"value")

    assert refused.value.args[0].code() == KafkaError._STATE
    assert failed.failure(refused.value.args[0]).code() == KafkaError.MSG_SIZE_TOO_LARGE
