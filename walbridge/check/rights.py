"""What both programs may do in Kafka, asked as each of them logs in.

In: settings, and the topics that are there. Out: findings. Nothing is written and nobody is fenced: a broker tells what
may be done with a topic or group, and looks at the right to a transactional id before it refuses one whose
transactions are to last longer than any may.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation
from pydantic import SecretStr

from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.check.java_login import OtherLogin, login_of
from walbridge.producer.errors.topics import may_not_write
from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S, admin_client, client_config, refusing_properties
from walbridge.producer.kafka.topic_specs import control_topics, data_topic_spec
from walbridge.producer.kafka.topics import TopicAdmin, new_topic
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import KafkaRefuses, OperatorError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import with_secrets
from walbridge.schemas.topics import data_topic, progress_topic
from walbridge.spark_consumer.errors import GRANT_READ

AREA = "rights"
OPEN_S = 5.0
TOO_LONG_MS = 2**31 - 1
"""24 days, which no broker accepts unless it is configured for it; then an unused id is known to it for a while."""
NAMED_MAX = 3
_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""A logger, since librdkafka would else print on stderr what becomes a finding."""
_LATER = "on its topics is asked for once they are there"
_OF_A_JOB = "if walbridge materialize is to run with these settings: "
_LOGIN = "check [kafka.spark]: security.protocol, sasl.mechanism, sasl.jaas.config"


def rights_findings(
    settings: Settings, counts: Mapping[str, int], relations: Iterable[RelationRecord]
) -> Iterator[Finding]:
    """The rights of both programs on the topics that exist."""
    own = {spec.name for spec in control_topics(settings)} | {record.topic for record in relations}
    there = own & counts.keys()
    yield from producer_findings(settings, there)
    yield from job_findings(settings, there)


def producer_findings(settings: Settings, topics: Collection[str]) -> Iterator[Finding]:
    """Whether the producer may write what it has to.

    Args:
        topics: those of the pipeline that are there.
    """
    faults, may = [], [f"write {_count(topics)}"] if topics else []
    if topics:  # before there are any, the look at the topics asks for this
        unmade = list(_create_findings(settings))
        yield from unmade
        may += [] if unmade else ["make more for tables that come"]
    if forbidden := _forbidden(settings, topics, AclOperation.WRITE):
        faults.append(refused(AREA, may_not_write(settings.name, _named(forbidden))))
    faults += _id_findings(settings)
    told = ", ".join([*may, "and open transactions"]) if may else f"open transactions; Write {_LATER}"
    yield from faults or [ok(AREA, f"walbridge produce may {told}")]


def job_findings(settings: Settings, topics: Collection[str]) -> Iterator[Finding]:
    """Whether the job may read the topics, logged in as ``[kafka.spark]`` says."""
    try:
        as_job = _as_job(settings)
        TopicAdmin(as_job).partition_counts_of(topics or [progress_topic(settings.name)])
    except OtherLogin as other:
        yield advice(AREA, f"not asked as the Spark job: {other}", f"{_OF_A_JOB}its start asks")
        return
    except OperatorError as refusal:  # a file of a secret, or a property
        yield advice(AREA, f"not asked as the Spark job: {refusal.what}", f"{_OF_A_JOB}{refusal.remedy}")
        return
    except KafkaRefuses as refusal:
        yield error(AREA, f"as the Spark job: {refusal}", _LOGIN)
        return
    faults = []
    if forbidden := _forbidden(as_job, topics, AclOperation.READ):
        faults.append(error(AREA, f"the Spark job may not read {_named(forbidden)}", GRANT_READ))
    if _is_group_forbidden(as_job, group := f"walbridge-{settings.name}"):
        faults.append(error(AREA, f"the Spark job may not read with group {group}", GRANT_READ))
    asked = {progress_topic(settings.name)} & {*topics}
    if not faults and _forbidden(as_job, asked, AclOperation.WRITE):
        yield advice(
            AREA,
            f"the Spark job may not write {progress_topic(settings.name)}, so it cannot ask for copies itself",
            "grant it Write on that topic: walbridge init --acls prints the command",
        )
    told = _count(topics) if topics else f"with group {group}; Read {_LATER}"
    yield from faults or [ok(AREA, f"walbridge materialize may read {told}")]


