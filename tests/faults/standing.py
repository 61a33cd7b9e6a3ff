"""Where a pipeline stands: what a refused start must leave as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.fix_producer import ProducerUnderTest, refusal_of
from walbridge.schemas.topics import status_topic


@dataclass(frozen=True)
class Standing:
    """``slot``: restart_lsn and confirmed_flush_lsn; ``ends``: end offset of every partition, but not of what programs
    say of themselves: a refused start says why it ended."""

    slot: tuple[Any, ...] | None
    ends: dict[tuple[str, int], int]


def standing(producer: ProducerUnderTest) -> Standing:
    producer.slot_at_rest()
    query = "SELECT restart_lsn::text, confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    found = producer.database.rows(query, (producer.slot,))
    return Standing(found[0] if found else None, _ends(producer))


def _ends(producer: ProducerUnderTest) -> dict[tuple[str, int], int]:
    consumer = Consumer({"bootstrap.servers": producer.kafka.bootstrap_servers, "group.id": "tests"})
    try:
        topics = consumer.list_topics(timeout=30).topics
        names = {name for name in topics if name.startswith(f"{producer.name}.")} - {status_topic(producer.name)}
        places = [(name, partition) for name in names for partition in topics[name].partitions]
        ends = {place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=30)[1] for place in places}
    finally:
        consumer.close()
    # A control topic that is missing is made before anything is compared: empty, it says nothing.
    return {place: end for place, end in ends.items() if end}


def refused_and_untouched(producer: ProducerUnderTest, what: str, remedy: str) -> None:
    """A start ends with exit code 2, says what and how, and leaves slot and topics where they stand."""
    before = standing(producer)
    said, _, mends = refusal_of(producer.start()).partition("\nremedy: ")
    assert what in said, said
    assert remedy in mends, mends
    assert standing(producer) == before
