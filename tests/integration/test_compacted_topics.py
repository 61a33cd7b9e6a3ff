"""Topics that Kafka compacts keep the newest record of every key: who reads one from its beginning has the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.wait import wait_until
from walbridge.__main__ import main
from walbridge.consumer import Event, EventStream, Operation, events
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.settings_file import load_settings
from walbridge.tail import Beginning, tail

TABLE = "CREATE TABLE t (id int, note text); INSERT INTO t SELECT i, 'copied' FROM generate_series(1, 20) i"
AT_ONCE = {"min.compaction.lag.ms": "0", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}


@pytest.fixture
def compacting(producer: ProducerUnderTest) -> Iterator[ProducerUnderTest]:
    """A table whose topic is compacted, on a broker that looks what to compact all the time."""
    producer.settings["topics"] = {"partitions": 2, "cleanup": {"public.t": "compact"}}
    producer.database.execute(TABLE)
    producer.publish("t")
    (broker,) = admin(producer).list_topics(timeout=10).brokers
    with altered(producer, ResourceType.BROKER, str(broker), {"log.cleaner.backoff.ms": "50"}):
        yield producer


def admin(producer: ProducerUnderTest) -> AdminClient:
    return AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})


@contextmanager
def altered(producer: ProducerUnderTest, kind: ResourceType, name: str, values: dict[str, str]) -> Iterator[None]:
    """These properties, until the block ends."""

    client = admin(producer)  # held: its answers are lost with it

    def alter(operation: AlterConfigOpType) -> None:
        entries = [ConfigEntry(each, value, incremental_operation=operation) for each, value in values.items()]
        wanted = ConfigResource(kind, name, incremental_configs=entries)
        (done,) = client.incremental_alter_configs([wanted]).values()
        done.result()

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


def caught_up(producer: ProducerUnderTest) -> None:
    with producer.topics() as topics:
        producer.caught_up(topics)


def source(producer: ProducerUnderTest) -> dict[int, str]:
    return dict(producer.database.rows("SELECT * FROM t"))


def rows_from_the_beginning(producer: ProducerUnderTest) -> dict[int, str]:
    """As the documents tell a new reader of one partition after the other."""
    return Target(producer).read()


class Target:
    """What a reader makes of the events, and how far it has come."""

    def __init__(self, producer: ProducerUnderTest) -> None:
        self.producer, self.partitions = producer, dict[int, dict[Any, str]]()
        self.offsets: dict[PartitionId, int] = {}

    def read(self) -> dict[int, str]:
        """On to the end: all rows."""
        named: dict[int, set[Any]] = {}
        with self._events() as stream:
            for event in stream:
                _apply(event, self.partitions.setdefault(event.partition, {}), named)
            self.offsets = stream.offsets
        return {key: note for mine in self.partitions.values() for key, note in mine.items()}

    def ahead(self) -> list[Event]:
        """What it has not read yet."""
        with self._events() as stream:
            return list(stream)

    def _events(self) -> EventStream:
        kafka = {"bootstrap.servers": self.producer.kafka.bootstrap_servers, "group.id": f"{self.producer.name}-new"}
        return events(self.producer.name, ["public.t"], kafka, start=self.offsets, follow=False)


def _apply(event: Event, rows: dict[Any, str], named: dict[int, set[Any]]) -> None:
    key = None if event.key is None else next(iter(event.key.values()))
    match event.operation:
        case Operation.TRUNCATE:
            rows.clear()
        case Operation.COPY_BEGIN:
            named[event.partition] = set()
        case Operation.COPY_END:
            for gone in rows.keys() - named.pop(event.partition, rows.keys()):
                del rows[gone]
        case _:
            named.get(event.partition, set()).add(key)
            rows.pop(key, None)
            if event.operation != Operation.DELETE:
                assert event.after is not None
                assert not event.unchanged
                rows[key] = event.after["note"]


def messages(producer: ProducerUnderTest, topic: str) -> list[Message]:
    """What any reader finds in the topic, each partition in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": producer.kafka.bootstrap_servers,
            "group.id": "count",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    found: list[Message] = []
    ended = 0
    while ended < 2:
        message = consumer.poll(60)
        assert message is not None
        error = message.error()
        found += [message] if error is None else []
        ended += error is not None and error.code() == KafkaError._PARTITION_EOF  # a lost connection mends itself
    consumer.close()
    return found


def rows_of_a_stranger(producer: ProducerUnderTest, topic: str) -> dict[int, str]:
    """What a program has that begins now: it knows JSON, Debezium's ``op``, and that a key without a value is gone."""
    partitions: dict[int | None, dict[bytes | None, Any]] = {}
    for message in messages(producer, topic):
        rows, value, key = partitions.setdefault(message.partition(), {}), message.value(), message.key()
        event = {"op": "d"} if value is None else json.loads(value)
        match event["op"]:
            case "d":
                rows.pop(key, None)
            case "t":
                rows.clear()
            case "c" | "u" | "r":
                rows[key] = event["after"]
    return {row["id"]: row["note"] for rows in partitions.values() for row in rows.values()}


