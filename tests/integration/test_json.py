"""Events as JSON, read by a program that knows JSON alone, and by all that read a pipeline's topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import expected, record, scenario
from tests.conformance.applied import Tables
from tests.conformance.strangers import of_strangers, read_by_a_stranger
from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from tests.json_reader import JsonReader
from tests.wait import wait_until
from walbridge.consumer import events
from walbridge.schemas.topics import data_topic
from walbridge.tail import Beginning, tail

SELECT = """SELECT json_build_object('id', id, 'price', price::text, 'note', note,
    'at', (extract(epoch FROM at) * 1000000)::bigint, 'tags', tags, 'day', day - date '1970-01-01', 'ratio', ratio,
    'big', big, 'raw', encode(raw, 'base64'), 'doc', doc::text) FROM orders"""
TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, price numeric(10, 2), note text, at timestamptz, tags text[], day date,
    ratio float8, big int8, raw bytea, doc jsonb);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
INSERT INTO orders SELECT i, i / 3.0, repeat('x', 3000) || i, 'epoch', '{a,NULL,"b\\"é"}', '2024-02-29', 0.1,
    9007199254740993, '\\x00ff', '{"a": [1, null]}' FROM generate_series(1, 20) i;
CREATE TABLE log (v text, n int);
ALTER TABLE log REPLICA IDENTITY FULL;
INSERT INTO log VALUES ('a', 1), ('a', 1), (NULL, NULL);
"""


