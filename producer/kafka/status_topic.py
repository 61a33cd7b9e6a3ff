"""What a program says of itself, in a compacted topic: read and written beside all Kafka transactions.

In: records of runs. Out: those of our slot: of its producer, and of what verifies its lake. The topic is made when it
is missing. Where that, or writing, is not allowed, the pipeline goes on without: only what ``walbridge status`` can
tell depends on it.
"""

from collections.abc import Container, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from walbridge.producer.kafka.client_config import client_config, refusing_properties
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.topic_specs import status_topic_spec
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.runtime.reports.run_report import WRITE_S
from walbridge.schemas.control.run_record import END, PRODUCER, RUN, Run, decode_run, encode_run, record_key
from walbridge.schemas.errors import KafkaAway, ProtocolError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import status_topic

_NEWEST = 10_000
"""No more records are looked at, from the end: what runs renews its own, so one of what ended may be far behind. Where
the topic is compacted as ``topic_specs.py`` says, two programs that run bring half as many within two segments."""


class StatusTopic:
    """Reads and writes the run records of one slot. Used by one thread."""

    def __init__(self, settings: Settings, program: str = PRODUCER) -> None:
        self._settings, self._topic, self._program = settings, status_topic(settings.name), program
        self._client: Producer | None = None
        self._failure: KafkaError | None = None

    def read(self) -> tuple[Run | None, Run | None]:
        """The newest records. Raises as ``newest_runs``; makes the topic where it is missing."""
        TopicAdmin(self._settings).ensure([status_topic_spec(self._settings)])
        return newest_runs(self._settings, {self._topic}, self._program)

    def write(self, records: Mapping[str, Run]) -> None:
        """Acknowledged when it returns.

        Raises:
            KafkaAway: no answer in time, or the broker refuses, or there is no such topic: who only ends makes none.
        """
        if self._client is None:
            if not TopicAdmin(self._settings).partition_counts_of([self._topic]):
                raise KafkaAway(f"there is no topic {self._topic}")
            with refusing_properties(self._settings):
                self._client = Producer(self._config())
        self._failure = None
        try:
            for kind, run in records.items():
                key = record_key(self._settings.postgres.slot, self._program, kind)
                self._client.produce(self._topic, encode_run(run), key, 0, on_delivery=self._delivered)
            left = self._client.flush(WRITE_S)
        except (KafkaException, BufferError) as error:
            raise KafkaAway(f"{self._topic} takes no record: {error.args[0]}") from None
        if self._failure is not None:
            raise KafkaAway(f"{self._topic} takes no record: {self._failure.str()}")
        if left:
            raise KafkaAway(f"{self._topic} takes no record within {WRITE_S:g} s")

    def _config(self) -> dict[str, Any]:
        return {
            "acks": "all",
            "linger.ms": 0,
            "allow.auto.create.topics": False,
            "message.timeout.ms": int(WRITE_S * 1000),
            "log_level": 0,
            "error_cb": lambda error: None,
        } | client_config(self._settings)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failure = error or self._failure


def newest_runs(settings: Settings, topics: Container[str], program: str = PRODUCER) -> tuple[Run | None, Run | None]:
    """The newest record of our slot's program that says that it runs, and the newest of an end.

    Raises:
        RetryableError: no broker answers.
        OperatorError: the topic may not be read.
    """
    topic = status_topic(settings.name)
    if topic not in topics:
        return None, None
    wanted = [record_key(settings.postgres.slot, program, kind) for kind in (RUN, END)]
    found: dict[bytes, Run] = {}
    with PartitionLog(settings, topic, 0) as log:
        for message in islice(log.backwards(), _NEWEST):
            key = message.key() or b""
            if key in wanted and key not in found:
                with suppress(ProtocolError):  # newer code's: it tells less, and stops nobody
                    found[key] = decode_run(message.value() or b"")
            if len(found) == len(wanted):
                break
    return found.get(wanted[0]), found.get(wanted[1])
