"""Readers that know nothing of walbridge but its documents end equal to the source after ten thousand random changes.

Kafka Connect is in ``tests/connect``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.confluent_reader import ConfluentReader
from tests.conformance import record
from tests.conformance.recorded import PIPELINE
from tests.conformance.strangers import needs_go, of_strangers, read_by_a_stranger, received_by_a_client_in_go
from tests.faults.seed import fault_seed
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.json_reader import JsonReader
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
    of_source = [f"{each}::text" if each in ("ref", "doc") else each for each in changes.columns]
    assert there == producer.database.rows(f"SELECT {', '.join(of_source)} FROM orders ORDER BY id")


IN_JSON = {
    "price": "price::text",
    "due": "due - date '1970-01-01'",
    "at": "(extract(epoch FROM at) * 1000000)::bigint",
    "raw": "replace(encode(raw, 'base64'), chr(10), '')",
    "doc": "doc::text",
}
"""As the page of types says that values are written."""


def test_reader_of_json_ends_equal(producer: ProducerUnderTest) -> None:
    producer.settings["topics"] = {"format": "json"}
    changes = changed(producer)

    reader = JsonReader(producer.kafka.bootstrap_servers, data_topic(producer.name, "public", "orders"))
    rows = sorted(reader.rows(), key=lambda row: row["id"])
    reader.close()

    of_source = ", ".join(f"'{each}', {IN_JSON.get(each, each)}" for each in changes.columns)
    wanted = producer.database.rows(f"SELECT json_build_object({of_source}) FROM orders ORDER BY id")
    assert [{name: row.get(name) for name in changes.columns} for row in rows] == [row for (row,) in wanted]
    assert rows


@dataclass(frozen=True)
class Recorded:
    """``folder`` holds the topics as our client gets them, and the table as Postgres prints it."""

    folder: Path
    bootstrap_servers: str


@pytest.fixture(scope="module", params=["single-object", "json"])
def recorded(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Recorded]:
    """Topics of ten thousand changes, on a broker that runs."""
    folder = tmp_path_factory.mktemp("recorded")
    with KafkaBroker() as broker, new_database(postgres) as database:
        producer = ProducerUnderTest(PIPELINE, database, broker, folder, as_command=True)
        producer.settings["topics"] = {"format": request.param}
        try:
            changed(producer)
            record.write(folder, producer, ["public.orders"])
        finally:
            producer.kill_all()
        yield Recorded(folder, broker.bootstrap_servers)


@of_strangers
def test_readers_in_other_languages_end_equal(reader: list[str], recorded: Recorded) -> None:
    done = read_by_a_stranger(reader, recorded.folder)

    assert done.returncode == 0, done.stderr[-3000:]


@needs_go
def test_client_in_go_gets_the_very_records_that_these_readers_read(recorded: Recorded) -> None:
    """From the broker, ``read_committed``: so from Kafka to the table nothing of walbridge need take part."""
    wanted = [json.loads(line) for line in (recorded.folder / "records.jsonl").read_text().splitlines()]

    found = received_by_a_client_in_go(recorded.bootstrap_servers, PIPELINE)

    assert sorted(found, key=place) == sorted(wanted, key=place)


def place(line: dict[str, Any]) -> tuple[str, int, int]:
    return line["topic"], line["partition"], line["offset"]
