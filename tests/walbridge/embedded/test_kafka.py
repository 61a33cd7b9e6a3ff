from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import OperatorError


def make_topic(broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def send_transaction(broker: KafkaBroker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.commit_transaction(30)


def read_one(broker: KafkaBroker, topic: str) -> bytes:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    messages = []

    def received() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            messages.append(message)
        return bool(messages)

    try:
        wait_until(received, "a message")
        value = messages[0].value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def test_committed_transaction_is_read_back(kafka: KafkaBroker, pipeline_name: str) -> None:
    make_topic(kafka, pipeline_name)
    send_transaction(kafka, pipeline_name, b"x")

    assert read_one(kafka, pipeline_name) == b"x"


def test_no_topic_is_made_by_naming_it(kafka: KafkaBroker, pipeline_name: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    producer.list_topics(pipeline_name, timeout=60)

    error = producer.list_topics(pipeline_name, timeout=60).topics[pipeline_name].error
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.servers
@pytest.mark.soak
def test_committed_messages_outlive_a_kill_and_the_port_stays(pipeline_name: str) -> None:
    with KafkaBroker() as broker:
        before = broker.bootstrap_servers
        make_topic(broker, pipeline_name)
        send_transaction(broker, pipeline_name, b"x")
        broker.kill()
        broker.start()

        assert read_one(broker, pipeline_name) == b"x"
        assert broker.bootstrap_servers == before


@pytest.mark.servers
def test_broker_that_fails_to_start_shows_its_log_and_leaves_nothing() -> None:
    broker = KafkaBroker({"process.roles": "nonsense"})
    folder = broker.data.parent

    with pytest.raises(OperatorError, match=r"its log ends:[\s\S]*process\.roles"), broker:
        pass
    assert not folder.exists()
