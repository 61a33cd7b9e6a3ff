"""What a broker answers about topics, sorted by who must act; and what an operator may not set."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource

from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka import control_topics, partition_log, topics
from walbridge.producer.kafka.client_config import client_config
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.partition_log import SILENCE_S, PartitionLog
from walbridge.producer.kafka.topic_specs import TopicSpec, data_topic_spec, status_topic_spec
from walbridge.producer.kafka.topic_specs import control_topics as all_control_topics
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.errors import KafkaAway, KafkaRefuses, OperatorError
from walbridge.schemas.settings import Settings

SPEC = TopicSpec("p.cuts", 1, {"cleanup.policy": "delete"})
NOT_ALLOWED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
NOT_THERE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
OTHER_LEADER = KafkaError(KafkaError.FENCED_LEADER_EPOCH)


def settings(**client: str) -> Settings:
    return Settings.model_validate({"name": "p", "kafka": {"bootstrap_servers": "127.0.0.1:1", "client": client}})


class Answer:
    """A future that fails."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def result(self, timeout_s: float) -> Any:
        raise KafkaException(self._error)


def admin_that_answers(error: KafkaError) -> TopicAdmin:
    """A client to which every request about a topic comes back with this error."""

    def failed(asked: Any, **_: object) -> dict[Any, Answer]:
        names = [getattr(each, "topic", each) for each in asked] if isinstance(asked, list) else asked.topic_names
        return {name: Answer(error) for name in names}

    client = SimpleNamespace(describe_topics=failed, describe_configs=failed, create_topics=failed)
    return admin_of(client)


def admin_of(client: object, *, alters: bool = True) -> TopicAdmin:
    """One that asks this client."""
    admin = TopicAdmin(settings(), alters=alters)
    admin._admin = admin.settings_of_topics._admin = cast(Any, client)
    return admin


def only(topics: set[str]) -> Callable[..., dict[str, Any]]:
    """Describes these topics, as they are then."""
    there = SimpleNamespace(result=lambda timeout_s: SimpleNamespace(partitions=[None]))

    def described(asked: Any, **_: object) -> dict[str, Any]:
        return {name: there if name in topics else Answer(NOT_THERE) for name in asked.topic_names}

    return described


class Broker:
    """Topics with these settings; every change comes back with this error, if there is one."""

    def __init__(self, found: dict[str, str], refusal: KafkaError | None = None) -> None:
        self.found, self.refusal = found, refusal
        self.altered: list[tuple[str, str, str]] = []

    def describe_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        entries = {name: SimpleNamespace(value=value) for name, value in self.found.items()}
        return {each: SimpleNamespace(result=lambda timeout_s: entries) for each in asked}

    def incremental_alter_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        for each in asked:
            self.altered += [(each.name, entry.name, entry.value) for entry in each.incremental_configs]
        answer = Answer(self.refusal) if self.refusal else SimpleNamespace(result=lambda timeout_s: None)
        return dict.fromkeys(asked, answer)


@pytest.mark.parametrize(
    ("segment_ms", "altered"), [("604800000", True), ("14400001", True), ("14400000", False), ("3600000", False)]
)
@pytest.mark.parametrize("refusal", [None, NOT_ALLOWED, KafkaError(KafkaError._TIMED_OUT)], ids=str)
def test_status_topic_that_is_compacted_late_is_altered_if_that_is_allowed_and_stops_nobody(
    segment_ms: str, altered: bool, refusal: KafkaError | None
) -> None:
    """Else a running producer's records hide how a program ended after half a day."""
    spec = status_topic_spec(settings())
    broker = Broker(dict(spec.config) | {"segment.ms": segment_ms}, refusal)
    admin_of(broker).check([spec])

    assert broker.altered == ([("p.status", "segment.ms", "14400000")] if altered else [])


