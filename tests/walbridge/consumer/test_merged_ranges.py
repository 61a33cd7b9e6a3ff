"""Ranges of several partitions as one sequence, from a client that brings what it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from walbridge.consumer.event import KafkaRecord, Operation
from walbridge.consumer.merged_ranges import MergedRanges
from walbridge.schemas.avro.framing import SINGLE_OBJECT
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.position import Lsn, Position

TOPIC = "p.public.t"
AT_E = Position(Lsn(100), -1)


class Brings:
    """A consumer of these operations, by partition; each is at one position, as on a source that stands still."""

    def __init__(self, *partitions: list[Operation]) -> None:
        self.messages = [
            SimpleNamespace(
                topic=lambda: TOPIC,
                partition=lambda number=number: number,
                offset=lambda offset=offset: offset,
                key=lambda: None,
                value=lambda operation=operation: SINGLE_OBJECT.marker + operation.encode(),
                headers=lambda: None,
                error=lambda: None,
            )
            for number, operations in enumerate(partitions)
            for offset, operation in enumerate(operations)
        ]
        self.ranges = [PartitionRange(TOPIC, number, 0, len(of), len(of)) for number, of in enumerate(partitions)]

    def assign(self, _: object) -> None: ...

    def poll(self, _: float) -> object:
        return self.messages.pop(0)


def decoded(record: KafkaRecord) -> Any:
    relation = SimpleNamespace(table=SimpleNamespace(relation_id=7))
    operation = Operation(record.value.removeprefix(SINGLE_OBJECT.marker).decode())
    return SimpleNamespace(operation=operation, position=AT_E, relation=relation, topic=record.topic)


def test_end_of_a_copy_comes_once_though_rows_of_its_position_follow_it_in_one_partition() -> None:
    """``walbridge copy --keys`` behind a copy, and nothing was committed between the two."""
    begin, end, row = Operation.COPY_BEGIN, Operation.COPY_END, Operation.COPY
    brings = Brings([begin, row, end, row, row], [begin, end], [begin, row, row, end])

    found = [event.operation for event in MergedRanges(brings, decoded).read(brings.ranges)]  # type: ignore[arg-type]

    assert found == [begin, row, row, row, end, row, row]
