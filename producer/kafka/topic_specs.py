"""What each topic of a pipeline must be: its partitions, its settings, and how large a record it takes.

In: settings. Out: specifications, which ``TopicAdmin`` makes and compares. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from walbridge.runtime.heap import record_bytes_max
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import (
    cuts_topic,
    messages_topic,
    metadata_topic,
    progress_topic,
    status_topic,
    transaction_topic,
)

FRAMING_BYTES = 256
"""More than a batch (61 bytes) and a record in it (36) take around key, value and headers."""
SIZE = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """``fixed_partitions`` False: a topic that exists already may have any number of partitions."""

    name: str
    partition_count: int
    config: Mapping[str, str]
    fixed_partitions: bool = True


def control_topics(settings: Settings) -> list[TopicSpec]:
    """Metadata, cuts and progress: one partition each."""
    retention = settings.topics.retention_ms
    cuts = {"cleanup.policy": "delete", "retention.ms": str(-1 if retention < 0 else 2 * retention)}
    size = {SIZE: str(message_bytes_max(settings))}
    compact = {"cleanup.policy": "compact"}
    return [
        TopicSpec(metadata_topic(settings.name), 1, compact | size),
        TopicSpec(cuts_topic(settings.name), 1, cuts | size),
        TopicSpec(progress_topic(settings.name), 1, compact | size),
    ]


def status_topic_spec(settings: Settings) -> TopicSpec:
    """Of what the producer says of itself: no pipeline stops where it cannot be made or written."""
    config = {"cleanup.policy": "compact", SIZE: str(message_bytes_max(settings))}
    return TopicSpec(status_topic(settings.name), 1, config)


def data_topic_spec(settings: Settings, topic: str, *, has_key: bool) -> TopicSpec:
    """A table's topic. A table without a key has one partition: its rows have no other order."""
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(settings.topics.retention_ms),
        "message.timestamp.type": "LogAppendTime",
        SIZE: str(message_bytes_max(settings)),
    }
    return TopicSpec(topic, settings.topics.partitions if has_key else 1, config, fixed_partitions=not has_key)


def event_topics_of_no_table(settings: Settings) -> list[str]:
    """Beside those of tables, by setting."""
    asked_for = (settings.postgres.messages, messages_topic), (settings.topics.transaction_topic, transaction_topic)
    return [topic(settings.name) for is_asked_for, topic in asked_for if is_asked_for]


def message_bytes_max(settings: Settings) -> int:
    """Of one record with its envelope; a row may stand in it twice, before and after."""
    return record_bytes_max(settings.producer.row_bytes_max)


def record_limit(settings: Settings) -> int:
    """Bytes of key, value and headers that Kafka takes of one record: the rest is the framing of record and batch."""
    return message_bytes_max(settings) - FRAMING_BYTES
