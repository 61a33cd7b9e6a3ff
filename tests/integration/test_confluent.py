"""Confluent's wire format, read by Confluent's own library from the broker and the registry alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.confluent_reader import ConfluentReader
from tests.faults.followed import settings_of
from tests.faults.kill_points import REGISTRY
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.embedded.registry import SchemaRegistry
from walbridge.producer.registry.client import Registry
from walbridge.schemas.topics import data_topic
from walbridge.tables.copy import copy

Reader = Callable[[str], ConfluentReader]


@pytest.fixture
def framed(producer: ProducerUnderTest, registry: SchemaRegistry) -> ProducerUnderTest:
    """A pipeline of ``orders`` with a registry."""
    producer.database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, price numeric(10, 2), note text, at timestamptz, tags text[]);"
        "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;"
        "INSERT INTO orders SELECT i, i / 3.0, repeat('x', 3000), 'epoch', '{a,b}' FROM generate_series(1, 20) i"
    )
    producer.publish("orders")
    producer.settings["topics"] = {"registry_url": registry.url, "partitions": 2}
    return producer


@pytest.fixture
def reader(framed: ProducerUnderTest, registry: SchemaRegistry) -> Iterator[Reader]:
    made: list[ConfluentReader] = []

    def of(topic: str) -> ConfluentReader:
        made.append(ConfluentReader(framed.kafka.bootstrap_servers, registry.url, topic))
        return made[-1]

    yield of
    for each in made:
        each.close()


def orders(producer: ProducerUnderTest, suffix: str = "") -> str:
    return data_topic(producer.name, "public", "orders") + suffix


def source(producer: ProducerUnderTest, *columns: str) -> list[tuple[object, ...]]:
    return sorted(producer.database.rows(f"SELECT {', '.join(columns)} FROM orders"))


def test_avro_deserializer_reads_every_kind_of_change_and_a_new_column(
    framed: ProducerUnderTest, reader: Reader
) -> None:
    execute = framed.database.execute
    framed.start_streaming()
    execute("UPDATE orders SET price = price + 1 WHERE id % 2 = 0")
    execute("DELETE FROM orders WHERE id = 3; UPDATE orders SET id = -id WHERE id = 4")
    execute("ALTER TABLE orders ADD weight double precision; INSERT INTO orders (id, weight) VALUES (100, 0.5)")
    execute("UPDATE orders SET weight = 2 WHERE id = 5")
    framed.check_equal()

    rows = reader(orders(framed)).rows().values()

    columns = ("id", "price", "note", "at", "tags", "weight")
    assert sorted(tuple(row.get(name) for name in columns) for row in rows) == source(framed, *columns)


def test_producer_killed_around_a_registration_keeps_each_schema_at_one_id(
    framed: ProducerUnderTest, registry: SchemaRegistry, reader: Reader
) -> None:
    """I2, I7: what was registered and not written down yet gets the same id again."""
    execute = framed.database.execute
    framed.start_streaming().stop()
    for number, point in enumerate(REGISTRY):
        execute(f"ALTER TABLE orders ADD c{number} int; INSERT INTO orders (id, c{number}) VALUES ({100 + number}, 7)")
        framed.run_until_killed(point)
    framed.start_streaming()
    framed.check_equal()

    columns = ("id", *(f"c{number}" for number in range(len(REGISTRY))))
    rows = reader(orders(framed)).rows().values()
    assert sorted(tuple(row.get(name) for name in columns) for row in rows) == source(framed, *columns)


@pytest.mark.variant(of="test_producer_killed_around_a_registration_keeps_each_schema_at_one_id")
def test_registry_that_is_away_is_needed_for_new_schemas_alone_and_waited_for(
    framed: ProducerUnderTest, registry: SchemaRegistry
) -> None:
    execute = framed.database.execute
    framed.start_streaming().stop()
    registry.stop()
    running = framed.start_streaming()
    execute("UPDATE orders SET price = 0 WHERE id < 5")
    framed.check_equal()

    execute("ALTER TABLE orders ADD weight int; INSERT INTO orders (id, weight) VALUES (100, 7)")
    running.wait_for_log("does not answer")
    registry.start()
    framed.check_equal()
    running.stop()


def test_schema_that_the_registrys_rule_forbids_is_its_tables_trouble_until_the_command_that_allows_it(
    framed: ProducerUnderTest, registry: SchemaRegistry
) -> None:
    """I8: the other tables flow, from the first copy on; where settings say so it stops all."""
    execute = framed.database.execute
    execute("CREATE TABLE items (id int PRIMARY KEY); ALTER PUBLICATION walbridge ADD TABLE items")
    subject = f"{orders(framed)}-value"
    framed.write_settings()
    Registry(settings_of(framed)).register(subject, '"string"')
    allow(registry, subject, "BACKWARD")
    running = framed.start_streaming()
    running.wait_for_log(f"refuses the new schema of subject {subject}")
    allow(registry, subject, "NONE")
    assert copy(settings_of(framed), ["orders"], wait=True, say=print) == 0
    allow(registry, subject, "BACKWARD")
    execute("ALTER TABLE orders ALTER note TYPE int USING id; INSERT INTO orders (id) VALUES (100)")
    wait_until(lambda: running.log.count(f"refuses the new schema of subject {subject}") > 1, "the second refusal")
    execute("INSERT INTO items VALUES (7); INSERT INTO orders (id) VALUES (101)")
    with framed.topics() as topics:
        framed.caught_up(topics)
        assert [row["id"] for row in topics.replay().rows("public", "items")] == [7]
        standing = topics.progress()
    assert standing is not None
    assert sorted(table.state for table in standing.tables.values()) == ["current", "stale"]
    running.wait_for_log(f"{registry.url}/config/{subject}; then walbridge copy public.orders")
    running.stop()

    allow(registry, subject, "NONE")
    running = framed.start_streaming()
    running.wait_for_log("table is copied")
    framed.check_equal()
    running.stop()
    framed.settings["producer"] = {"on_table_error": "stop"}
    allow(registry, subject, "BACKWARD")
    execute("ALTER TABLE orders DROP note; ALTER TABLE orders ADD note boolean; INSERT INTO orders (id) VALUES (102)")
    assert "not compatible" in framed.refusal()


def test_registry_that_was_made_anew_stops_the_producer_before_it_writes(
    framed: ProducerUnderTest, registry: SchemaRegistry
) -> None:
    framed.start_streaming().stop()
    registry.clear()
    registry.start()
    framed.settings["topics"]["registry_url"] = registry.url

    assert "is not the one that this pipeline began with" in framed.refusal()


@pytest.mark.variant(of="test_table_that_cannot_be_compacted_is_refused_until_its_remedy_is_followed")
def test_other_format_in_the_settings_copies_each_table_into_another_topic(
    framed: ProducerUnderTest, registry: SchemaRegistry, reader: Reader
) -> None:
    framed.settings["topics"] = {"partitions": 2}
    framed.start_streaming().stop()
    framed.settings["topics"] = {"partitions": 2, "format": "confluent", "registry_url": registry.url}
    running = framed.start_streaming()
    running.wait_for_log("table is copied")
    framed.database.execute("DELETE FROM orders WHERE id = 3; INSERT INTO orders (id) VALUES (100)")
    framed.check_equal()

    rows = reader(orders(framed, "_2")).rows().values()
    assert sorted((row["id"], row["price"]) for row in rows) == source(framed, "id", "price")


def allow(registry: SchemaRegistry, subject: str, rule: str) -> None:
    """Set the rule of a subject, as an operator does."""
    SchemaRegistryClient({"url": registry.url}).set_compatibility(subject, rule)