def test_new_reader_of_a_compacted_topic_has_the_table_from_the_newest_record_of_each_key(
    compacting: ProducerUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    """I6, and through truncates, key changes, deletes and a copy. Offsets that compaction took are no loss to it,
    nor to a reader that was away: of a delete that it did not read the tombstone is left (I7). A stranger's program
    that begins then has it, too, from Kafka alone."""
    database, topic = compacting.database, f"{compacting.name}.public.t"
    compacting.settings["topics"]["format"] = "json"
    database.execute("ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t REPLICA IDENTITY FULL")
    compacting.start_streaming()
    with altered(compacting, ResourceType.TOPIC, topic, AT_ONCE):
        for change in (
            "UPDATE t SET note = repeat('long', 100000) WHERE id = 1",
            "UPDATE t SET id = 100 WHERE id = 1",  # a key change keeps what is stored out of line
            "DELETE FROM t WHERE id < 10; INSERT INTO t VALUES (2, 'again')",
        ):
            database.execute(change)
        for number in range(20):
            database.execute(f"UPDATE t SET note = 'changed {number}' WHERE id > 10 AND id < 100")
        caught_up(compacting)
        assert rows_from_the_beginning(compacting) == source(compacting)
        assert told_of_the_table(compacting, capsys) == [("copy begins", None)] * 2
        database.execute("TRUNCATE t; INSERT INTO t SELECT i, 'behind it' FROM generate_series(1, 5) i")
        database.execute("UPDATE t SET note = note || id")
        caught_up(compacting)
        away = Target(compacting)
        assert away.read() == source(compacting)
        database.execute("DELETE FROM t WHERE id = 3")
        caught_up(compacting)
        # What is open is not compacted: new records close it.
        wait_until(
            lambda: go_on(compacting, topic) < 200 and is_deleted_by_its_tombstone(away, 3),
            "Kafka to compact the topic",
            60,
        )
        assert rows_from_the_beginning(compacting) == away.read() == source(compacting)
        assert rows_of_a_stranger(compacting, topic) == source(compacting)


def is_deleted_by_its_tombstone(target: Target, row: int) -> bool:
    """Whether compaction took the ``d``, which has a transaction."""
    (found,) = [event for event in target.ahead() if event.operation == Operation.DELETE]
    assert found.key == found.before == {"id": row} or found.is_before_whole
    return found.xid is None


def told_of_the_table(producer: ProducerUnderTest, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """Operations and keys of what ``walbridge tail`` prints that is of no row."""
    capsys.readouterr()
    tail(load_settings(producer.write_settings()), "public.t", Beginning(last=1000), follow=False, say=print)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(each["op"], each.get("key")) for each in found if each["op"] not in ("copy", "insert", "update", "delete")]


def go_on(producer: ProducerUnderTest, topic: str) -> int:
    producer.database.execute("UPDATE t SET note = 'on ' || id")
    caught_up(producer)
    return len(messages(producer, topic))


def test_table_that_cannot_be_compacted_is_refused_until_its_remedy_is_followed(
    compacting: ProducerUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each to the letter; and another cleanup, or another key, is a copy away."""
    database, topic = compacting.database, f"{compacting.name}.public.t"
    compacting.settings["topics"]["cleanup"]["public.mistaken"] = "compact"
    told = checked(compacting, capsys)
    assert "names public.mistaken, which is not published" in told
    assert "the table has no key" in told
    told = refusal_of(compacting.start())
    assert "the table has no key" in told
    database.execute(_sql(told, r"remedy: (ALTER TABLE \S+ ADD PRIMARY KEY \()\.\.\.\)") + "id)")
    assert "without the values of note" in checked(compacting, capsys)
    told = refusal_of(compacting.start())
    assert "without the values of note" in told
    database.execute(_sql(told, "remedy: (ALTER TABLE [^;]+);"))
    compacting.start_streaming()
    caught_up(compacting)
    database.execute("ALTER TABLE t RENAME id TO number; UPDATE t SET note = 'renamed' WHERE number = 1")
    caught_up(compacting)
    assert rows_from_the_beginning(compacting) == source(compacting), "the same keys"
    assert not _exists(compacting, f"{topic}_2")
    database.execute("ALTER TABLE t ALTER number TYPE bigint; UPDATE t SET note = 'other keys' WHERE number = 1")
    _copied(compacting, f"{topic}_2")  # what is under the old keys would stay for ever
    caught_up(compacting)
    assert rows_from_the_beginning(compacting) == source(compacting)
    database.execute("ALTER TABLE t RENAME TO u; UPDATE u SET note = 'same keys'; ALTER TABLE u RENAME TO t")
    caught_up(compacting)

    compacting.kill_all()
    compacting.settings["topics"] = {"partitions": 2}
    compacting.start_streaming()
    _copied(compacting, f"{topic}_3")
    compacting.kill_all()
    compacting.settings["topics"] = {"partitions": 2, "cleanup": {"public.t": "compact"}}
    compacting.start_streaming()
    _copied(compacting, f"{topic}_4")
    compacting.check_equal()
    cleanups = [_cleanup(compacting, f"{topic}{each}") for each in ("", "_2", "_3", "_4")]
    assert cleanups == ["compact", "compact", "delete", "compact"]


def checked(producer: ProducerUnderTest, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``walbridge check`` prints of it."""
    capsys.readouterr()
    main(["check", "--config", str(producer.write_settings())])
    return capsys.readouterr().out


def _sql(told: str, pattern: str) -> str:
    (found,) = re.findall(pattern, told)
    return str(found)


def _copied(producer: ProducerUnderTest, topic: str) -> None:
    """Until a copy beside the stream has ended in that topic."""
    with producer.topics() as topics:
        topics.wait_for_cut(
            lambda cut: any(
                table.topic == topic and barrier.kind == "copy_end" and barrier.position.ordinal == -1
                for table in cut.tables
                for barrier in table.barriers
            ),
            f"a copy in {topic}",
        )


def _exists(producer: ProducerUnderTest, topic: str) -> bool:
    return topic in admin(producer).list_topics(timeout=10).topics


def _cleanup(producer: ProducerUnderTest, topic: str) -> str:
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    client = admin(producer)
    (found,) = client.describe_configs([wanted]).values()
    return str(found.result()["cleanup.policy"].value)