def test_right_that_is_missing_is_the_operators_and_no_broker_that_is_away() -> None:
    admin = admin_that_answers(NOT_ALLOWED)

    for ask in (lambda: admin.describe(["p.cuts"]).found(), lambda: admin.check([SPEC])):
        with pytest.raises(OperatorError) as refused:
            ask()
        assert refused.value.remedy.startswith("grant Describe and DescribeConfigs")


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN])
def test_broker_that_leaves_in_between_is_away(code: int) -> None:
    admin = admin_that_answers(KafkaError(code))

    for ask in (lambda: admin.describe(["p.cuts"]).found(), lambda: admin.check([SPEC])):
        with pytest.raises(KafkaAway):
            ask()


@pytest.mark.parametrize(("partitions", "at_once"), [(1, 333), (10, 83), (2_000, 1)])
def test_many_topics_are_made_in_several_requests(partitions: int, at_once: int) -> None:
    """A controller refuses to make more than so much at once."""
    admin = admin_that_answers(NOT_ALLOWED)
    requests: list[list[str]] = []
    known: set[str] = set()

    def made(topics: list[Any], **_: object) -> dict[str, Any]:
        requests.append([topic.topic for topic in topics])
        known.update(topic.topic for topic in topics)
        return {topic.topic: SimpleNamespace(result=lambda timeout_s: None) for topic in topics}

    cast(Any, admin._admin).create_topics = made
    cast(Any, admin._admin).describe_topics = only(known)
    names = [f"p.t{n}" for n in range(700)]
    admin.ensure(TopicSpec(name, partitions, {"cleanup.policy": "delete"}) for name in names)

    assert [name for request in requests for name in request] == names
    assert {len(request) for request in requests[:-1]} == {at_once}


def test_topic_that_somebody_made_between_look_and_making_is_looked_at() -> None:
    """I3: it may have another number of partitions."""
    admin = admin_that_answers(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS))
    cast(Any, admin._admin).describe_topics = only(set())
    with pytest.raises(KafkaAway, match=r"p\.cuts was made by somebody else just now"):
        admin.ensure([SPEC])


def test_topics_are_asked_for_by_name_whatever_else_the_broker_has() -> None:
    """A list of all takes a busy cluster, and us, megabytes for each answer."""
    admin = admin_that_answers(NOT_ALLOWED)
    cast(Any, admin._admin).describe_topics = only({"p.cuts", "p.other"})

    assert admin.partition_counts_of(["p.cuts", "p.gone"]) == {"p.cuts": 1}
    assert admin.partition_counts_of([]) == {}


def test_topic_that_we_may_not_see_is_told_when_it_is_made() -> None:
    """Whether it is there is known then, and which right is missing."""
    assert admin_that_answers(NOT_ALLOWED).partition_counts_of(["p.cuts"]) == {}


@pytest.mark.parametrize(
    "name",
    [
        "partitioner",
        "transactional.id",
        "transaction.timeout.ms",
        "acks",
        "request.required.acks",
        "enable.idempotence",
    ],
)
def test_property_on_which_exactly_once_and_order_rest_is_not_taken(name: str) -> None:
    """I3, I4."""
    with pytest.raises(OperatorError, match=name) as refused:
        client_config(settings(**{name: "1"}))
    assert refused.value.remedy == "leave it out of [kafka.client]: walbridge sets it"


@pytest.mark.parametrize(
    "name", ["stats_cb", "error_cb", "logger", "default.topic.config", "delivery.report.only.error"]
)
def test_property_that_only_a_program_can_set_is_the_operators_mistake(name: str) -> None:
    with pytest.raises(OperatorError, match=f"has {name}, which only a program can set"):
        client_config(settings(**{name: "1"}))


