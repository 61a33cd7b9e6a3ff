"""Reads a topic as any program with Confluent's library does: it has the broker, the registry and the topic's name.

In: a broker, a registry, a topic. Out: key and value of every record, decoded by ``AvroDeserializer`` alone, and the
rows that a reader of Debezium's envelopes makes of them. Nothing of walbridge takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.topic_reader import TopicReader

Record = Mapping[str, Any]
ANSWER_S = 60


class ConfluentReader:
    """One topic's records."""

    def __init__(self, bootstrap_servers: str, registry_url: str, topic: str) -> None:
        self._topic = topic
        self._reader = TopicReader(bootstrap_servers, topic)
        # By default the client first asks for associations, an endpoint of newer registries, which this one lacks.
        self._decode = AvroDeserializer(
            SchemaRegistryClient({"url": registry_url, "timeout": ANSWER_S}),
            conf={"subject.name.strategy": topic_subject_name_strategy},
        )

    def records(self) -> list[tuple[int, Record | None, Record]]:
        """Partition, key and value of each record that is there now, by partition and offset."""
        found = sorted(self._reader.read_to_end(), key=lambda each: (each.partition() or 0, each.offset() or 0))
        return [
            (each.partition() or 0, self._decoded(each, MessageField.KEY), self._decoded(each, MessageField.VALUE))
            for each in found
        ]

    def _decoded(self, message: Message, field: MessageField) -> Any:
        data = message.key() if field == MessageField.KEY else message.value()
        return self._decode(data, SerializationContext(self._topic, field))

    def rows(self) -> dict[str, Record]:
        """By key: the rows that are left once every event took place, in the order of positions.

        What an update left out is as it was before; behind a change of the key, as it was under the old one.
        """
        rows: dict[str, Record] = {}
        there: dict[str, int] = {}
        for partition, key, event in sorted(self.records(), key=lambda each: _position(each[2])):
            if event["op"] == "t":
                there = {each: place for each, place in there.items() if place != partition}
            elif event["op"] == "d":
                del there[repr(key)]
            elif event["op"] != "m" and key is not None:
                before = event["before"]
                old = repr(key if before is None else {name: before[name] for name in key})
                rows[repr(key)] = {**event["after"], **{name: rows[old][name] for name in event["unchanged"] or ()}}
                there[repr(key)] = partition
        return {key: row for key, row in rows.items() if key in there}

    def close(self) -> None:
        self._reader.close()


def _position(event: Record) -> tuple[int, int]:
    return event["source"]["commit_lsn"], event["source"]["ordinal"]
