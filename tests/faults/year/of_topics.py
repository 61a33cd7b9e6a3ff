"""What happens to topics: somebody deletes, grows, empties or sets them otherwise."""

from __future__ import annotations

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.faults.year.year_stage import BUSY, YearStage

ANSWER_S = 60.0


def topic_deleted(stage: YearStage) -> None:
    topic, admin = stage.topic_of(BUSY), _admin(stage)  # whose futures end with it
    admin.delete_topics([topic])[topic].result(ANSWER_S)


def topic_grown(stage: YearStage) -> None:
    topic, admin = stage.topic_of(BUSY), _admin(stage)
    count = len(admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions)
    admin.create_partitions([NewPartitions(topic, count + 1)])[topic].result(ANSWER_S)


def partitions_set(stage: YearStage) -> None:
    """The setting, with a restart."""
    stage.set_partitions(stage.dice.choice((1, 3, 4)))


def records_expired(stage: YearStage) -> None:
    """The job was away for longer than the topic keeps them."""
    stage.job.kill()
    stage.play(3)
    topic, admin = stage.topic_of(BUSY), _admin(stage)
    parts = admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
    for future in admin.delete_records([TopicPartition(topic, part, OFFSET_END) for part in parts]).values():
        future.result(ANSWER_S)


def topic_set_otherwise(stage: YearStage) -> None:
    """By somebody who tidies; found at the next start."""
    _set(stage, stage.topic_of(BUSY), "retention.ms", "3600000")
    stage.producer.stop()


def topic_takes_less(stage: YearStage) -> None:
    """Than a row that comes."""
    topic = stage.topic_of(BUSY)
    _set(stage, topic, "max.message.bytes", "2000")
    row = "(1000000, 1, 0, '')"
    execute = stage.database.execute
    execute(f"ALTER TABLE {BUSY} ADD IF NOT EXISTS note text")
    execute(f"INSERT INTO {BUSY} (aid, bid, abalance, filler) VALUES {row} ON CONFLICT DO NOTHING")
    large = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i"
    execute(f"UPDATE {BUSY} SET note = ({large}) WHERE aid = 1000000")


def topic_of_runs_deleted(stage: YearStage) -> None:
    """Which only tells whether programs run."""
    topic, admin = f"{stage.pipeline}.status", _admin(stage)
    admin.delete_topics([topic])[topic].result(ANSWER_S)


def _set(stage: YearStage, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = _admin(stage)
    admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)


def _admin(stage: YearStage) -> AdminClient:
    return AdminClient({"bootstrap.servers": stage.kafka.bootstrap_servers, "log_level": 2})
