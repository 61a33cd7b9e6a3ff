"""Topics: made explicitly with their settings, and compared with them at each start.

In: what each topic must be. Out: partition counts as they are. A topic that deletes what must be
kept, or has other partitions than its records were spread over, loses order or events silently:
so a difference stops the start.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from walbridge.producer.errors.topics import foreign_transaction
from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S, admin_client
from walbridge.producer.kafka.topic_descriptions import (
    DELETED,
    TopicDescriptions,
    answer_of,
    not_described,
    visible_partition_count,
)
from walbridge.producer.kafka.topic_settings import TopicSettings
from walbridge.producer.kafka.topic_specs import TopicSpec
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway, KafkaRefuses, OperatorError
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

CONTACT_TIMEOUT_S = 3.0
"""Time limit of the first request, which cannot be interrupted: the caller tries again."""
SHORTER_AFTER_S = 5.0
"""How long a log may be shorter than what was acknowledged: a broker that takes over a partition may need some time."""
DECIDED_S = 5.0
"""How long a transaction in a topic of ours may stay open once ours are ended, before it counts as somebody else's."""
_LOOK_S = 0.2
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_MADE_AT_ONCE = 1_000
"""Topics, partitions and settings in one request: a controller refuses more than 10,000 records at once, and has as
long for a large request as for a small one."""
_COLLIDES = (
    'Kafka takes "." and "_" in topic names for equal: give the table another topic in [topics.names], '
    "or this pipeline another name"
)


def new_topic(settings: Settings, spec: TopicSpec) -> NewTopic:
    """What the broker is asked to make."""
    factor = settings.topics.replication_factor
    return NewTopic(spec.name, num_partitions=spec.partition_count, replication_factor=factor, config=spec.first_config)