@pytest.fixture
def in_json(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A pipeline of two tables."""
    producer.database.execute(TABLES)
    producer.publish("orders", "log")
    producer.settings["topics"] = {"format": "json", "partitions": 2, "tombstones": True}
    return producer


def rows(producer: ProducerUnderTest, table: str, suffix: str = "") -> list[str]:
    reader = JsonReader(producer.kafka.bootstrap_servers, data_topic(producer.name, "public", table) + suffix)
    found = reader.rows()
    reader.close()
    return in_order(found)


def in_order(found: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def source(producer: ProducerUnderTest, select: str) -> list[str]:
    return in_order(row for (row,) in producer.database.rows(select))


@pytest.mark.variant(of="test_consumers_of_ours_and_of_strangers_read_everything_that_can_happen")
def test_reader_of_json_makes_the_tables_of_every_kind_of_change(in_json: ProducerUnderTest) -> None:
    execute = in_json.database.execute
    in_json.settings["postgres"] = {"messages": True}
    running = in_json.start_streaming()
    execute("UPDATE orders SET price = price + 1 WHERE id % 2 = 0")
    execute("DELETE FROM orders WHERE id = 3; UPDATE orders SET id = -id WHERE id = 4")
    execute("INSERT INTO log SELECT 'b', i FROM generate_series(1, 9) i; DELETE FROM log WHERE n = 3")
    execute("UPDATE log SET v = 'c' WHERE n = 4; DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log WHERE n = 1)")
    execute("INSERT INTO orders (id) VALUES (100); UPDATE orders SET ratio = 1e300, big = -1 WHERE id = 100")
    execute("SELECT pg_logical_emit_message(true, 'audit', 'said')")
    in_json.check_equal()

    assert rows(in_json, "orders") == source(in_json, SELECT)
    assert rows(in_json, "log") == source(in_json, "SELECT row_to_json(log) FROM log")

    execute("TRUNCATE log; INSERT INTO log VALUES ('d', 1); TRUNCATE orders; INSERT INTO orders (id) VALUES (1)")
    in_json.check_equal()
    running.stop()
    assert rows(in_json, "orders") == source(in_json, SELECT)
    assert rows(in_json, "log") == source(in_json, "SELECT row_to_json(log) FROM log")
    reader = JsonReader(in_json.kafka.bootstrap_servers, f"{in_json.name}.messages")
    (message,) = [event["message"] for _, _, event in reader.records()]
    reader.close()
    assert message == {"prefix": "audit", "content": "c2FpZA=="}


@of_strangers
def test_consumers_of_ours_and_of_strangers_read_everything_that_can_happen(
    producer: ProducerUnderTest, tmp_path: Path, reader: list[str]
) -> None:
    """I8: copies beside the stream, a transaction in parts and columns that come and go as well; both ways to read. The
    strangers are programs in Go and JavaScript that were written from the documents."""
    scenario.play(producer, format="json")
    wanted = expected.tables(producer.database, scenario.NAMES)
    kafka = {"bootstrap.servers": producer.kafka.bootstrap_servers, "group.id": f"{producer.name}-reader"}

    tables = Tables()
    with events(producer.name, scenario.NAMES, kafka, transactions=True, follow=False) as stream:
        for transactions in stream:
            tables.apply(transactions)
    assert tables.texts() == wanted
    with events(producer.name, scenario.NAMES, kafka, follow=False) as single:
        there = [expected.event_line(event) for event in single]
    assert {line["operation"] for line in there} >= {"insert", "update", "delete", "truncate", "copy", "copy_end"}
    assert any(line["old_key"] for line in there)
    record.write(tmp_path / "recorded", producer, scenario.NAMES)
    done = read_by_a_stranger(reader, tmp_path / "recorded")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.soak
def test_other_format_in_the_settings_copies_each_table_into_another_topic_and_back(in_json: ProducerUnderTest) -> None:
    in_json.settings["topics"] = {"partitions": 2}
    in_json.start_streaming().stop()
    for format_name, suffix in (("json", "_2"), ("single-object", "_3"), ("json", "_4")):
        switch(in_json, format_name)
        if format_name == "json":
            assert rows(in_json, "orders", suffix) == source(in_json, SELECT)


def switch(producer: ProducerUnderTest, format_name: str) -> None:
    """A session with this setting, in which both tables are copied."""
    producer.settings["topics"] = {"partitions": 2, "format": format_name}
    running = producer.start_streaming()
    wait_until(lambda: running.log.count("table is copied") == 2, "both copies")
    producer.database.execute("DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)")
    producer.check_equal()
    running.stop()


def test_restarted_producer_goes_on_in_the_format_of_the_topics(in_json: ProducerUnderTest) -> None:
    """I2: what the settings leave open is what the topics have."""
    in_json.start_streaming().stop()
    in_json.settings["topics"] = {"partitions": 2}
    in_json.start_streaming()
    in_json.database.execute("ALTER TABLE orders ADD later int DEFAULT 7; UPDATE orders SET later = 8 WHERE id = 1")
    in_json.check_equal()


@pytest.mark.variant(of="test_new_reader_of_a_compacted_topic_has_the_table_from_the_newest_record_of_each_key")
def test_compacted_topic_has_json_keys_and_each_tombstone_is_read_as_a_delete(in_json: ProducerUnderTest) -> None:
    execute = in_json.database.execute
    execute("CREATE TABLE small (id int, day date, n int, PRIMARY KEY (id, day))")
    execute("ALTER PUBLICATION walbridge ADD TABLE small; INSERT INTO small VALUES (1, 'infinity', 1), (2, 'epoch', 2)")
    in_json.settings["topics"] |= {"cleanup": {"public.small": "compact"}}
    running = in_json.start_streaming()
    execute(
        "DELETE FROM small WHERE id = 1; UPDATE small SET n = 3; TRUNCATE small; INSERT INTO small VALUES (3, now(), 1)"
    )
    in_json.check_equal()
    running.stop()

    kafka = {"bootstrap.servers": in_json.kafka.bootstrap_servers, "group.id": f"{in_json.name}-reader"}
    with events(in_json.name, ["public.small"], kafka, follow=False) as stream:
        found = [(str(event.operation), event.key) for event in stream]
    assert ("delete", {"id": 1, "day": "infinity"}) in found
    assert [key for operation, key in found if operation == "truncate"] == [None] * found.count(("truncate", None))


@pytest.mark.variant(of="test_events_are_readable_values_that_were_not_sent_and_all")
def test_tail_shows_events_of_json_as_those_of_avro(in_json: ProducerUnderTest, capsys: Any) -> None:
    in_json.start_streaming()
    in_json.database.execute("UPDATE orders SET id = -1, day = 'infinity' WHERE id = 1")
    in_json.check_equal()

    assert tail(settings_of(in_json), "orders", Beginning(last=2), follow=False, say=print) == 0

    gone, came = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (gone["key"], gone["new_key"], came["old_key"]) == ({"id": 1}, {"id": -1}, {"id": 1})
    assert (came["after"]["day"], came["exceptional"]) == ("infinity", ["day"])
    assert "note" not in came["after"]
