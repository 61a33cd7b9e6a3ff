"""What only an operator can mend of a table or its topic: exit code 2, what and how in one clear message."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.faults.one_table import make_table
from tests.fix_producer import ProducerUnderTest, refusal_of
from walbridge.schemas.topics import cuts_topic, progress_topic

pytestmark = pytest.mark.fault


def test_topic_with_other_settings_is_refused(producer: ProducerUnderTest) -> None:
    make_table(producer)
    producer.publish("t")
    admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
    name = cuts_topic(producer.name)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    assert f"topic {name} has 2 partitions, it must have 1" in producer.refusal()
    other = replace_name(producer)
    # The broker's defaults are not what progress must have.
    admin.create_topics([NewTopic(progress_topic(other), 1, 1)])[progress_topic(other)].result(60)
    words = producer.refusal()
    assert "cleanup.policy" in words
    assert "kafka-configs.sh --alter" in words


def replace_name(producer: ProducerUnderTest) -> str:
    """Another pipeline name for the same test."""
    producer.name += "b"
    return producer.name


def test_row_larger_than_allowed_is_refused_and_named_by_table_key_columns_and_place(
    producer: ProducerUnderTest,
) -> None:
    """I7, I10: what the operator needs to find it, and nothing that stands in it."""
    producer.database.execute('CREATE TABLE t (id int, "Part" text, v text, PRIMARY KEY (id, "Part"))')
    producer.publish("t")
    producer.settings["producer"] = {"row_bytes_max": 100_000, "on_table_error": "stop"}
    running = producer.start_streaming()
    # Rows are queued one behind: the one named must not be the next one.
    producer.database.execute(
        "INSERT INTO t VALUES (1, 'p', ''), (4242424, 'qq', repeat('x', 1000000)), (2, 'p', ''), (3, 'p', '')"
    )
    words = refusal_of(running)
    assert "a row of table public.t (key: id, Part) takes 1,000," in words
    assert ", ordinal 1: [producer] row_bytes_max is 100,000" in words
    assert not [value for value in ("xxxx", "4242424", "qq") if value in words]
    query = words[words.index("SELECT") :].splitlines()[0]
    assert producer.database.rows(query) == [(4242424, "qq")]
    producer.settings["producer"]["row_bytes_max"] = 10_000_000
    producer.start_streaming()
    producer.check_equal()
