"""The page on the topics' format: its tables have the fields that events have, and its program reads real ones."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.documents import PAGES, ROOT, blocks, table
from tests.fix_producer import ProducerUnderTest
from walbridge.readable_event import _KEY_HEADERS, _OPERATIONS
from walbridge.schemas.avro_schema import value_schema
from walbridge.schemas.message_schema import message_relation, message_schema

PAGE = "docs/topics.md"
ENVELOPE = {field["name"]: field["type"] for field in message_schema("p", message_relation("p").table)["fields"]}


def named(column: str) -> list[str]:
    """What the first cells of a table name."""
    return sorted(name for first, *_ in table(PAGE, column) for name in re.findall(r"`(\w+)`", first))


def test_page_has_every_field_of_the_envelope_and_no_other() -> None:
    assert named("field") == sorted(ENVELOPE)


def test_page_has_every_field_of_source_and_no_other() -> None:
    assert named("field of `source`") == sorted(field["name"] for field in ENVELOPE["source"]["fields"])


def test_page_has_every_operation_and_both_headers_of_a_change_of_a_key() -> None:
    assert named("operation") == sorted(_OPERATIONS)
    assert set(re.findall(r"`(__debezium\.\w+)`", PAGES[PAGE])) == set(_KEY_HEADERS)


def test_schema_of_a_table_is_the_envelope_without_a_message() -> None:
    fields = value_schema("p", message_relation("p").table)["fields"]

    assert {field["name"] for field in fields} == set(ENVELOPE) - {"message"}


def test_program_of_the_page_prints_the_events_of_a_topic(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE orders (id int PRIMARY KEY, note text); INSERT INTO orders VALUES (1, 'a')")
    producer.publish("orders")
    running = producer.start_streaming()
    producer.database.execute("UPDATE orders SET note = 'b'; DELETE FROM orders")
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    (program,) = (block for block in blocks(PAGES[PAGE]) if block.startswith("import"))
    for example, ours in (
        ("127.0.0.1:9092", producer.kafka.bootstrap_servers),
        ("shop.", f"{producer.name}."),
    ):
        assert example in program
        program = program.replace(example, ours)

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    shown = [(line.split()[0], line.split(maxsplit=2)[2]) for line in done.stdout.splitlines()]
    assert shown == [
        ("t", "None"),
        ("r", "{'id': 1, 'note': 'a'}"),
        ("u", "{'id': 1, 'note': 'b'}"),
        ("d", "None"),
    ]
