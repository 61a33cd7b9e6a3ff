"""The conformance set as files: read for tests, and written by ``python -m tests.conformance.record``.

In: ``schemas/conformance``. Out: records as a consumer is given them, the relation versions and cuts among them, and
what is expected of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from walbridge.consumer.event import EventDecoder, KafkaRecord
from walbridge.schemas.control.cut import Cut, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata

FOLDER = Path(__file__).parents[2] / "schemas" / "conformance"
PIPELINE = "shop"
RECORDS = "records.jsonl"
OPTIONAL = "optional/"
"""Before the names of the files of the second set, which has the topics that are there by setting."""
CONTROL = (".metadata", ".cuts")
"""What the names of the topics end with that say how others are read."""
MESSAGES, TRANSACTIONS = ".messages", ".transaction"
"""The same of those by setting that are of no table."""


def lines(name: str) -> list[Any]:
    """Of one file."""
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def write_lines(folder: Path, name: str, values: Iterable[Any]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def record_line(record: KafkaRecord) -> dict[str, Any]:
    """One line of ``records.jsonl``."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": _text(record.key),
        "value": _text(record.value or None),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def records(name: str = RECORDS) -> list[KafkaRecord]:
    """Every record of a file, by topic, partition and offset."""
    return [
        KafkaRecord(
            line["topic"],
            line["partition"],
            line["offset"],
            None if line["key"] is None else base64.b64decode(line["key"]),
            base64.b64decode(line["value"] or ""),
            tuple((name, base64.b64decode(value)) for name, value in line["headers"]),
        )
        for line in lines(name)
    ]


class Recording:
    """What a reader makes of the records without a broker."""

    def __init__(self, found: Iterable[KafkaRecord]) -> None:
        by_topic: dict[str, list[KafkaRecord]] = {}
        for record in found:
            by_topic.setdefault(record.topic, []).append(record)
        metadata, cuts = (by_topic.pop(next(topic for topic in by_topic if topic.endswith(end))) for end in CONTROL)
        self.relations = [
            each for record in metadata if isinstance(each := decode_metadata(record.value), RelationRecord)
        ]
        self.cuts: list[tuple[int, Cut]] = [(record.offset, decode_cut(record.value)) for record in cuts]
        every = [record for topic in sorted(by_topic) for record in by_topic[topic]]
        self.messages = [record for record in every if record.topic.endswith(MESSAGES)]
        self.boundaries = [record for record in every if record.topic.endswith(TRANSACTIONS)]
        """Begins and ends of transactions."""
        of_tables = [record for record in every if not record.topic.endswith((MESSAGES, TRANSACTIONS))]
        self.data = [record for record in of_tables if record.value]
        """Of tables, without tombstones."""
        self.tombstones = [record for record in of_tables if not record.value]
        self.places = {(each.topic, each.partition, each.offset): bool(each.value) for each in every}
        """Of every record but those of metadata and cuts: whether it is none of the tombstones."""

    def decoder(self) -> EventDecoder:
        return decoder_of(self.relations)


def decoder_of(relations: Sequence[RelationRecord]) -> EventDecoder:
    """Of events that these versions wrote."""
    by_frame = {each.frame_id: each for each in relations}
    versions = {(each.frame_id, each.table.relation_id): each for each in relations}
    keys = {each.key_frame_id or "": each.key_schema or "" for each in relations}

    def version(frame_id: str, relation_id: int | None) -> RelationRecord:
        return by_frame[frame_id] if relation_id is None else versions[frame_id, relation_id]

    return EventDecoder(version, keys.__getitem__)
