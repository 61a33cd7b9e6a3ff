"""The broker and this pipeline's topics, compared with what they must be.

In: an admin client. Out: findings. Nothing is made: what is missing is only tried
(``validate_only``), so that missing rights and refused names show before the first start.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from walbridge.check.finding import Finding, Severity, advice, error, ok, refused, warning
from walbridge.producer.errors.topics import topic_gone
from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S, admin_client
from walbridge.producer.kafka.topic_specs import TopicSpec, control_topics, data_topic_spec, status_topic_spec
from walbridge.producer.kafka.topics import TopicAdmin, new_topic
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import COMPACTED_OPTION, Progress
from walbridge.schemas.control.table_progress import CURRENT, DROPPED, FIRST_COPY_WAITS
from walbridge.schemas.errors import OperatorError, RetryableError, copy_command
from walbridge.schemas.position import format_lsn
from walbridge.schemas.properties import server_address
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import transaction_topic
from walbridge.tables.known import known_tables
from walbridge.tables.table_status import copied_text

BROKER = "broker"
TOPICS = "topics"
_TRANSACTION_MS = "transaction.max.timeout.ms"
_STATE_REPLICAS = "transaction.state.log.replication.factor"
_REPLICAS = "default.replication.factor"


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """``settings``: those of one broker; empty where we may not see them."""

    broker_count: int
    settings: Mapping[str, str]


def broker_facts(settings: Settings) -> BrokerFacts:
    """The facts that the cluster tells about itself.

    Raises:
        RetryableError: it does not answer.
    """
    admin = admin_client(settings)
    try:
        nodes = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result().nodes
        resource = ConfigResource(ResourceType.BROKER, str(nodes[0].id))
        described = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
    except KafkaException as failure:
        raise RetryableError(f"Kafka does not say who it is: {failure.args[0].str()}") from None
    try:
        shown = {name: entry.value for name, entry in described.result().items() if entry.value is not None}
    except KafkaException:
        shown = {}
    return BrokerFacts(len(nodes), shown)


def broker_findings(facts: BrokerFacts, settings: Settings) -> Iterator[Finding]:
    """Whether the cluster accepts what walbridge writes, and keeps it."""
    where = settings.kafka.bootstrap_servers
    yield ok(BROKER, f"{facts.broker_count} broker{'s' if facts.broker_count > 1 else ''} at {where}")
    if not facts.settings:
        yield advice(
            BROKER,
            "the brokers' settings may not be seen, so they were not checked",
            "grant DescribeConfigs on the cluster to walbridge's principal",
        )
        return
    allowed_ms, wanted_ms = int(facts.settings.get(_TRANSACTION_MS, 900_000)), settings.producer.transaction_timeout_ms
    if wanted_ms > allowed_ms:
        yield error(
            BROKER,
            f"{_TRANSACTION_MS} = {allowed_ms}, the producer asks for {wanted_ms}",
            f"set [producer] transaction_timeout_ms = {allowed_ms}, or raise {_TRANSACTION_MS} on the brokers",
        )
    if (replicas := int(facts.settings.get(_STATE_REPLICAS, 1))) > facts.broker_count:
        yield error(
            BROKER,
            f"{_STATE_REPLICAS} = {replicas}, but {_brokers(facts)}: no transaction can begin",
            f"set {_STATE_REPLICAS} = {facts.broker_count} on the brokers, or start more of them",
        )
    yield from _replication(facts, settings.topics.replication_factor)


def server_findings(settings: Settings) -> Iterator[Finding]:
    """Server addresses that librdkafka accepts, but Java's Kafka client of the job does not, such as one without a
    port."""
    for server in settings.kafka.bootstrap_servers.split(","):
        try:
            server_address(server)
        except OperatorError as refusal:
            yield refused(BROKER, refusal)


def _brokers(facts: BrokerFacts) -> str:
    return "there is 1 broker" if facts.broker_count == 1 else f"there are {facts.broker_count} brokers"


def _replication(facts: BrokerFacts, wanted: int) -> Iterator[Finding]:
    factor = int(facts.settings.get(_REPLICAS, 1)) if wanted == -1 else wanted
    if factor > facts.broker_count:
        yield error(
            BROKER,
            f"new topics get {factor} replicas, but {_brokers(facts)}",
            f"set [topics] replication_factor = {facts.broker_count}, or start more brokers",
        )
    elif factor < 2:
        yield advice(
            BROKER,
            "new topics get 1 replica: with the broker's disk all that is in Kafka is lost",
            "run 3 brokers and set [topics] replication_factor = 3 before walbridge init",
        )


def left_out_findings(
    progress: Progress | None, known: Iterable[RelationRecord] = (), grants: Mapping[int, str] = MappingProxyType({})
) -> Iterator[Finding]:
    """Tables whose changes are not published, and copies in progress. The pipeline goes on, but readers do not have
    these tables, or have them stale.

    Args:
        known: the relations of the metadata topic, oldest first.
        grants: by relation id of a table that the role may not read, the SQL without which no copy can be made.
    """
    if progress is None or progress.state != "streaming":
        return
    for table in known_tables(progress, known, None):
        table_progress = table.progress
        if table_progress is None or table_progress.state in (CURRENT, DROPPED):
            continue
        since = "" if table_progress.since is None else f" since {format_lsn(table_progress.since)}"
        if table_progress.copy is not None:
            copied = copied_text(table_progress.copy.rows, table_progress.copy.bytes)
            yield ok(TOPICS, f"table {table.name} is being copied{since}: {copied}")
        elif table_progress.why == FIRST_COPY_WAITS:
            yield ok(TOPICS, f"table {table.name} waits for its turn: {table_progress.why}")
        else:
            text = f"table {table.name} is {table_progress.state} and not published{since}: {table_progress.why}"
            grant = f"{grants[table.relation_id]} then " if table.relation_id in grants else ""
            yield warning(TOPICS, text, f"{grant}{copy_command(table.name)}")


def topic_findings(
    settings: Settings,
    admin: TopicAdmin,
    counts: Mapping[str, int],
    relations: Iterable[RelationRecord],
    progress: Progress | None,
) -> Iterator[Finding]:
    """Control topics, then those of the tables that are followed, as the metadata names them."""
    newest = {record.table.relation_id: record for record in relations}
    has_progress = progress is not None and bool(newest)
    if progress is not None and progress.state == "streaming":
        written = {*progress.relation_ids, MESSAGES_RELATION_ID}
        newest = {each: record for each, record in newest.items() if each in written}
    data = {record.topic: record for record in newest.values()}
    tables = {topic: record for topic, record in data.items() if record.table.relation_id != MESSAGES_RELATION_ID}
    compacted = {*progress.options.get(COMPACTED_OPTION, "").split()} if progress is not None else set()
    specs = [*control_topics(settings), *(_spec(settings, record, compacted) for record in data.values())]
    missing = [spec for spec in specs if spec.name not in counts]
    gone = {spec.name for spec in missing if has_progress}
    told = transaction_topic(settings.name)  # where it is gone, it is made again
    own = [data_topic_spec(settings, told, has_key=False)] if settings.topics.transaction_topic else []
    there = [spec for spec in (*specs, *own) if spec.name in counts]
    faults = [refused(TOPICS, fault) for fault in admin.faults(there)]
    yield from faults
    if lost := sorted(gone - tables.keys()):
        yield from (refused(TOPICS, topic_gone(topic)) for topic in lost)
    elif missing and not has_progress:
        created = [*_creatable(settings, missing)]
        yield from created
        if any(each.severity is Severity.ERROR for each in created):
            return  # for the other one, too
    elif not faults:
        yield ok(TOPICS, f"{len(there)} topics have the settings that they must have")
    yield from _status_findings(settings, admin, counts)
    yield from _clock_findings(settings, admin, counts)


def _status_findings(settings: Settings, admin: TopicAdmin, counts: Mapping[str, int]) -> Iterator[Finding]:
    """The status topic. The pipeline works without it: only ``walbridge status`` reads it."""
    spec = status_topic_spec(settings)
    if spec.name in counts:
        faults = (refused(TOPICS, fault) for fault in admin.faults([spec]))
    else:
        faults = (each for each in _creatable(settings, [spec]) if each.severity is Severity.ERROR)
    for each in faults:
        text = f"{each.text}; without it nobody is told when and why walbridge produce ended"
        yield advice(TOPICS, text, each.remedy or "")


def _clock_findings(settings: Settings, admin: TopicAdmin, counts: Mapping[str, int]) -> Iterator[Finding]:
    """Topics that were made before walbridge asked for the broker's clock: no start refuses them."""
    specs = [spec for spec in (*control_topics(settings), status_topic_spec(settings)) if spec.name in counts]
    for what, command in admin.settings_of_topics.made_otherwise(specs):
        yield advice(
            TOPICS,
            f"{what}: while the clock of the producer is more than an hour ahead of the broker's, nothing is published",
            command,
        )