class TopicAdmin:
    """Creates and checks topics.

    Args:
        alters: topics that take too small records are to take larger ones; else each is asked for once.

    Raises:
        OperatorError: [kafka.client] has a property that librdkafka does not take.
    """

    def __init__(self, settings: Settings, *, alters: bool = True) -> None:
        self._settings = settings
        self._admin = admin_client(settings, self._hear)
        self.settings_of_topics = TopicSettings(self._admin, settings.kafka.bootstrap_servers, alters=alters)
        self._heard: deque[KafkaError] = deque(maxlen=1)

    def partition_counts(self) -> dict[str, int]:
        """Every topic of the broker with its partition count: megabytes where there are ten thousand. Whoever knows
        the names asks ``partition_counts_of``.

        Raises:
            RetryableError: no broker answers.
        """
        try:
            metadata = self._admin.list_topics(timeout=CONTACT_TIMEOUT_S)
        except KafkaException as error:
            raise self._away(error.args[0]) from None
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def partition_counts_of(self, names: Collection[str]) -> dict[str, int]:
        """These topics with their partition counts; without those that do not exist, or that we may not see.

        Raises:
            RetryableError: no broker answers.
        """
        if not names:
            return {}
        try:
            asked = self._admin.describe_topics(TopicCollection(sorted({*names})), request_timeout=CONTACT_TIMEOUT_S)
            found = {name: visible_partition_count(future) for name, future in asked.items()}
        except KafkaException as error:
            raise self._away(error.args[0]) from None
        return {name: count for name, count in found.items() if count}

    def _hear(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._heard.append(error)

    def _away(self, error: KafkaError) -> KafkaAway:
        """The result of a request tells no reason; what the client itself was told does."""
        self._heard.clear()
        self._admin.poll(0)  # which calls ``_hear``
        where = self._settings.kafka.bootstrap_servers
        if not self._heard:
            return KafkaAway(f"Kafka at {where} cannot be reached: {error.str()}")
        heard = self._heard[0]
        if _is_refusal(heard):
            return KafkaRefuses(f"Kafka at {where} does not let walbridge in: {heard.str()}")
        return KafkaAway(f"Kafka at {where} cannot be reached: {heard.str()}")

    def describe(self, names: Iterable[str]) -> TopicDescriptions:
        """Request descriptions of these topics, at least one, without waiting for the answer."""
        wanted = sorted({*names})
        return TopicDescriptions(
            wanted, self._admin.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_TIMEOUT_S)
        )

    def cut_short(self, ends: Mapping[PartitionId, int]) -> set[str]:
        """Topics of which a partition ends before it should: its broker has lost records that it had acknowledged.

        Args:
            ends: by partition, where records end that were published.

        Raises:
            RetryableError: no broker answers.
            OperatorError: it refuses to tell.
        """
        until_s = time.monotonic() + SHORTER_AFTER_S
        left = ends
        while (left := self._shorter(left)) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return {topic for topic, _ in left}

    def _shorter(self, ends: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
        found = self._ends(ends, IsolationLevel.READ_UNCOMMITTED)
        return {each: ends[each] for each, end in found.items() if end < ends[each]}

    def wait_decided(self, topics: Iterable[str], timeout_s: float = DECIDED_S) -> None:
        """Return when all that is in partition 0 of these topics now is committed or aborted. Behind an open
        transaction readers see nothing, so what they take for the newest record may be old.

        Args:
            timeout_s: longer where a producer's own commit may be under way.

        Raises:
            RetryableError: no broker answers.
            OperatorError: a transaction stays open, though our own had time to end; or the broker refuses to tell.
        """
        ends = self._ends([(topic, 0) for topic in topics], IsolationLevel.READ_UNCOMMITTED)
        until_s = time.monotonic() + timeout_s
        while ends:
            decided = self._ends(ends, IsolationLevel.READ_COMMITTED)
            ends = {each: end for each, end in ends.items() if decided.get(each, end) < end}
            if ends and time.monotonic() > until_s:
                first = min(ends)
                raise foreign_transaction(first[0], decided[first])
            if ends:
                time.sleep(_LOOK_S)

    def _ends(self, partition_ids: Collection[PartitionId], level: IsolationLevel) -> dict[PartitionId, int]:
        """Where these end, as a reader of this level sees it; without those that are deleted."""
        if not partition_ids:
            return {}
        asked = {TopicPartition(*each): OffsetSpec.latest() for each in partition_ids}  # type: ignore[no-untyped-call]
        told = self._admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
        found = {}
        for each, future in told.items():
            try:
                found[each.topic, each.partition] = int(answer_of(future).offset)
            except KafkaException as error:
                if error.args[0].code() == DELETED:
                    continue
                # One that knows an earlier leader asks it again and again: only the next client asks anew.
                self._admin = admin_client(self._settings, self._hear)
                raise not_described(f"the end of topic {each.topic} is not told", error.args[0]) from None
        return found

    def ask_settings_ahead(self, topics: Iterable[str]) -> None:
        """Ask for what the next ``check`` compares, without waiting for the answers."""
        self.settings_of_topics.ask_ahead(topics)

    def check(self, specs: Iterable[TopicSpec]) -> None:
        """Compare the settings of topics that exist.

        Raises:
            OperatorError: one differs.
            RetryableError: no broker answers.
        """
        self.settings_of_topics.ensure(list(specs))

    def ensure(self, specs: Iterable[TopicSpec]) -> dict[str, int]:
        """Create what is missing, check what is there; the partition count of each.

        Raises:
            OperatorError: a setting or partition count differs, or creation is refused.
        """
        wanted = {spec.name: spec for spec in specs}
        existing = self.partition_counts_of(wanted)
        for some in _portions(spec for name, spec in wanted.items() if name not in existing):
            self._create(some)
            self._wait_for({spec.name for spec in some})
        present = [spec for name, spec in wanted.items() if name in existing]
        for fault in _partition_faults(present, existing):
            raise fault
        self.settings_of_topics.ensure(present)
        return {name: existing.get(name, spec.partition_count) for name, spec in wanted.items()}

    def _create(self, specs: list[TopicSpec]) -> None:
        topics = [new_topic(self._settings, spec) for spec in specs]
        for name, future in self._admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                answer_of(future)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    # With whatever partitions and settings its maker chose: the next attempt compares them.
                    raise KafkaAway(f"topic {name} was made by somebody else just now") from None
                if reason.retriable():
                    raise KafkaAway(f"topic {name} could not be created: {reason.str()}") from None
                raise OperatorError(
                    f"topic {name} could not be created: {reason.str()}",
                    remedy=_COLLIDES
                    if reason.code() == KafkaError.TOPIC_EXCEPTION
                    else "mend [topics], or grant Create on it to walbridge's principal (walbridge init --acls prints "
                    "the command), or create it by hand: see docs/settings.md, Topics and rights in Kafka",
                ) from None

    def _wait_for(self, made: set[str]) -> None:
        """A broker hears of new topics a moment after they were made, and of many of them seconds later.

        Whoever asks before that begins again, so this is no guarantee, and gives up in silence.
        """
        deadline_s, due = time.monotonic() + REQUEST_TIMEOUT_S, BackOff(first_s=0.02, max_s=0.5)
        while not made <= self.partition_counts_of(made).keys() and time.monotonic() < deadline_s:
            time.sleep(due.pause_s)
            due.grow()

    def faults(self, specs: Iterable[TopicSpec]) -> Iterator[OperatorError]:
        """All that ``ensure`` would refuse of topics that exist, where it raises the first.

        Raises:
            RetryableError: no broker answers.
        """
        present = list(specs)
        yield from _partition_faults(present, self.partition_counts_of([spec.name for spec in present]))
        yield from self.settings_of_topics.faults(present)


def _partition_faults(specs: Iterable[TopicSpec], counts: Mapping[str, int]) -> Iterator[OperatorError]:
    for spec in specs:
        if spec.fixed_partitions and counts.get(spec.name, spec.partition_count) != spec.partition_count:
            yield OperatorError(
                f"topic {spec.name} has {counts[spec.name]} partitions, it must have {spec.partition_count}",
                remedy="delete that topic, then start walbridge produce: it makes the topic again; if this pipeline "
                "has begun, it says then how all tables are copied again",
            )


def _is_refusal(heard: KafkaError) -> bool:
    """Also a certificate that fails while the client reads, which it tells as it tells a broken connection."""
    text = heard.str()
    return heard.code() in _REFUSED or ("SSL routines:" in text and "unexpected eof" not in text)


def _portions(specs: Iterable[TopicSpec]) -> Iterator[list[TopicSpec]]:
    some: list[TopicSpec] = []
    record_count = 0
    for spec in specs:
        added = 1 + spec.partition_count + len(spec.first_config)
        if some and record_count + added > _MADE_AT_ONCE:
            yield some
            some, record_count = [], 0
        some.append(spec)
        record_count += added
    if some:
        yield some
