"""Reads a pipeline's topics once, as they grow, and holds every record against the cuts.

In: a broker and a pipeline's name. Out: an assertion, or nothing. A read_committed reader must
see: cuts whose chain is unbroken; in each partition exactly the offsets that the cuts name, in
their order, so nothing is there twice and nothing besides; and positions that only rise, so that no
event is in its topic twice (I3, I4). Memory does not grow with the events.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict, deque

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.replay import check_chain
from tests.topic_reader import Topics
from walbridge.schemas.control.cut import Cut, PartitionRange, decode_cut
from walbridge.schemas.position import Position
from walbridge.schemas.topics import cuts_topic

READ_S = 60.0


class Ledger:
    """One reader of all topics. Use as a context manager."""

    def __init__(self, bootstrap_servers: str, pipeline: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = Topics(bootstrap_servers, pipeline)  # decodes, and reads metadata
        self._cuts = TopicPartition(cuts_topic(pipeline), 0, 0)
        self._cuts_reader = reader_of(bootstrap_servers)
        self._cuts_reader.assign([self._cuts])
        self._rows_reader = reader_of(bootstrap_servers)
        self._assigned: set[tuple[str, int]] = set()
        self._unread: defaultdict[tuple[str, int], deque[Message]] = defaultdict(deque)
        self._newest: dict[tuple[str, int, str], Position] = {}
        self.cuts: list[Cut] = []
        self._offsets: list[int] = []
        self._read_up_to = -1
        """Where there was no more. The client says it once: not again for as long as nothing comes."""
        self.events = 0

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self._topics.__exit__()
        self._cuts_reader.close()
        self._rows_reader.close()

    def read_to(self, lsn: int) -> None:
        """Read up to a complete cut that covers this LSN; check all that came since the last call."""
        first, deadline_s = len(self.cuts), time.monotonic() + READ_S
        while not (self.cuts and self.cuts[-1].complete and self.cuts[-1].end_lsn >= lsn):
            assert time.monotonic() < deadline_s, f"no cut at {lsn:X} became visible within {READ_S:.0f} s"
            self._read_cuts()
        self._check_from(first)

    def read_to_end(self) -> None:
        """With the producer gone: read every cut there is, the idle ones too."""
        first, deadline_s = len(self.cuts), time.monotonic() + READ_S
        end = self._cuts_reader.get_watermark_offsets(self._cuts, timeout=READ_S)[1]
        while self._read_up_to < end:
            assert time.monotonic() < deadline_s, f"of {end} offsets of the cuts only {self._read_up_to} became visible"
            self._read_cuts()
        self._check_from(first)

    def _read_cuts(self) -> None:
        """Take what is there."""
        for message in self._cuts_reader.consume(500, 0.2):
            error = message.error()
            if error is None:
                self.cuts.append(decode_cut(message.value() or b""))
                self._offsets.append(message.offset() or 0)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_up_to = message.offset() or 0

    def _check_from(self, first: int) -> None:
        check_chain(self.cuts)
        for cut in self.cuts[first:]:
            for part in cut.partitions:
                self._check_range(cut, part)

    def check_nothing_unnamed(self) -> None:
        """With the producer gone: what is visible behind the last cut belongs to none, nor does anything in a
        partition that no cut names."""
        described = self._rows_reader.list_topics(timeout=READ_S).topics
        for topic in {topic for topic, _ in self._assigned}:
            unnamed = {(topic, partition) for partition in described[topic].partitions} - self._assigned
            self._rows_reader.incremental_assign([TopicPartition(*place, 0) for place in sorted(unnamed)])
        for message in self._rows_reader.consume(100, 2.0):
            assert message.error() is not None, f"{message.topic()} holds a record that no cut names"
        assert not any(self._unread.values())

    def end_lsn_before(self, offset: int) -> int | None:
        """The end of the newest cut below this offset of the cuts topic; None: not read that far."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets):
            return None
        first = self.cuts[0].epoch.consistent_point
        return self.cuts[index - 1].end_lsn if index else first

    def _check_range(self, cut: Cut, part: PartitionRange) -> None:
        place = part.topic, part.partition
        self._fetch(place, part.records)
        messages = [self._unread[place].popleft() for _ in range(part.records)]
        offsets = [message.offset() or 0 for message in messages]
        assert offsets == list(range(part.start_offset, part.end_offset)), f"{place} holds {offsets}, {part} is named"
        for message in messages:
            self._check_position(message, (*place, str(cut.epoch)), cut)
        self.events += len(messages)

    def _check_position(self, message: Message, place: tuple[str, int, str], cut: Cut) -> None:
        position = self._topics.decode(message).position
        assert not cut.complete or position.commit_lsn <= cut.end_lsn, f"{place} holds {position}, after {cut}"
        if position.ordinal < 0:
            return  # rows of a copy share their position
        before = self._newest.get(place)
        assert before is None or before < position, f"{place} holds {position} after {before}"
        self._newest[place] = position

    def _fetch(self, place: tuple[str, int], records: int) -> None:
        if place not in self._assigned:
            self._assigned.add(place)
            self._rows_reader.incremental_assign([TopicPartition(*place, 0)])
        deadline_s = time.monotonic() + READ_S
        while len(self._unread[place]) < records:
            assert time.monotonic() < deadline_s, f"{place} lacks records that a cut names"
            for message in self._rows_reader.consume(1000, 0.2):
                if message.error() is None:
                    self._unread[message.topic() or "", message.partition() or 0].append(message)


def reader_of(bootstrap_servers: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "campaign",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
