"""Ranges of several partitions as one sequence of events, in the order of their positions.

In: exact ranges of offsets. Out: their events, merged. One event of each partition is decoded at a time, and what is
fetched ahead is bounded: a partition that is ahead of the others pauses (I9). Each range must hold as many records as
its cuts say (I7).

What is of a whole table (a truncate, the begin or end of a copy) is in every partition, and comes out once: copied rows
may have its very position, so it goes before them, and the end of their copy behind them.
"""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from walbridge.consumer.client import partitions_of, record_of, refusal
from walbridge.consumer.event import Event, KafkaRecord, Operation
from walbridge.schemas.control.cut import PartitionRange
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.position import Position

AHEAD_BYTES = 16 * 2**20
SILENCE_S = 60.0
"""The records of a cut become visible a moment after the cut at most; a broker may be away for a while."""
_SLICE_S = 0.5


@dataclass(slots=True)
class _Lane:
    """One partition's range, as far as it has come."""

    part: PartitionRange
    waiting: deque[KafkaRecord] = field(default_factory=deque)
    received: int = 0
    is_paused: bool = False

    @property
    def is_over(self) -> bool:
        return self.received >= self.part.records

    @property
    def starves(self) -> bool:
        return not self.waiting and not self.is_over


_RANK = {Operation.TRUNCATE: 0, Operation.COPY_BEGIN: 1, Operation.COPY_END: 3}
_OF_ROWS = 2
_Head = tuple[tuple[int, int], int, int, Event]


class MergedRanges:
    """Reads one set of ranges after the other, with one consumer."""

    def __init__(self, consumer: Consumer, decode: Callable[[KafkaRecord], Event]) -> None:
        self._consumer, self._decode = consumer, decode
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._ahead_bytes = 0

    def read(self, ranges: Iterable[PartitionRange]) -> Iterator[Event]:
        """The events of these ranges. Whatever was read before is given up.

        Raises:
            OperatorError: records are gone, or are not of this pipeline.
            KafkaAway: no broker answers.
        """
        # A partition that is paused stays so in librdkafka, also where it is assigned again.
        if paused := [TopicPartition(*place) for place, lane in self._lanes.items() if lane.is_paused]:
            self._consumer.resume(paused)
        mine = self._lanes = {(part.topic, part.partition): _Lane(part) for part in ranges}
        self._ahead_bytes = 0
        self._consumer.assign([TopicPartition(*place, lane.part.start_offset) for place, lane in mine.items()])
        return self._merged(mine)

    def _merged(self, mine: dict[tuple[str, int], _Lane]) -> Iterator[Event]:
        heads: list[_Head] = []
        lanes = list(mine.values())
        partitions = Counter(lane.part.topic for lane in lanes)
        # What of whole tables has come out, and in how many partitions it is yet to be passed: rows of its position may
        # follow it in a partition that is ahead, so it need not be what came out last.
        told: dict[tuple[Position, int, int], int] = {}
        for number, lane in enumerate(lanes):
            self._push(heads, number, lane)
        while heads:
            _, rank, number, event = heapq.heappop(heads)
            of_table = event.position, rank, event.relation.table.relation_id
            left = told.pop(of_table, 0)
            if not left:
                yield event
                if self._lanes is not mine:
                    raise RuntimeError("these events are of the past: what came after them was asked for meanwhile")
                left = 1 if rank == _OF_ROWS else partitions[event.topic]
            if left > 1:
                told[of_table] = left - 1
            self._push(heads, number, lanes[number])

    def _push(self, heads: list[_Head], number: int, lane: _Lane) -> None:
        heard_s = time.monotonic()
        while lane.starves:
            self._balance(lane)
            message = self._consumer.poll(_SLICE_S)
            if message is not None and self._take(message):
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > SILENCE_S:
                part = lane.part
                if partitions_of(self._consumer, part.topic) is None:  # a client that knew it is not told that it went
                    raise _topic_gone(part.topic)
                raise KafkaAway(f"{part.topic}[{part.partition}] brings nothing for {SILENCE_S:g} s")
        if lane.waiting:
            record = lane.waiting.popleft()
            self._ahead_bytes -= len(record.value)
            event = self._decode(record)
            heapq.heappush(heads, (event.position, _RANK.get(event.operation, _OF_ROWS), number, event))

    def _balance(self, starving: _Lane) -> None:
        """Let only partitions that are needed come once much is here; the others are fetched again later."""
        if self._ahead_bytes < AHEAD_BYTES and not starving.is_paused:
            return
        resumed, paused = [], []
        for place, lane in self._lanes.items():
            if lane.starves and lane.is_paused:
                resumed.append(TopicPartition(*place))
            elif lane.waiting and not lane.is_paused and self._ahead_bytes >= AHEAD_BYTES:
                paused.append(TopicPartition(*place))
            else:
                continue
            lane.is_paused = not lane.is_paused
        if paused:
            self._consumer.pause(paused)
        if resumed:
            self._consumer.resume(resumed)

    def _take(self, message: Message) -> bool:
        """Whether it is a record of a range."""
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is not None:
            gone = error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
            if gone or error.code() == KafkaError._UNKNOWN_TOPIC:
                raise _topic_gone(place[0])
            if (refused := refusal(error, f"{place[0]}[{place[1]}]")) is not None:
                raise refused
            return False
        lane = self._lanes.get(place)
        offset = message.offset() or 0
        if lane is None or lane.is_over:
            return False
        if offset >= lane.part.end_offset:
            raise OperatorError(
                f"{place[0]}[{place[1]}] has {lane.received} records from {lane.part.start_offset} to "
                f"{lane.part.end_offset}, its cuts name {lane.part.records}",
                remedy="begin anew with an empty target and another group.id; see who else writes there",
            )
        lane.received += 1
        if message.value() is None:
            return True  # a tombstone: its delete came before it
        record = record_of(message)
        lane.waiting.append(record)
        self._ahead_bytes += len(record.value)
        return True


def _topic_gone(topic: str) -> OperatorError:
    return OperatorError(
        f"topic {topic} is gone, and with it records that cuts name",
        remedy="once walbridge tables calls its table current in another topic, begin anew with an empty target and "
        "another group.id",
    )
