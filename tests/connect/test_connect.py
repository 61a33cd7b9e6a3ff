"""Kafka Connect as a process of its own keeps another database equal to the source, with the settings of its page.

Nothing of walbridge takes part behind the topics: Connect's runtime, Apicurio's converter, Debezium's transform and its
JDBC sink. The settings are those of ``docs/connect.md``, word for word but for addresses and names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.connect.worker import ConnectWorker
from tests.documents import PAGES, blocks
from tests.faults.seed import fault_seed
from tests.fix_postgres import Database, new_database
from tests.fix_producer import ProducerUnderTest
from tests.random_changes import TABLE, RandomChanges
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.registry import SchemaRegistry
from walbridge.schemas.topics import data_topic

pytestmark = [pytest.mark.soak, pytest.mark.servers]
PAGE = PAGES["docs/connect.md"]
CHANGES, ROUNDS = 10_000, 10
EQUAL_S = 180.0


def block(beginning: str) -> str:
    """Of the page."""
    (found,) = (each for each in blocks(PAGE) if each.startswith(beginning))
    return found


def worker_properties(producer: ProducerUnderTest, registry: SchemaRegistry) -> dict[str, str]:
    text = block("bootstrap.servers")
    text = replaced(text, "127.0.0.1:9092", producer.kafka.bootstrap_servers)
    text = replaced(text, "127.0.0.1:8081", f"{registry.host}:{registry.port}")
    return dict(line.split("=", 1) for line in text.splitlines())


def replaced(text: str, example: str, ours: str) -> str:
    assert example in text
    return text.replace(example, ours)


def connector(producer: ProducerUnderTest, target: Database) -> dict[str, Any]:
    server = target.server
    text = block("{")
    text = replaced(text, "127.0.0.1:5432/target", f"{server.host}:{server.port}/{target.name}")
    text = replaced(text, "shop.public.orders", data_topic(producer.name, "public", "orders"))
    found = json.loads(text)
    found["config"] |= {"connection.username": "postgres", "connection.password": ""}
    return found  # type: ignore[no-any-return]


@pytest.fixture
def target(postgres: PostgresServer) -> Iterator[Database]:
    with new_database(postgres) as made:
        yield made


def test_sink_ends_equal_to_the_source_after_ten_thousand_random_changes(
    producer: ProducerUnderTest, registry: SchemaRegistry, target: Database
) -> None:
    """Deletes, changes of keys, truncates, columns that come and go, a precision, a producer that is killed."""
    source = producer.database
    source.execute(f"{TABLE}; ALTER TABLE orders REPLICA IDENTITY FULL")  # for values that are stored out of line
    producer.publish("orders")
    settings = re.search(r'format = "(\w+)"', block("[topics]"))
    assert settings is not None
    producer.settings["topics"] = {"format": settings[1], "registry_url": registry.url}
    running = producer.start_streaming()
    changes = RandomChanges(source, fault_seed())
    target.execute(block("CREATE TABLE"))
    with ConnectWorker(worker_properties(producer, registry)) as worker:
        wanted = connector(producer, target)
        worker.add(wanted)
        for number in range(ROUNDS):
            changes.make(CHANGES // ROUNDS)
            if number in (0, 3, 7):
                changes.alter()
            if number in (2, 5):
                changes.truncate()
            if number == 1:
                changes.widen()
            if number == ROUNDS // 2:
                running.kill()
                running = producer.start_streaming()
        wait_until(lambda: is_equal(worker, wanted["name"], changes, target), "an equal target", EQUAL_S, 0.5)
        check_differences(worker, wanted["name"], source, target)
    running.stop()


def is_equal(worker: ConnectWorker, name: str, changes: RandomChanges, target: Database) -> bool:
    worker.check_running(name)
    there = target.rows("SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass")
    if not {name for (name,) in there} >= {*changes.columns}:
        return False
    of_source = ["(extract(epoch FROM at) * 1000000)::bigint" if each == "at" else each for each in changes.columns]
    there = target.rows(f"SELECT {', '.join(changes.columns)} FROM orders ORDER BY id")
    return there == changes.database.rows(f"SELECT {', '.join(of_source)} FROM orders ORDER BY id")


def check_differences(worker: ConnectWorker, name: str, source: Database, target: Database) -> None:
    """What the page says to be not the same."""
    source.execute("INSERT INTO orders (id, price, due, big) VALUES (-1, 'NaN', 'infinity', repeat('x', 2100))")
    source.execute("ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    source.execute("INSERT INTO orders (id, big) VALUES (-2, repeat('x', 2100))")
    source.execute("UPDATE orders SET paid = true WHERE id = -2")

    def rows() -> list[tuple[Any, ...]]:
        worker.check_running(name)
        return target.rows("SELECT id, price, due, length(big), paid FROM orders WHERE id < 0 ORDER BY id DESC")

    there = [(-1, None, None, 2100, None), (-2, None, None, None, True)]
    wait_until(lambda: rows() == there, f"rows {there}", EQUAL_S, 0.5)
    gone = source.rows("SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attisdropped")
    assert gone
    assert target.value("SELECT count(*) FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'extra_1'")