def _as_job(settings: Settings) -> Settings:
    """Settings whose client logs in as the job does.

    Raises:
        OtherLogin: not in a way that librdkafka knows, or these are not the job's settings.
        OperatorError: a file with one of its secrets cannot be read here.
    """
    kafka = with_secrets(settings, ("spark",)).kafka
    login = login_of(flatten(kafka.spark))
    ours = kafka.client.get("security.protocol")
    if "security.protocol" not in login and ours is not None and ours.get_secret_value().upper() != "PLAINTEXT":
        raise OtherLogin("[kafka.spark] has no security.protocol, and [kafka.client] has one")
    client = {name: SecretStr(value) for name, value in login.items()}
    return settings.model_copy(update={"kafka": kafka.model_copy(update={"client": client})})


def _forbidden(settings: Settings, topics: Collection[str], operation: AclOperation) -> list[str]:
    """The topics for which this operation is not allowed."""
    if not topics:
        return []
    admin = admin_client(settings)
    asked = admin.describe_topics(
        TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
    )
    return sorted(_without(asked, operation, KafkaError.TOPIC_AUTHORIZATION_FAILED))


def _is_group_forbidden(settings: Settings, group: str) -> bool:
    admin = admin_client(settings)
    asked = admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
    )
    return group in _without(asked, AclOperation.READ, KafkaError.GROUP_AUTHORIZATION_FAILED)


def _without(asked: Mapping[str, object], operation: AclOperation, refusal: int) -> Iterator[str]:
    """The resources for which the broker says that the operation is not allowed. What it does not tell shows at a
    start."""
    for name, future in asked.items():
        try:
            allowed = future.result().authorized_operations  # type: ignore[attr-defined]
        except KafkaException as failure:
            if failure.args[0].code() == refusal:
                yield name
        else:
            if allowed is not None and operation not in allowed:
                yield name


def _create_findings(settings: Settings) -> Iterator[Finding]:
    """Why the broker would not make one more topic as tables have them; none where it would."""
    spec = data_topic_spec(settings, data_topic(settings.name, "walbridge", "check"), has_key=True)
    admin = admin_client(settings)  # held: its answers are lost with it
    tried = admin.create_topics([new_topic(settings, spec)], validate_only=True, request_timeout=REQUEST_TIMEOUT_S)
    try:
        tried[spec.name].result()
    except KafkaException as failure:
        reason: KafkaError = failure.args[0]
        if reason.retriable():
            raise
        text = f"a topic for a table that comes could not be made: {reason.str()}"
        grant = f"grant Create on topics {settings.name}.* to walbridge's principal"
        others = "or mend [topics]; or make the topic by hand before the table comes"
        if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            yield warning(AREA, text, f"{grant}: walbridge init --acls prints the command; {others}")


def _id_findings(settings: Settings) -> Iterator[Finding]:
    """Why this login may not open transactions, or that nobody said so; none where it may."""
    asking = {
        "transactional.id": f"{settings.name}/check",
        "transaction.timeout.ms": TOO_LONG_MS,
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    with refusing_properties(settings):
        client = Producer(client_config(settings) | asking, logger=_SILENT)
    try:
        client.init_transactions(OPEN_S)
    except KafkaException as failure:
        reason: KafkaError = failure.args[0]
        if reason.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            text = f"Kafka refuses transactional ids {settings.name}/*: {reason.str()}"
            grant = f"grant Write on transactional ids {settings.name}/* to walbridge's principal"
            yield error(AREA, text, f"{grant}: walbridge init --acls prints the command")
        elif reason.code() != KafkaError.INVALID_TRANSACTION_TIMEOUT:
            is_late = reason.code() == KafkaError._TIMED_OUT
            why = f"Kafka gave no answer within {OPEN_S:g} s" if is_late else reason.str()
            yield warning(
                AREA,
                f"whether walbridge produce may open transactions is not known: {why}",
                "run walbridge check again; if it comes again, see the broker's log: produce would wait, too",
            )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    return shown if len(names) <= NAMED_MAX else f"{shown} and {len(names) - NAMED_MAX} more"


def _count(topics: Collection[str]) -> str:
    return f"its {len(topics)} topics" if len(topics) > 1 else "its topic"