def test_partition_of_which_only_faults_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(partition_log, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    fault = SimpleNamespace(error=lambda: KafkaError(KafkaError._TRANSPORT), offset=lambda: None)
    with PartitionLog(settings(), "p.cuts", 0) as log:
        log._consumer.close()
        log._consumer = cast(Any, SimpleNamespace(assign=lambda _: None, poll=lambda _: fault, close=lambda: None))
        log._is_leader_known = True
        with pytest.raises(KafkaAway, match=f"no answer within {SILENCE_S:g} s"):
            list(log.read(0))


def test_metadata_whose_topic_is_gone_ends_the_session_and_not_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next session says by its guards that the topic was deleted."""

    class Refusing:
        def __init__(self, client: object) -> None:
            """As ``Instance``."""

        def produce(self, *_: object, **__: object) -> None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))

    monkeypatch.setattr(control_topics, "Instance", Refusing)
    writer = MetadataWriter(settings(), lambda: None, 0)
    record = SimpleNamespace(key=b"k")
    monkeypatch.setattr(control_topics, "encode_metadata", lambda _: b"v")

    with pytest.raises(KafkaAway, match="metadata was not written"):
        writer.write([cast(Any, record)])


def test_metadata_that_is_acknowledged_without_an_offset_is_not_taken_for_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I2, confluent-kafka-go#921: the client holds it for written, and the broker may not have it."""

    class Acknowledging:
        def __init__(self, client: object) -> None:
            """As ``Instance``."""

        def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
            on_delivery(None, SimpleNamespace(offset=lambda: None))

        def flush(self, timeout_s: float) -> int:
            return 0

    monkeypatch.setattr(control_topics, "Instance", Acknowledging)
    monkeypatch.setattr(control_topics, "encode_metadata", lambda _: b"v")

    with pytest.raises(KafkaAway, match="acknowledged without an offset"):
        MetadataWriter(settings(), lambda: None, 0).write([cast(Any, SimpleNamespace(key=b"k"))])


def test_property_that_only_a_producer_refuses_is_the_operators_when_metadata_is_written() -> None:
    writer = MetadataWriter(settings(**{"linger.ms": "1000000000"}), lambda: None, 0)

    with pytest.raises(OperatorError, match=r"\[kafka\.client\] is not accepted"):
        writer.write([])


def test_many_metadata_records_are_all_written_and_wait_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """I2, I9: hundreds are acknowledged together, and never all of a large database."""
    written: list[bytes] = []
    portions: list[int] = []

    class Taking:
        def __init__(self, client: object) -> None:
            """As ``Instance``."""

        def produce(self, topic: str, value: bytes, key: bytes, **_: object) -> None:
            written.append(key)

        def flush(self, timeout_s: float) -> int:
            portions.append(len(written) - sum(portions))
            return 0

    monkeypatch.setattr(control_topics, "Instance", Taking)
    monkeypatch.setattr(control_topics, "encode_metadata", lambda _: b"v")
    keys = [f"k{n}".encode() for n in range(450)]

    MetadataWriter(settings(), lambda: None, 0).write([cast(Any, SimpleNamespace(key=key)) for key in keys])

    assert (written, portions) == (keys, [200, 200, 50])


@pytest.mark.parametrize(
    ("heard", "kind"),
    [
        (KafkaError(KafkaError._SSL, "SSL handshake failed: certificate verify failed"), KafkaRefuses),
        (KafkaError(KafkaError._TRANSPORT, "error:0A000086:SSL routines::certificate verify failed"), KafkaRefuses),
        (KafkaError(KafkaError._TRANSPORT, "error:0A000126:SSL routines::unexpected eof while reading"), KafkaAway),
        (KafkaError(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:1 failed: Connection refused"), KafkaAway),
    ],
    ids=["ssl", "ssl told as transport", "gone within the handshake", "nobody listens"],
)
def test_broker_that_is_not_trusted_is_told_as_such_with_whatever_code_the_client_says_it(
    heard: KafkaError, kind: type[KafkaAway]
) -> None:
    """librdkafka raises a certificate that fails as either, by the moment at which it sees it."""
    admin = TopicAdmin(settings())

    def silent(*_: object, **__: object) -> None:
        admin._hear(heard)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    admin._admin = cast("Any", SimpleNamespace(describe_topics=silent, poll=lambda _: admin._hear(heard)))
    with pytest.raises(KafkaAway) as raised:
        admin.partition_counts_of(["p.cuts"])

    assert type(raised.value) is kind


@pytest.mark.parametrize(("alters", "times"), [(False, 1), (True, 2)])
def test_settings_of_a_topic_are_asked_for_once_by_a_look_that_alters_nothing(alters: bool, times: int) -> None:
    """Whoever alters some of them compares them with what they are by then."""
    asked: list[str] = []
    found: Future[dict[str, Any]] = Future()
    found.set_result({})

    def described(resources: list[ConfigResource], **_: object) -> dict[ConfigResource, Future[dict[str, Any]]]:
        asked.extend(each.name for each in resources)
        return dict.fromkeys(resources, found)

    admin = admin_of(SimpleNamespace(describe_configs=described), alters=alters)
    for _ in range(2):
        admin.check([SPEC, TopicSpec("p.other", 1, {})])

    assert asked == ["p.cuts", "p.other"] * times


def test_topics_take_records_of_a_machine_whose_clock_is_ahead(kafka: KafkaBroker, pipeline_name: str) -> None:
    """Else nothing would be published for as long."""
    shop = Settings.model_validate({"name": pipeline_name, "kafka": {"bootstrap_servers": kafka.bootstrap_servers}})
    specs = [
        *all_control_topics(shop),
        status_topic_spec(shop),
        data_topic_spec(shop, f"{pipeline_name}.s.t", has_key=True),
    ]
    TopicAdmin(shop).ensure(specs)
    refused: list[KafkaError | None] = []
    client = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for spec in specs:
        day_ahead_ms = int((time.time() + 86_400) * 1000)
        client.produce(
            spec.name, b"v", b"k", timestamp=day_ahead_ms, on_delivery=lambda error, _: refused.append(error)
        )

    assert client.flush(60) == 0
    assert refused == [None] * len(specs)


def ends_told(monkeypatch: pytest.MonkeyPatch, *told: int) -> TopicAdmin:
    """Of a client that tells these ends of each partition, one after the other; the last one again and again."""
    monkeypatch.setattr(topics, "SHORTER_AFTER_S", 0.2)
    monkeypatch.setattr(topics, "_LOOK_S", 0.0)
    left = [*told]

    def list_offsets(asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        end = left.pop(0) if len(left) > 1 else left[0]
        return {each: SimpleNamespace(result=lambda timeout_s: SimpleNamespace(offset=end)) for each in asked}

    return admin_of(SimpleNamespace(list_offsets=list_offsets))


def test_topic_that_ends_before_what_was_published_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = ends_told(monkeypatch, 9)

    assert admin.cut_short({("p.public.t", 0): 10, ("p.public.u", 1): 9}) == {"p.public.t"}


def test_topic_is_waited_for_whose_new_leader_does_not_know_its_end_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = ends_told(monkeypatch, 3, 7, 10)

    assert admin.cut_short({("p.public.t", 0): 10}) == set()


@pytest.mark.parametrize(
    ("error", "raised"), [(NOT_ALLOWED, OperatorError), (NOT_THERE, None), (OTHER_LEADER, KafkaAway)]
)
def test_topic_whose_end_is_not_told_is_no_shorter_one(error: KafkaError, raised: type[Exception] | None) -> None:
    """One that is gone is told as such by its description."""
    admin = admin_of(SimpleNamespace(list_offsets=lambda asked, **_: {each: Answer(error) for each in asked}))

    if raised is None:
        assert admin.cut_short({("p.public.t", 0): 10}) == set()
    else:
        with pytest.raises(raised, match=r"p\.public\.t"):
            admin.cut_short({("p.public.t", 0): 10})
