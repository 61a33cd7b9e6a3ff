"""The page on the topics' format: its tables have the fields that events have, and its program reads real ones."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from tests.documents import PAGES, ROOT, blocks, table
from tests.faults.followed import settings_of, wait_until_current
from tests.fix_producer import ProducerUnderTest
from walbridge.consumer.event import NEW_KEY, OLD_KEY
from walbridge.readable_event import _KEY_HEADERS, _OPERATIONS
from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import value_schema
from walbridge.schemas.control.message_schema import message_relation, message_schema
from walbridge.tables.copy_all import copy_all

PAGE = "docs/kafka.md"
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
    assert set(re.findall(r"`(__debezium\.\w+)`", PAGES[PAGE])) == {NEW_KEY, OLD_KEY} == set(_KEY_HEADERS)


def test_schema_of_a_table_is_the_envelope_without_a_message() -> None:
    fields = value_schema("p", message_relation("p").table)["fields"]

    assert {field["name"] for field in fields} == set(ENVELOPE) - {"message"}


def control(name: str) -> Any:
    return json.loads((ROOT / "schemas" / "control" / f"{name}.avsc").read_text())


def test_page_has_the_ids_of_the_records_that_a_reader_needs() -> None:
    listed = {name.split("`")[1]: an_id.strip("`") for name, an_id in table(PAGE, "schema")}

    assert listed == {
        f"{name}.avsc": schema_id(control(name))
        for name in ("Relation", "Relation2", "Relation3", "Relation4", "Type", "Cut")
    }


@pytest.mark.parametrize(("name", "newest"), [("Relation", ["Relation3", "Relation4"]), ("Cut", ["Cut"])])
def test_page_has_every_field_of_a_record_that_a_reader_needs(name: str, newest: list[str]) -> None:
    of_page = [field for field in named(f"field of `{name}`") if not field.startswith("Relation")]

    assert of_page == sorted({field["name"] for each in newest for field in control(each)["fields"]})


def test_page_has_every_barrier() -> None:
    (tables,) = (field["type"]["items"]["fields"] for field in control("Cut")["fields"] if field["name"] == "tables")
    (barriers,) = (field["type"]["items"]["fields"] for field in tables if field["name"] == "barriers")

    assert named("barrier") == sorted(barriers[0]["type"]["symbols"])


def test_program_of_the_page_keeps_a_table_equal(producer: ProducerUnderTest, tmp_path: Path) -> None:
    """Also what an update leaves out, a change of a key and a copy; and it goes on where it was."""
    execute = producer.database.execute
    execute("CREATE TABLE orders (id int PRIMARY KEY, note text); ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    execute("INSERT INTO orders SELECT i, repeat('x', 3000) || i FROM generate_series(1, 5) i")
    producer.publish("orders")
    running = producer.start_streaming()
    for change in (
        "UPDATE orders SET id = 10 WHERE id = 1; DELETE FROM orders WHERE id = 2; INSERT INTO orders VALUES (6, NULL)",
        "UPDATE orders SET note = 'b' WHERE id = 3; UPDATE orders SET id = 11 WHERE id = 10",
    ):
        execute(change)
        with producer.topics() as topics:
            producer.caught_up(topics)
        _check_equal(producer, tmp_path)
    running.stop()

    # A row goes back to the key that the target has it under, while a copy tells that it had left it.
    producer.slot_at_rest()
    execute(f"SELECT pg_drop_replication_slot('{producer.slot}'); UPDATE orders SET id = 20 WHERE id = 3")
    assert copy_all(settings_of(producer), wait=False, say=print) == 0
    producer.run_until_killed("chunk:before-end")
    execute("UPDATE orders SET id = 3 WHERE id = 20")
    producer.start_streaming()
    wait_until_current(producer)
    with producer.topics() as topics:
        producer.caught_up(topics)
    _check_equal(producer, tmp_path)


def test_program_of_the_page_of_registries_passes_over_a_tombstone_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is asked whether it is true says no, as a message that did not come."""
    (program,) = (block for block in blocks(PAGES["docs/registry.md"]) if block.startswith("from confluent_kafka"))
    coming = [Message(topic="t", value=value) for value in (b"d", None, b"c")]

    class Delivered:
        def __init__(self, settings: dict[str, str]) -> None:
            assert settings["isolation.level"] == "read_committed"

        def subscribe(self, topics: list[str]) -> None:
            assert topics == ["shop.public.orders"]

        def poll(self, timeout_s: float) -> Message | None:
            return coming.pop(0) if coming else None

    def decoder(*_: object, **__: object) -> Callable[[bytes, object], dict[str, str | None]]:
        return lambda value, _: {"op": value.decode(), "after": None}

    monkeypatch.setattr("confluent_kafka.Consumer", Delivered)
    monkeypatch.setattr("confluent_kafka.schema_registry.avro.AvroDeserializer", decoder)

    exec(program, {})

    assert capsys.readouterr().out == "d None\nc None\n"


def _check_equal(producer: ProducerUnderTest, folder: Path) -> None:
    _run_program(producer, folder)
    with contextlib.closing(sqlite3.connect(folder / "orders.db")) as target:
        found = target.execute("SELECT id, note FROM orders ORDER BY id").fetchall()
    assert found == producer.database.rows("SELECT * FROM orders ORDER BY id")


def _run_program(producer: ProducerUnderTest, folder: Path) -> None:
    (program,) = (block for block in blocks(PAGES[PAGE]) if block.startswith("import"))
    for example, ours in (
        ("127.0.0.1:9092", producer.kafka.bootstrap_servers),
        ('"shop"', f'"{producer.name}"'),
        ('"report"', f'"{producer.name}"'),
    ):
        assert example in program
        program = program.replace(example, ours)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
