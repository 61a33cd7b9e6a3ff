"""A row stays under one key whatever its key's columns are called, and a table with another key gets another topic."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any

from confluent_kafka import Message

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import Running, refusal_of
from walbridge.consumer import Event, events
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.topics import data_topic

PARTITIONS = 4
ROWS = 8


class Topic:
    """What a topic holds of a table's rows; ``number``: of which each row has one for life."""

    def __init__(self, pipeline: PipelineUnderTest, name: str, number: str) -> None:
        self._pipeline, self._topics, self.name = pipeline, pipeline.producer.topics(), name
        self._number = number
        with self._topics:
            self.records = [each for each in self._topics.reader(name).read_to_end() if each.value()]
            self.places = self._places()

    def _places(self) -> dict[Any, set[tuple[bytes | None, int | None]]]:
        """By row: under which keys and in which partitions it stands."""
        found: dict[Any, set[tuple[bytes | None, int | None]]] = defaultdict(set)
        for record in self.records:
            row = self._row(record)
            if row is not None:
                found[row[self._number]].add((record.key(), record.partition()))
        return found

    def _row(self, record: Message) -> dict[str, Any] | None:
        _, envelope = self._topics.envelope(record.value() or b"")
        row: dict[str, Any] | None = envelope["after"]
        return row

    @property
    def key_schemas(self) -> set[str]:
        return {frame_of(key).frame_id for each in self.records if (key := each.key())}


def copies(running: Running) -> int:
    return running.log.count("copy of a table begins")


def read(pipeline: PipelineUnderTest) -> list[Event]:
    kafka = {"bootstrap.servers": pipeline.producer.kafka.bootstrap_servers, "group.id": pipeline.producer.name}
    with events(pipeline.producer.name, ["t"], kafka, follow=False) as stream:
        return list(stream)


def test_row_keeps_its_key_while_its_columns_are_altered_and_another_key_gets_another_topic(
    pipeline: PipelineUnderTest,
) -> None:
    """I3, I8: renamed and longer, written while that goes on and not written since, and read by a later start; over
    several partitions. Where settings say so the other key stops all until its remedy is followed."""
    producer, execute, topic = (
        pipeline.producer,
        pipeline.database.execute,
        data_topic(pipeline.producer.name, "public", "t"),
    )
    quiet = data_topic(producer.name, "public", "u")
    execute("CREATE TABLE t (n int NOT NULL, code varchar(24), day date, v text, PRIMARY KEY (code, day))")
    execute(f"INSERT INTO t SELECT i, 'row ' || i, '2024-05-06', 'copied' FROM generate_series(1, {ROWS}) i")
    execute(
        "CREATE TABLE u (id int PRIMARY KEY, other int NOT NULL);"
        "INSERT INTO u SELECT i, -i FROM generate_series(1, 5) i"
    )
    producer.publish("t", "u")
    producer.settings["topics"] = {"partitions": PARTITIONS}
    running = producer.start_streaming()
    pipeline.check_equal()

    execute("UPDATE t SET v = 'before'; ALTER TABLE t RENAME code TO name; UPDATE t SET v = 'renamed'")
    execute("ALTER TABLE t ALTER name TYPE varchar(64); ALTER TABLE u RENAME id TO number; UPDATE t SET v = 'longer'")
    pipeline.check_equal()
    assert copies(running) == 0
    running.kill()
    execute("ALTER TABLE t ALTER name TYPE text; ALTER TABLE t RENAME day TO code; UPDATE t SET v = 'unread'")
    execute("UPDATE t SET name = 'moved' WHERE n = 1; DELETE FROM t WHERE n = 2")
    running = producer.start_streaming()
    pipeline.check_equal()

    assert copies(running) == 0
    found = Topic(pipeline, topic, "n")
    assert len(found.key_schemas) == 1
    assert {number: len(places) for number, places in found.places.items()} == {
        number: 2 if number == 1 else 1 for number in range(1, ROWS + 1)
    }
    told = read(pipeline)
    assert {tuple(each.key) for each in told if each.key} == {("code", "day"), ("name", "day"), ("name", "code")}
    (gone,) = [each for each in told if each.operation == "delete" and each.new_key is None]
    assert gone.before == gone.key == {"name": "row 2", "code": date(2024, 5, 6)}
    running.stop()

    producer.settings["producer"] = {"on_table_error": "stop"}
    running = producer.start_streaming()
    execute("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (n); UPDATE t SET v = 'another key'")
    told_how = refusal_of(running)
    assert "table public.t has another key than its topic holds" in told_how
    assert '"stop", set it to "copy"' in told_how
    producer.settings["producer"] = {"on_table_error": "copy"}
    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    execute("UPDATE t SET v = 'behind it' WHERE n % 2 = 0")
    execute("ALTER TABLE u DROP CONSTRAINT u_pkey; ALTER TABLE u ADD PRIMARY KEY (other), ADD more int")
    pipeline.check_equal()
    running.wait_for_log(f"topic={quiet}_2")
    pipeline.check_equal()

    assert Topic(pipeline, topic, "n").key_schemas == found.key_schemas
    for name, number in ((f"{topic}_2", "n"), (f"{quiet}_2", "other")):
        renewed = Topic(pipeline, name, number)
        assert len(renewed.key_schemas) == 1
        assert {len(places) for places in renewed.places.values()} == {1}
    assert {entry.topic for entry in pipeline.published()[-1].tables} == {f"{topic}_2", f"{quiet}_2"}
