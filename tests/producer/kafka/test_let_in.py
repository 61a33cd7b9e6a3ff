"""A broker that wants a password and gives rights: what is wrong is told by its name, and what mends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.connection import NoAnswer, retry_at_start
from walbridge.schemas.errors import KafkaAway, KafkaRefuses, OperatorError
from walbridge.schemas.settings import Settings

pytestmark = pytest.mark.servers  # a broker of its own

USERS = " ".join(f'user_{name}="{name}"' for name in ("admin", "reader"))
LOGIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required username=admin password=admin {USERS};"
STRICT = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def strict() -> Iterator[KafkaBroker]:
    with KafkaBroker(STRICT) as broker:
        yield broker


def client(user: str, password: str) -> dict[str, str]:
    login = {"sasl.username": user, "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **login}


def settings(broker: KafkaBroker, properties: dict[str, str]) -> Settings:
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "client": properties}
    return Settings.model_validate({"name": "p", "kafka": kafka})


@pytest.mark.variant(of="test_who_is_not_trusted_or_not_let_in_is_named_with_the_setting_that_mends_it")
def test_wrong_password_is_told_as_such_and_not_as_a_broker_that_is_away(strict: KafkaBroker) -> None:
    admin = TopicAdmin(settings(strict, client("reader", "hunter2")))

    with pytest.raises(KafkaRefuses, match="Invalid username or password") as refused:
        admin.partition_counts()
    assert "hunter2" not in str(refused.value)  # I10
    with pytest.raises(OperatorError, match="does not let walbridge in") as told:
        retry_at_start(admin.partition_counts, timeout_s=0)
    assert not isinstance(told.value, NoAnswer)
    assert "[kafka.client]" in told.value.remedy


@pytest.mark.parametrize(
    ("properties", "words"), [({}, "cannot be reached"), ({"security.protocol": "ssl"}, "SSL handshake failed")]
)
def test_client_of_another_protocol_is_told_what_the_client_was_told(
    strict: KafkaBroker, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaAway, match=words):
        TopicAdmin(settings(strict, properties)).partition_counts()


def test_topic_that_may_not_be_read_is_the_operators_with_the_rights_that_are_missing(strict: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": strict.bootstrap_servers, **client("admin", "admin")})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
    describe = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([describe])[describe].result(60)
    reader = settings(strict, client("reader", "reader"))
    wait_until(lambda: "t" in TopicAdmin(reader).partition_counts(), "the topic to be seen")

    with PartitionLog(reader, "t", 0) as log, pytest.raises(OperatorError, match="topic t may not be read") as told:
        list(log.read(0))

    assert told.value.remedy == "let walbridge's principal READ and DESCRIBE topic t, and READ group walbridge-p-look"


def test_property_that_only_a_consumer_refuses_is_named() -> None:
    wrong = Settings.model_validate({"kafka": {"client": {"receive.message.max.bytes": "1000000"}}})
    TopicAdmin(wrong)

    with pytest.raises(OperatorError, match=r"\[kafka\.client\] is not accepted: .*receive\.message\.max\.bytes"):
        PartitionLog(wrong, "t", 0)
