"""What happens at the source of the second conformance set, whose topics are there by setting: logical messages, begins
and ends of transactions, and a compacted topic. And what is expected of the first two.

In: a producer of a fresh database, not started; records. Out: topics that hold it all; lines of ``messages.jsonl`` and
``boundaries.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro

from tests.conformance.expected import text_of
from tests.conformance.recorded import Recording
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.json_format.codec import avro_value
from walbridge.schemas.position import format_lsn

TABLES = """
CREATE TABLE stock (shelf text, id int, day date, note text, PRIMARY KEY (shelf, id));
ALTER TABLE stock REPLICA IDENTITY FULL;
ALTER TABLE stock ALTER note SET STORAGE EXTERNAL;
CREATE TABLE sales (id int PRIMARY KEY, shelf text);
INSERT INTO stock SELECT 'copied', i, '2024-02-29', repeat('x', 2100) FROM generate_series(1, 4) i;
INSERT INTO sales VALUES (1, 'copied');
"""
MESSAGE = "SELECT pg_logical_emit_message({0}, '{1}', {2})"
STEPS = (
    # A compacted topic: what an update left alone is there, and a tombstone is the delete of its row.
    "UPDATE stock SET day = 'infinity' WHERE id = 1",
    "INSERT INTO stock VALUES ('new', 10, NULL, 'note'), ('new', 11, NULL, NULL); DELETE FROM stock WHERE id = 2",
    "UPDATE stock SET shelf = 'moved' WHERE id = 3; UPDATE stock SET note = 'again' WHERE id = 3",
    "DELETE FROM stock WHERE id = 10; INSERT INTO stock VALUES ('new', 10, '2024-05-06', 'back')",
    # Two tables in one transaction, with a message that has its place in it.
    "INSERT INTO sales VALUES (2, 'new'); " + MESSAGE.format("true", "app", "'sold'") + "; "
    "UPDATE stock SET note = 'sold' WHERE id = 10; UPDATE sales SET id = 20 WHERE id = 1",
    # Messages of no transaction are told at once, also where it is rolled back; others go with it.
    MESSAGE.format("false", "other", "'\\x00ff'::bytea"),
    "BEGIN; "
    + MESSAGE.format("false", "app", "'stays'")
    + "; "
    + MESSAGE.format("true", "app", "'goes'")
    + "; ROLLBACK",
    MESSAGE.format("true", "alone", "''"),
    # A transaction that several Kafka transactions hold: its begin comes with the first of them, its end with the last.
    "INSERT INTO sales SELECT i, 'many' FROM generate_series(100, 149) i; DELETE FROM sales WHERE id < 120",
    "TRUNCATE stock, sales; INSERT INTO stock SELECT 'after', i, '2025-01-01', 'it' FROM generate_series(1, 3) i",
)
OUT_OF_SIGHT = (  # what is deleted meanwhile is told by the end of the copy that follows
    "ALTER PUBLICATION walbridge DROP TABLE stock",
    "DELETE FROM stock WHERE id = 1; UPDATE stock SET note = 'unseen' WHERE id = 2;"
    "ALTER PUBLICATION walbridge ADD TABLE stock",
)
AT_THE_END = "DELETE FROM stock WHERE id = 2; INSERT INTO stock VALUES ('end', 2, NULL, NULL)"
SAID = [("app", b"sold"), ("other", b"\x00\xff"), ("app", b"stays"), ("alone", b"")]
NAMES = ("public.sales", "public.stock")
COMPACTED = "public.stock"


def play(producer: ProducerUnderTest) -> None:
    """Everything, and the producer has stopped."""
    execute = producer.database.execute
    execute(TABLES)
    producer.publish("stock", "sales")
    producer.settings |= {
        "postgres": {"messages": True},
        "topics": {"partitions": 2, "cleanup": {COMPACTED: "compact"}, "transaction_topic": True},
        "producer": {"batch_rows_max": 20, "idle_cut_interval_ms": 1000},
    }
    running = producer.start_streaming()
    with producer.topics() as topics:
        for step in (*STEPS, *OUT_OF_SIGHT):
            execute(step)
            producer.caught_up(topics)
        wait_until(lambda: "table is copied" in running.log, "the copy")
        execute(AT_THE_END)
        producer.caught_up(topics)
    running.stop()


def message_lines(recording: Recording) -> Iterator[dict[str, Any]]:
    """What each logical message says."""
    versions = {each.frame_id: each for each in recording.relations}
    for record in recording.messages:
        version = versions[frame_of(record.value).frame_id]
        schema = fastavro.parse_schema(json.loads(version.value_schema))
        event = decode_body(avro_value(record.value, version), schema)
        yield {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "commit_lsn": format_lsn(event["source"]["commit_lsn"]),
            "ordinal": event["source"]["ordinal"],
            "xid": event["source"]["txId"],
            "prefix": event["message"]["prefix"],
            "content": text_of(event["message"]["content"]),
        }


def boundary_lines(recording: Recording) -> Iterator[dict[str, Any]]:
    """What each begin and end of a transaction says, but for the time."""
    for record in recording.boundaries:
        said = json.loads(record.value)
        yield {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "key": json.loads(record.key or b"null"),
            **{name: said[name] for name in ("status", "id", "event_count", "data_collections")},
        }
