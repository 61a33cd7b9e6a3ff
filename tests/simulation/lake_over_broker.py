"""The simulated broker as the job reads it: what the producer really wrote, with markers and aborted records between.

In: its logs. Out: what stands under ``job_over`` for ``KafkaLog``, the records of a plan, and requests of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import MagicMock

from pyspark.sql import SparkSession

from tests.simulation.broker import COMMITTED, Broker, Entry
from tests.simulation.history import COPIED
from tests.simulation.model import SLOT
from tests.spark_consumer.events import PIPELINE, Log
from tests.spark_consumer.memory_pipeline import MemoryPipeline, PlannedInMemory
from tests.spark_consumer.memory_topics import Frame, MemoryTopics, Record
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.control.table_request import COPY, TableRequest, encode_request, request_key
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.control.copy_requests import CopyRequests
from walbridge.spark_consumer.kafka.many.spooled_records import ignored
from walbridge.spark_consumer.kafka.ranges import Range, pieces
from walbridge.spark_consumer.plan.plan import Plan


@dataclass
class BrokerTopics(MemoryTopics):
    """Control topics, as a read_committed reader has them."""

    broker: Broker = field(kw_only=True)

    def _entries(self, place: PartitionId) -> list[Entry]:
        return self.broker.logs[place].committed() if place in self.broker.logs else []

    def partition_count(self, topic: str) -> int:
        return len({partition for each, partition in self.broker.logs if each == topic})

    def ends(self, places: Iterable[PartitionId]) -> dict[PartitionId, int]:
        logs = self.broker.logs
        return {place: logs[place].stable_end if place in logs else 0 for place in places}

    def read(self, ranges: Mapping[PartitionId, Range], _rows: int = 0) -> Frame:
        found = [
            Record(entry.offset, entry.value, entry.key)
            for place, (start, end) in ranges.items()
            for entry in self._entries(place)
            if start <= entry.offset < end
        ]
        return Frame(tuple(found))


class BrokerPipeline(MemoryPipeline):
    """A pipeline whose producer is the real one."""

    def __init__(self, broker: Broker, spark: SparkSession) -> None:
        super().__init__(BrokerTopics(broker=broker), visits=True)
        self._broker, self._spark = broker, spark

    @contextmanager
    def planned(self, _log: object, plan: Plan, on_step: Callable[[], None] = ignored) -> Iterator[PlannedInMemory]:
        yield PlannedOverBroker(self.log, plan, self.lost, on_step, broker=self._broker, spark=self._spark)


@dataclass(frozen=True)
class PlannedOverBroker(PlannedInMemory):
    """What is readable in the plan's ranges."""

    broker: Broker = field(kw_only=True)
    spark: SparkSession = field(kw_only=True)

    def of(self, topic: str) -> TableRecords:
        log = Log()
        for place, part in self.plan.ranges.items():
            if place[0] == topic:
                entries = self._entries(place, (part.start_offset, part.end_offset))
                assert len(entries) == part.records, "a plan says how many records it reads"
                log.rows += [_row(topic, place[1], entry) for entry in entries]
        return replace(log.on_driver(topic), on_step=self.on_step, frame=partial(log.frame, self.spark))

    def _entries(self, place: PartitionId, bounds: Range) -> list[Entry]:
        entries = self.broker.log(*place).entries
        found = [entries[start:end] for start, end in pieces(bounds, self.plan.gaps.get(place, ()))]
        return [entry for piece in found for entry in piece if entry.state == COMMITTED]


class RequestsToBroker(CopyRequests):
    """Those for the table that comes; nobody can copy the others here."""

    def __init__(self, broker: Broker, kafka: Any, settings: Settings) -> None:
        super().__init__(MagicMock(), kafka, settings)
        self._broker = broker

    def _write(self, slot: str, relation_ids: Sequence[int]) -> None:
        if COPIED in relation_ids:
            ask(self._broker, by_lake=True)


def ask(broker: Broker, *, by_lake: bool = False) -> None:
    """For a copy of the table that comes."""
    request = TableRequest(COPY, COPIED, 0, by_lake=by_lake)
    broker.append_plain((progress_topic(PIPELINE), 0), request_key(SLOT, request), encode_request(request))


def _row(topic: str, partition: int, entry: Entry) -> dict[str, object]:
    value = entry.value or None
    return {"topic": topic, "partition": partition, "offset": entry.offset, "key": entry.key, "value": value}
