"""What each topic of a pipeline must be: its partitions, its settings, and how large a record it takes.

In: settings. Out: specifications, which ``TopicAdmin`` makes and compares. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
SIZE, SEGMENT = "max.message.bytes", "segment.ms"
_STATUS_SEGMENT_MS = 4 * 3_600_000
"""Kafka compacts whole segments, by default of a week: 60,000 records of one program. Some hosted brokers take no
shorter ones than this."""
_BROKERS_CLOCK = {"message.timestamp.type": "LogAppendTime"}
"""By default Kafka keeps records by the clock of their producer, and refuses those of one that is an hour ahead of its
own (KIP-937, KIP-1030)."""
_CUTS_RETENTION = 2
"""Cuts are kept so many times as long as records."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """``config``: what it must have. ``made_with``: what it is made with besides, and may be otherwise.
    ``fixed_partitions`` False: a topic that exists already may have any number of partitions."""

    name: str
    partition_count: int
    config: Mapping[str, str]
    made_with: Mapping[str, str] = field(default_factory=dict)
    fixed_partitions: bool = True

    @property
    def first_config(self) -> dict[str, str]:
        """What it is made with."""
        return {**self.config, **self.made_with}


def control_topics(settings: Settings) -> list[TopicSpec]:
    """Metadata, cuts and progress: one partition each."""
    retention = settings.topics.retention_ms
    cuts = {"cleanup.policy": "delete", "retention.ms": str(-1 if retention < 0 else _CUTS_RETENTION * retention)}
    size = {SIZE: str(message_bytes_max(settings))}
    compact = {"cleanup.policy": "compact"}
    return [
        TopicSpec(metadata_topic(settings.name), 1, compact | size, _BROKERS_CLOCK),
        TopicSpec(cuts_topic(settings.name), 1, cuts | size, _BROKERS_CLOCK),
        TopicSpec(progress_topic(settings.name), 1, compact | size, _BROKERS_CLOCK),
    ]


def status_topic_spec(settings: Settings) -> TopicSpec:
    """Of what the producer says of itself: no pipeline stops where it cannot be made or written."""
    size = {SIZE: str(message_bytes_max(settings))}
    config = {"cleanup.policy": "compact", SEGMENT: str(_STATUS_SEGMENT_MS)} | size
    return TopicSpec(status_topic(settings.name), 1, config, _BROKERS_CLOCK)


def data_topic_spec(settings: Settings, topic: str, *, has_key: bool, is_compacted: bool = False) -> TopicSpec:
    """A table's topic. A table without a key has one partition: its rows have no other order.

    Compaction leaves alone what a cut that is kept may name: a hole in a cut's range is a loss (I7).
    """
    retention_ms = settings.topics.retention_ms
    kept = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    if is_compacted:
        kept = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(_CUTS_RETENTION * retention_ms)}
    config = kept | _BROKERS_CLOCK | {SIZE: str(message_bytes_max(settings))}
    return TopicSpec(topic, settings.topics.partitions if has_key else 1, config, fixed_partitions=not has_key)


def event_topics_of_no_table(settings: Settings) -> list[str]:
    """Beside those of tables, by setting."""
    asked_for = (settings.postgres.messages, messages_topic), (settings.topics.transaction_topic, transaction_topic)
    return [topic(settings.name) for is_asked_for, topic in asked_for if is_asked_for]


def may_stay(name: str, found: str, value: str) -> bool:
    """Whether what a topic has of this setting does as well as the value that it is made with."""
    if name == SIZE:
        return int(found) >= int(value)
    if name == SEGMENT:
        return int(found) <= int(value)
    return found == value


def message_bytes_max(settings: Settings) -> int:
    """Of one record with its envelope; a row may stand in it twice, before and after."""
    return record_bytes_max(settings.producer.row_bytes_max)


def record_limit(settings: Settings) -> int:
    """Bytes of key, value and headers that Kafka takes of one record: the rest is the framing of record and batch."""
    return message_bytes_max(settings) - FRAMING_BYTES
