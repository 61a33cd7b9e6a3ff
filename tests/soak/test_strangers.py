"""Readers that know nothing of walbridge but its documents end equal to the source after ten thousand random changes.

Kafka Connect is in ``tests/connect``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.confluent_reader import ConfluentReader
from tests.conformance import record
from tests.conformance.strangers import of_strangers, read_by_a_stranger
from tests.faults.seed import fault_seed
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.random_changes import TABLE, RandomChanges
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.registry import SchemaRegistry
from walbridge.schemas.topics import data_topic

pytestmark = [pytest.mark.soak, pytest.mark.servers]
CHANGES, ROUNDS = 10_000, 10


def changed(producer: ProducerUnderTest) -> RandomChanges:
    """All of it is in the topics, and the producer has stopped; it was killed on the way."""
    producer.database.execute(TABLE)
    producer.publish("orders")
    producer.settings.setdefault("topics", {})["partitions"] = 2
    running = producer.start_streaming()
    changes = RandomChanges(producer.database, fault_seed())
    for number in range(ROUNDS):
        changes.make(CHANGES // ROUNDS)
        if number in (0, 3, 7):
            changes.alter()
        if number in (2, 5):
            changes.truncate()
        if number == ROUNDS // 2:
            running.kill()
            running = producer.start_streaming()
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    return changes


def test_avro_deserializer_ends_equal(producer: ProducerUnderTest, registry: SchemaRegistry) -> None:
    producer.settings["topics"] = {"registry_url": registry.url}
    changes = changed(producer)

    reader = ConfluentReader(
        producer.kafka.bootstrap_servers, registry.url, data_topic(producer.name, "public", "orders")
    )
    rows = reader.rows().values()
    reader.close()

    there = sorted(tuple(row.get(name) for name in changes.columns) for row in rows)
    assert there == producer.database.rows(f"SELECT {', '.join(changes.columns)} FROM orders ORDER BY id")


@pytest.fixture(scope="module")
def recorded(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The topics as a broker held them, and the table as Postgres prints it."""
    folder = tmp_path_factory.mktemp("recorded")
    with KafkaBroker() as broker, new_database(postgres) as database:
        producer = ProducerUnderTest("shop", database, broker, folder, as_command=True)
        try:
            changed(producer)
            record.write(folder, producer, ["public.orders"])
        finally:
            producer.kill_all()
    return folder


@of_strangers
def test_readers_in_other_languages_end_equal(reader: list[str], recorded: Path) -> None:
    done = read_by_a_stranger(reader, recorded)

    assert done.returncode == 0, done.stderr[-3000:]
