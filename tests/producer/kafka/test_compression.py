"""``topics.compression`` on a real broker: what the client says of its batches, and what they unpack to."""

from __future__ import annotations

import logging
import re
from contextlib import closing
from typing import Any, get_args

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.topic_reader import TopicReader
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka.client_config import transactional_config
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Compression
from walbridge.spark_consumer.kafka.kafka_client import FETCH_BYTES

WAIT_S = 60
UNPACKED_BYTES_MAX = 32 * 2**20
_SENT = re.compile(r"Produce MessageSet with (\d+) message\(s\) \((\d+) bytes.*, (\w+)\)")


class Sent(logging.Handler):
    """The batches that librdkafka says it sent: records, bytes on the wire, compression."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if found := _SENT.search(record.getMessage()):
            self.batches.append((int(found[1]), int(found[2]), found[3]))


@pytest.mark.parametrize("compression", get_args(Compression))
def test_batches_are_compressed_as_set_and_read_back_and_fit_the_heap_of_the_job(
    kafka: KafkaBroker, pipeline_name: str, compression: Compression
) -> None:
    """I9: rows that compress as well as any do not unpack to more than one row may have."""
    settings = Settings.model_validate(
        {
            "name": pipeline_name,
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
            "topics": {"compression": compression},
        }
    )
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(pipeline_name, 1, 1)])[pipeline_name].result(WAIT_S)
    values = [b"x" * 90_000 for _ in range(40)]

    sent = _publish(transactional_config(settings, pipeline_name), pipeline_name, values)

    assert {name for *_, name in sent} == {"uncompressed" if compression == "none" else compression}
    with closing(TopicReader(kafka.bootstrap_servers, pipeline_name)) as reader:
        assert [message.value() for message in reader.read_to_end()] == values
    smallest = min(sent, key=lambda batch: batch[1] / batch[0])
    in_an_answer = max(1, FETCH_BYTES[compression] // smallest[1])
    assert in_an_answer * smallest[0] * 90_000 <= UNPACKED_BYTES_MAX


def _publish(config: dict[str, Any], topic: str, values: list[bytes]) -> list[tuple[int, int, str]]:
    handler, logger = Sent(), logging.Logger("librdkafka")
    logger.addHandler(handler)
    producer = Producer(config | {"debug": "msg", "log_level": 7}, logger=logger)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(WAIT_S)
    producer.poll(0)  # serves the log
    return handler.batches
