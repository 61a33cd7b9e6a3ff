"""Topics in memory, in the place of ``KafkaLog``: what the job reads of Kafka, without Kafka and Spark.

Offsets without a record are those of transaction markers. What an end must be waited for, and what
is gone, is the real log's to tell: here it is noted that it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.kafka.ranges import Range


class Record(NamedTuple):
    offset: int
    value: bytes
    key: bytes | None = None


@dataclass(frozen=True)
class Frame:
    """As much of a DataFrame as reading control topics takes; in no order, as tasks end."""

    records: tuple[Record, ...]
    columns: tuple[str, ...] = ()

    def select(self, *columns: str) -> Frame:
        return Frame(self.records, columns)

    def collect(self) -> list[Any]:
        row = NamedTuple("row", [(name, Any) for name in self.columns])  # type: ignore[misc]
        return [row(*(getattr(record, name) for name in self.columns)) for record in reversed(self.records)]


@dataclass
class MemoryTopics:
    """Records by partition; ``visible`` is what was waited for."""

    records: dict[PartitionId, list[Record]] = field(default_factory=dict)
    begins: dict[PartitionId, int] = field(default_factory=dict)
    visible: list[Mapping[PartitionId, Range]] = field(default_factory=list)
    reads: list[Mapping[PartitionId, Range]] = field(default_factory=list)

    def add(self, topic: str, value: bytes, partition: int = 0, key: bytes | None = None) -> int:
        """One record and the marker of its transaction; returns the record's offset."""
        log = self.records.setdefault((topic, partition), [])
        log.append(Record(2 * len(log), value, key))
        return log[-1].offset

    def partition_count(self, topic: str) -> int:
        return len([place for place in self.records if place[0] == topic])

    def starts(self, places: Iterable[PartitionId]) -> dict[PartitionId, int]:
        return {place: self.begins.get(place, 0) for place in places}

    def ends(self, places: Iterable[PartitionId]) -> dict[PartitionId, int]:
        return {place: 2 * len(self.records.get(place, [])) for place in places}

    def undecided_since(self, _place: PartitionId) -> None:
        """All is decided."""

    def wait_visible(self, ranges: Mapping[PartitionId, Range]) -> None:
        self.visible.append(ranges)
        for place, (start, _) in ranges.items():
            if start < self.begins.get(place, 0):
                raise OperatorError("records are gone", remedy="")

    def read(self, ranges: Mapping[PartitionId, Range], _rows: int = 0) -> Frame:
        self.reads.append(ranges)
        found = [
            record
            for place, (start, end) in ranges.items()
            for record in self.records.get(place, [])
            if start <= record.offset < end
        ]
        return Frame(tuple(found))

    def fetch_few(self, _ranges: Mapping[PartitionId, Range], _value_bytes_max: int) -> None:
        """All are read by ``read``."""

    def fetch_many(self, *_: object, **__: object) -> None:
        """All are read by ``read``."""

    def close(self) -> None:
        """Nothing is open."""
