"""Ranges of several partitions as one sequence of events, in the order of their positions.

In: exact ranges of offsets. Out: their events, merged. One event of each partition is decoded at a time, and the bytes
fetched ahead are bounded: a partition that is ahead of the others is paused (I9). Each range must hold as many records
as its cuts say (I7).

An event of a whole table (a truncate, the begin or end of a copy) is in every partition, and is returned once. Copied
rows may have the same position: a truncate or a begin comes before them, the end of the copy behind them.
"""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from walbridge.consumer.client import partitions_of, record_of, refusal
from walbridge.consumer.event import Event, KafkaRecord, Operation
from walbridge.schemas.avro.framing import is_event
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.position import Position

AHEAD_BYTES = 16 * 2**20
SILENCE_S = 60.0
"""The records of a cut become visible a moment after the cut at most; a broker may be away for a while."""
_SLICE_S = 0.5


@dataclass(slots=True)
class _RangeBuffer:
    """The range of one partition, with the records that were fetched and not returned yet."""

    part: PartitionRange
    records: deque[KafkaRecord] = field(default_factory=deque)
    received: int = 0
    is_paused: bool = False

    @property
    def is_over(self) -> bool:
        return self.received >= self.part.records

    @property
    def needs_records(self) -> bool:
        return not self.records and not self.is_over


_RANK = {Operation.TRUNCATE: 0, Operation.COPY_BEGIN: 1, Operation.COPY_END: 3}
_OF_ROWS = 2
_Head = tuple[tuple[int, int], int, int, Event]


class MergedRanges:
    """Reads one set of ranges after the other, with one consumer."""

    def __init__(self, consumer: Consumer, decode: Callable[[KafkaRecord], Event]) -> None:
        self._consumer, self._decode = consumer, decode
        self._buffers: dict[tuple[str, int], _RangeBuffer] = {}
        self._ahead_bytes = 0

    def read(self, ranges: Iterable[PartitionRange]) -> Iterator[Event]:
        """The events of these ranges. Events of the ranges read before can no longer be iterated.

        Raises:
            OperatorError: records are gone, or are not of this pipeline.
            KafkaAway: no broker answers.
        """
        # A partition that is paused stays so in librdkafka, also where it is assigned again.
        if paused := [TopicPartition(*partition) for partition, buffer in self._buffers.items() if buffer.is_paused]:
            self._consumer.resume(paused)
        mine = self._buffers = {(part.topic, part.partition): _RangeBuffer(part) for part in ranges}
        self._ahead_bytes = 0
        self._consumer.assign(
            [TopicPartition(*partition, buffer.part.start_offset) for partition, buffer in mine.items()]
        )
        return self._merged(mine)

    def _merged(self, mine: dict[tuple[str, int], _RangeBuffer]) -> Iterator[Event]:
        heads: list[_Head] = []
        buffers = list(mine.values())
        partitions = Counter(buffer.part.topic for buffer in buffers)
        # Events of whole tables that were returned, and in how many partitions each is still to come. Such an event is
        # not always the last one returned: in a partition that is ahead, rows of the same position may follow it.
        partitions_left: dict[tuple[Position, int, int], int] = {}
        for number, buffer in enumerate(buffers):
            self._push(heads, number, buffer)
        while heads:
            _, rank, number, event = heapq.heappop(heads)
            of_table = event.position, rank, event.relation.table.relation_id
            left = partitions_left.pop(of_table, 0)
            if not left:
                yield event
                if self._buffers is not mine:
                    raise RuntimeError("these events are of the past: what came after them was asked for meanwhile")
                left = 1 if rank == _OF_ROWS else partitions[event.topic]
            if left > 1:
                partitions_left[of_table] = left - 1
            self._push(heads, number, buffers[number])

    def _push(self, heads: list[_Head], number: int, buffer: _RangeBuffer) -> None:
        heard_s = time.monotonic()
        while buffer.needs_records:
            self._pause_and_resume(buffer)
            message = self._consumer.poll(_SLICE_S)
            if message is not None and self._accept(message):
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > SILENCE_S:
                part = buffer.part
                if partitions_of(self._consumer, part.topic) is None:  # a client that knew it is not told that it went
                    raise _topic_deleted(part.topic)
                raise KafkaAway(f"{part.topic}[{part.partition}] brings nothing for {SILENCE_S:g} s")
        if buffer.records:
            record = buffer.records.popleft()
            self._ahead_bytes -= len(record.value)
            event = self._decode(record)
            heapq.heappush(heads, (event.position, _RANK.get(event.operation, _OF_ROWS), number, event))

    def _pause_and_resume(self, buffer_in_need: _RangeBuffer) -> None:
        """Once much is fetched, pause the partitions that have records, and resume those that need some."""
        if self._ahead_bytes < AHEAD_BYTES and not buffer_in_need.is_paused:
            return
        resumed, paused = [], []
        for partition, buffer in self._buffers.items():
            if buffer.needs_records and buffer.is_paused:
                resumed.append(TopicPartition(*partition))
            elif buffer.records and not buffer.is_paused and self._ahead_bytes >= AHEAD_BYTES:
                paused.append(TopicPartition(*partition))
            else:
                continue
            buffer.is_paused = not buffer.is_paused
        if paused:
            self._consumer.pause(paused)
        if resumed:
            self._consumer.resume(resumed)

    def _accept(self, message: Message) -> bool:
        """Buffer a record; False where the message is none of a range."""
        error, partition = message.error(), (message.topic() or "", message.partition() or 0)
        if error is not None:
            is_deleted = error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
            if is_deleted or error.code() == KafkaError._UNKNOWN_TOPIC:
                raise _topic_deleted(partition[0])
            if (refused := refusal(error, f"{partition[0]}[{partition[1]}]")) is not None:
                raise refused
            return False
        buffer = self._buffers.get(partition)
        offset = message.offset() or 0
        if buffer is None or buffer.is_over:
            return False
        if offset >= buffer.part.end_offset:
            raise OperatorError(
                f"{partition[0]}[{partition[1]}] has {buffer.received} records from {buffer.part.start_offset} to "
                f"{buffer.part.end_offset}, its cuts name {buffer.part.records}",
                remedy="begin anew with an empty target and another group.id; see who else writes there",
            )
        value = message.value()
        if value is not None and not is_event(value):
            return False
        buffer.received += 1
        if value is None:
            return True  # a tombstone: its delete came before it
        record = record_of(message)
        buffer.records.append(record)
        self._ahead_bytes += len(record.value)
        return True


def _topic_deleted(topic: str) -> OperatorError:
    return OperatorError(
        f"topic {topic} is gone, and with it records that cuts name",
        remedy="once walbridge tables calls its table current in another topic, begin anew with an empty target and "
        "another group.id",
    )
