"""Whole Postgres transactions of some tables, in the order in which they were committed.

In: the cuts of a pipeline, and the ranges that they name. Out: ``Transactions``: what one or several complete cuts
hold of the wanted tables, to be iterated once. A target that takes each of them in one transaction of its own always
has the state of the source at one LSN. The group's committed offset is that in the cuts topic, so an event is neither
missed nor read twice, whatever topics its table had.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, TopicPartition

from walbridge.consumer.client import (
    TopicIds,
    bounds,
    commit,
    committed,
    partitions_of,
    reader,
    refusal,
    refuse_forgotten,
    refuse_remade,
)
from walbridge.consumer.cut_groups import CutGroups, Group, TableBarrier
from walbridge.consumer.event import Event, EventDecoder, time_of
from walbridge.consumer.merged_ranges import MergedRanges
from walbridge.consumer.relations import Relations, WantedTables
from walbridge.consumer.single_events import decoded
from walbridge.consumer.topic_stream import LOOK_S, SLICE_S
from walbridge.schemas.control.cut import Cut, PartitionId, PartitionRange, decode_cut
from walbridge.schemas.errors import KafkaAway, OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.position import Lsn
from walbridge.schemas.topics import cuts_topic

ROWS = 10_000
"""Small cuts that are there already are joined up to so many rows: each set of ranges costs a request."""


@dataclass(slots=True)
class Transactions:
    """One or several whole transactions. Iterated once, event by event, however many there are (I9)."""

    end_lsn: Lsn
    """Behind these the target has the source's state at this LSN."""
    commit_time: datetime | None
    """Of the last transaction; None where there is none, as in a copy."""
    records: int
    """How many they have in Kafka."""
    barriers: tuple[TableBarrier, ...]
    """Where tables were copied, emptied, altered or left (``dropped``: nothing more of it comes until a copy)."""
    _events: Iterator[Event]
    is_over: bool = False
    """Every event was taken."""
    failure: Exception | None = None
    _is_begun: bool = False

    def __iter__(self) -> Iterator[Event]:
        if self._is_begun:
            raise RuntimeError("these transactions were iterated before: their events come once")
        self._is_begun = True
        try:
            yield from self._events
        except Exception as error:
            self.failure = error
            raise
        self.is_over = True


