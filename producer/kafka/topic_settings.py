"""The settings of topics that exist, compared with what the topics were made with.

In: what each topic must be. Out: what differs, with the command that mends it. Two settings follow what is asked for:
topics take larger records, and are compacted sooner.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S
from walbridge.producer.kafka.topic_descriptions import AWAY, answer_of, not_described
from walbridge.producer.kafka.topic_specs import SEGMENT, SIZE, TopicSpec, may_stay
from walbridge.schemas.errors import KafkaAway, OperatorError

log = structlog.get_logger()


class TopicSettings:
    """Compares settings of topics.

    Args:
        servers: the brokers, as the command names them.
        alters: topics that take too small records are to take larger ones; else each is asked for once.
    """

    def __init__(self, admin: AdminClient, servers: str, *, alters: bool) -> None:
        self._admin, self._servers, self._alters = admin, servers, alters
        self._answers: dict[str, Future[Any]] = {}

    def ask_ahead(self, topics: Iterable[str]) -> None:
        """Ask for the settings of topics that the next comparison will be of, without waiting for the answers: brokers
        take a second for a thousand of them."""
        self._answers = self._asked(topics)

    def faults(self, specs: Collection[TopicSpec]) -> Iterator[OperatorError]:
        """All that ``ensure`` would refuse, where it raises the first."""
        return self._faults(specs, {}, {})

    def made_otherwise(self, specs: Collection[TopicSpec]) -> Iterator[tuple[str, str]]:
        """What of these topics is otherwise than they would be made today, and the command that mends it. No start
        refuses it.

        Raises:
            OperatorError: they may not be read.
            RetryableError: no broker answers.
        """
        answers = self._asked([spec.name for spec in specs])
        for spec in specs:
            found = _answered(spec.name, answers)
            for name, value in spec.made_with.items():
                if name in found and found[name].value != value:
                    yield f"topic {spec.name} has {name}={found[name].value}", self._by_hand(spec.name, name, value)

    def ensure(self, specs: Collection[TopicSpec]) -> None:
        """Compare the settings, and have topics take larger records, or be compacted sooner, where that is asked for.

        Raises:
            OperatorError: one differs, or they may not be read.
            RetryableError: no broker answers.
        """
        small: dict[str, str] = {}
        slow: dict[str, str] = {}
        for fault in self._faults(specs, small, slow):
            raise OperatorError(fault.what, f"{fault.remedy}; walbridge check names all topics that differ")
        if small and self._alters:
            self._allow_larger(small)
        if slow and self._alters:
            self._compact_sooner(slow)

    def _faults(
        self, specs: Collection[TopicSpec], small: dict[str, str], slow: dict[str, str]
    ) -> Iterator[OperatorError]:
        """``small`` is filled with topics that take too small records, and what they have to take; ``slow`` with those
        whose segments are compacted too late, and how old these may get."""
        answers = self._asked([spec.name for spec in specs])
        for spec in specs:
            found = _answered(spec.name, answers)
            for name, value in spec.config.items():
                if name not in found or may_stay(name, found[name].value, value):
                    continue
                if name == SIZE:
                    small[spec.name] = value
                elif name == SEGMENT:
                    slow[spec.name] = value
                else:
                    what = f"topic {spec.name} has {name}={found[name].value}, walbridge makes it with {value}"
                    yield OperatorError(what, remedy=f"{self._by_hand(spec.name, name, value)}; or mend [topics]")

    def _asked(self, names: Iterable[str]) -> dict[str, Future[Any]]:
        answers = self._answers
        # Two tables may have one topic, as one that was dropped and made again: librdkafka takes no name twice.
        if asked := [ConfigResource(ResourceType.TOPIC, name) for name in dict.fromkeys(names) if name not in answers]:
            futures = self._admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S)
            answers = answers | {resource.name: future for resource, future in futures.items()}
        self._answers = {} if self._alters else answers  # brokers take long for the settings of hundreds
        return answers

    def _by_hand(self, topic: str, name: str, value: str) -> str:
        to = f"--bootstrap-server {self._servers} --topic {topic}"
        return f"kafka-configs.sh --alter {to} --add-config {name}={value}"

    def _allow_larger(self, topics: Mapping[str, str]) -> None:
        """``row_bytes_max`` was raised since these were made: by topic, what it has to take by now."""
        for topic, value, reason in self._altered(SIZE, topics):
            if reason is not None:
                if reason.retriable() or reason.code() in AWAY:
                    raise KafkaAway(f"topic {topic} could not be altered: {reason.str()}") from None
                raise OperatorError(
                    f"topic {topic} takes smaller records than [producer] row_bytes_max needs, and {SIZE} could not "
                    f"be raised: {reason.str()}",
                    remedy=f"{self._by_hand(topic, SIZE, value)}; or lower [producer] row_bytes_max",
                ) from None
            log.info("topic takes larger records from here on", topic=topic, bytes=value)

    def _compact_sooner(self, topics: Mapping[str, str]) -> None:
        """Nothing stops where that is not allowed: only what ended long ago may be forgotten."""
        for topic, value, reason in self._altered(SEGMENT, topics):
            if reason is None:
                log.info("topic is compacted sooner from here on", topic=topic, segment_ms=value)
            else:
                remedy = self._by_hand(topic, SEGMENT, value)
                log.warning("topic is compacted late", topic=topic, why=reason.str(), remedy=remedy)

    def _altered(self, name: str, topics: Mapping[str, str]) -> Iterator[tuple[str, str, KafkaError | None]]:
        """Topic, value, and why it could not be set."""
        operation = AlterConfigOpType.SET
        wanted = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[ConfigEntry(name, value, incremental_operation=operation)],
            )
            for topic, value in topics.items()
        ]
        futures = self._admin.incremental_alter_configs(wanted, request_timeout=REQUEST_TIMEOUT_S)
        for resource, future in futures.items():
            try:
                answer_of(future)
            except KafkaException as error:
                yield resource.name, topics[resource.name], error.args[0]
            else:
                yield resource.name, topics[resource.name], None


def _answered(topic: str, answers: Mapping[str, Future[Any]]) -> Any:
    """The settings of a topic."""
    try:
        return answer_of(answers[topic])
    except KafkaException as error:
        raise not_described(f"settings of topic {topic} cannot be read", error.args[0]) from None