def _spec(settings: Settings, record: RelationRecord, compacted: Container[str]) -> TopicSpec:
    has_key, is_compacted = bool(record.table.key_columns), record.topic in compacted
    return data_topic_spec(settings, record.topic, has_key=has_key, is_compacted=is_compacted)


def has_control_topics(settings: Settings, counts: Mapping[str, int]) -> bool:
    """Whether none of the topics is gone: a start would make it again, without the records it had."""
    return all(spec.name in counts for spec in control_topics(settings))


def _creatable(settings: Settings, specs: list[TopicSpec]) -> Iterator[Finding]:
    """Whether the broker would make the topics that are missing."""
    wanted = [new_topic(settings, spec) for spec in specs]
    admin = admin_client(settings)  # held: its answers are lost with it
    tried = admin.create_topics(wanted, validate_only=True, request_timeout=REQUEST_TIMEOUT_S)
    faults = 0
    for name, future in tried.items():
        try:
            future.result()
        except KafkaException as failure:
            faults += 1
            reason = failure.args[0].str()
            mend = "mend [topics] or the name, or grant CREATE on it to walbridge's principal"
            yield error(TOPICS, f"topic {name} could not be made: {reason}", mend)
    if not faults:
        names = ", ".join(spec.name for spec in specs)
        yield advice(TOPICS, f"not there yet, but can be made: {names}", "walbridge init")