class TransactionStream:
    """A context manager and an iterator. Nothing is committed but by ``commit``.

    Args:
        start: an offset in the cuts topic to begin at, instead of the one that the group committed.
        kept_ids: Kafka's id of the cuts topic that it is of.
        follow: wait for more at the end; else that ends it.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        pipeline: str,
        relations: Relations,
        wanted: WantedTables,
        start: Mapping[PartitionId, int],
        kept_ids: Mapping[str, str],
        *,
        follow: bool,
    ) -> None:
        self._kafka, self._relations, self._wanted, self._follow = kafka, relations, wanted, follow
        self._place = cuts_topic(pipeline), 0
        self._cuts, self._rows = reader(kafka), reader(kafka)
        decoder = EventDecoder(relations.version, relations.key_schema)
        self._ranges = MergedRanges(self._rows, lambda record: decoded(decoder.decode, record))
        self._groups = CutGroups(self._wanted.has)
        self._open: tuple[Transactions, int] | None = None
        self._ahead: Group | None = None
        self._kept: dict[str, dict[int, tuple[int, float]]] = {}
        """By topic and partition: the first offset that was kept when a reader without offsets began, and the end."""
        self._is_at_end = False
        self._passed = 0
        """Where the cuts topic was at its end: markers behind the last cut take offsets, too."""
        self._failure: Exception | None = None
        self._ids_asked = TopicIds(kafka)
        self._looked_s, self._is_missing = time.monotonic(), False
        self.topic_ids = self._ids_asked.of([self._place[0]])
        """Kafka's id of the cuts topic, to be kept beside ``offsets``. It is asked for before the first offset."""
        self._next = self._begin(start, kept_ids)

    def _begin(self, start: Mapping[PartitionId, int], kept_ids: Mapping[str, str]) -> int:
        """The offset of the first cut to read."""
        known = {self._place: start[self._place]} if self._place in start else committed(self._cuts, [self._place])
        refuse_remade([topic for topic, _ in known], self.topic_ids, kept_ids)
        offset = known.get(self._place)
        if offset is None:
            refuse_forgotten(self._kafka, kept_ids)
            self._kept = {topic: self._kept_of(topic) for topic in self._wanted.topics_ever}
            offset = bounds(self._cuts, *self._place)[0]
        else:
            self._groups.begin_behind_complete()
        self._cuts.assign([TopicPartition(*self._place, offset)])
        return offset

    def _kept_of(self, topic: str) -> dict[int, tuple[int, float]]:
        """Cuts are kept longer than the records that they name, and than topics that were given up: one that is gone
        has no partition, and one that was made again under its name ends before what cuts name."""
        found = {each: bounds(self._rows, topic, each) for each in partitions_of(self._rows, topic) or ()}
        grows = topic in self._wanted.topics
        return {each: (first, math.inf if grows else end) for each, (first, end) in found.items()}

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """Where to begin after all that was taken, also where it had none of the tables. A target that keeps it beside
        what it got may give it back as ``start``."""
        if self._open is not None and not self._open[0].is_over:
            return {self._place: self._next}
        behind = self._next if self._open is None else self._open[1]
        is_all = self._ahead is None and self._groups.is_between
        return {self._place: max(behind, self._passed) if is_all else behind}

    def poll(self, timeout_s: float) -> Transactions | None:
        """The next transactions; None where none are whole in time. What was not taken of the last ones is left out.

        An error ends the stream: another one goes on from what was committed.

        Raises:
            OperatorError: records are gone, are not of this pipeline, or may not be read.
            KafkaAway: the broker answers with an error that may pass.
        """
        if failure := self._failure or (self._open and self._open[0].failure):
            raise failure  # what was read ahead is lost with it
        try:
            return self._poll(timeout_s)
        except Exception as error:
            self._failure = error
            raise

    def _poll(self, timeout_s: float) -> Transactions | None:
        if self._open is not None:
            self._next, self._open = self._open[1], None
        deadline_s = time.monotonic() + timeout_s
        group: Group | None = None
        while group is None or group.records < ROWS:
            found, self._ahead = self._ahead or self._next_group(0 if group else deadline_s - time.monotonic()), None
            if found is None:
                break
            if group is not None and not found.may_follow(group):
                self._ahead = found
                break
            group = found if group is None else group.then(found)
            if group.is_empty:
                self._next, group = group.next_offset, None
                if time.monotonic() >= deadline_s:
                    break
        return None if group is None else self._of(group)

    def _of(self, group: Group) -> Transactions:
        us, events = group.cut.commit_time_us, self._ranges.read(group.ranges.values())
        made = Transactions(group.end_lsn, None if us is None else time_of(us), group.records, group.barriers, events)
        self._open = made, group.next_offset
        return made

    def __iter__(self) -> Iterator[Transactions]:
        while not self._is_over:
            found = self.poll(SLICE_S)
            if found is not None:
                yield found

    @property
    def _is_over(self) -> bool:
        return not self._follow and self._is_at_end and self._ahead is None

    def _next_group(self, timeout_s: float) -> Group | None:
        deadline_s = time.monotonic() + timeout_s
        while (cut := self._next_cut(max(deadline_s - time.monotonic(), 0))) is not None:
            self._relations.read_to(cut[1].metadata_end_offset)
            self._wanted.refresh()
            try:
                group = self._groups.receive(cut[1], cut[0])
            except ProtocolError as error:
                raise _broken(self._place[0], cut[0], error) from None
            if group is not None:
                return replace(group, ranges={at: part for at, part in group.ranges.items() if self._is_kept(part)})
            if time.monotonic() >= deadline_s:
                return None
        return None

    def _is_kept(self, part: PartitionRange) -> bool:
        """Whether its records were not gone when a reader without offsets began."""
        if (kept := self._kept.get(part.topic)) is None:
            return True
        first, end = kept.get(part.partition, (math.inf, 0))
        return part.start_offset >= first and part.end_offset <= end

    def _next_cut(self, timeout_s: float) -> tuple[int, Cut] | None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._cuts.poll(min(max(deadline_s - time.monotonic(), 0), SLICE_S))
            error = message.error() if message is not None else None
            if message is not None and error is None:
                self._is_at_end = False
                offset = message.offset() or 0
                try:
                    return offset, decode_cut(message.value() or b"")
                except ProtocolError as fault:
                    raise unreadable_record(self._place[0], fault, offset) from None
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._is_at_end, self._passed = True, message.offset() or 0  # type: ignore[union-attr]
                if (refused := refusal(error, self._place[0])) is not None:
                    raise refused
            self._look_if_due()
            if time.monotonic() >= deadline_s or self._is_over:
                return None

    def _look_if_due(self) -> None:
        """While no cut comes: is their topic there? A broker that has just started may not know of it for a moment.

        Raises:
            OperatorError: it is not, or is another one.
        """
        if time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        with suppress(KafkaAway):  # waiting for the broker is the poll's part
            now = self._ids_asked.of([self._place[0]])
            is_missing, self._is_missing = self._is_missing, now != self.topic_ids
            if self._is_missing and (is_missing or now):
                raise _deleted(self._place[0])

    def commit(self) -> None:
        """Commit for the group the transactions that were taken whole. Raises as ``poll``."""
        commit(self._cuts, self.offsets)

    def close(self) -> None:
        """Commits nothing."""
        for consumer in (self._cuts, self._rows):
            consumer.close()
        self._relations.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _deleted(topic: str) -> OperatorError:
    return OperatorError(
        f"topic {topic} was deleted, as by walbridge drop: no cut of this pipeline comes there any more",
        remedy="begin anew once walbridge produce runs again, with an empty target, another group.id, but neither "
        "start nor topic_ids",
    )


def _broken(topic: str, offset: int, error: ProtocolError) -> OperatorError:
    return OperatorError(
        f"{topic} at offset {offset}: {error}",
        remedy="begin anew with an empty target and another group.id; walbridge check looks at the topics",
    )
