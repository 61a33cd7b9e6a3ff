"""Whole Postgres transactions of some tables, in the order in which they were committed.

In: the cuts of a pipeline, and the ranges that they name. Out: ``Transactions``: the events of the wanted tables in one
or several complete cuts, to be iterated once. A target that applies each ``Transactions`` in one transaction of its own
always has the state of the source at one LSN. The group commits its offset in the cuts topic only, so no event is
missed or read twice when a table changes its topic.
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
from walbridge.consumer.relations import Relations
from walbridge.consumer.single_events import decoded
from walbridge.consumer.topic_stream import REFRESH_S, SLICE_S
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import Cut, PartitionId, PartitionRange, decode_cut
from walbridge.schemas.errors import KafkaAway, OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.position import Lsn
from walbridge.schemas.topics import cuts_topic

ROWS = 10_000
"""Small cuts that are already in Kafka are joined up to this many rows: each set of ranges costs a request."""


@dataclass(slots=True)
class Transactions:
    """One or several whole transactions. Iterated once, event by event, however many there are (I9)."""

    end_lsn: Lsn
    """Once these are applied, the target has the source's state at this LSN."""
    commit_time: datetime | None
    """Of the last transaction; None where there is none, as in a copy."""
    records: int
    """How many records they have in Kafka."""
    barriers: tuple[TableBarrier, ...]
    """Where tables were copied, emptied, altered or dropped (``dropped``: no more events of it until it is copied)."""
    _events: Iterator[Event]
    is_over: bool = False
    """Every event was iterated."""
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
    """A context manager and an iterator. Only ``commit`` commits offsets.

    Args:
        start: an offset in the cuts topic to begin at, instead of the one that the group committed.
        kept_ids: Kafka's id of the cuts topic, as it was when this offset was kept.
        follow: wait for more at the end; else the iteration ends there.
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
        self._cuts_partition = cuts_topic(pipeline), 0
        self._cuts, self._rows = reader(kafka), reader(kafka)
        decoder = EventDecoder(relations.version, relations.key_schema)
        self._ranges = MergedRanges(self._rows, lambda record: decoded(decoder.decode, record))
        self._groups = CutGroups(self._wanted.has)
        self._current: tuple[Transactions, int] | None = None
        self._read_ahead: Group | None = None
        self._retained: dict[str, dict[int, tuple[int, float]]] = {}
        """For a reader that began without offsets, by topic and partition: the first offset that Kafka had then, and
        the end."""
        self._is_at_end = False
        self._end_offset = 0
        """The end of the cuts topic when it was reached: transaction markers behind the last cut count."""
        self._failure: Exception | None = None
        self._ids_asked = TopicIds(kafka)
        self._checked_s, self._is_missing = time.monotonic(), False
        self.topic_ids = self._ids_asked.of([self._cuts_partition[0]])
        """Kafka's id of the cuts topic, to be stored with ``offsets``. It is asked for before the first offset."""
        self._next_offset = self._begin(start, kept_ids)

    def _begin(self, start: Mapping[PartitionId, int], kept_ids: Mapping[str, str]) -> int:
        """The offset of the first cut to read."""
        known = (
            {self._cuts_partition: start[self._cuts_partition]}
            if self._cuts_partition in start
            else committed(self._cuts, [self._cuts_partition])
        )
        refuse_remade([topic for topic, _ in known], self.topic_ids, kept_ids)
        offset = known.get(self._cuts_partition)
        if offset is None:
            refuse_forgotten(self._kafka, kept_ids)
            self._retained = {topic: self._retained_offsets(topic) for topic in self._wanted.topics_ever}
            offset = bounds(self._cuts, *self._cuts_partition)[0]
        else:
            self._groups.begin_after_complete_cut()
        self._cuts.assign([TopicPartition(*self._cuts_partition, offset)])
        return offset

    def _retained_offsets(self, topic: str) -> dict[int, tuple[int, float]]:
        """The offsets that Kafka has of each partition. Cuts are kept longer than the records that they name, and
        longer than topics that are no longer used. A deleted topic has no partitions; one that was made again ends
        before the offsets that the cuts name."""
        found = {each: bounds(self._rows, topic, each) for each in partitions_of(self._rows, topic) or ()}
        grows = topic in self._wanted.topics
        return {each: (first, math.inf if grows else end) for each, (first, end) in found.items()}

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """Where to continue behind all ``Transactions`` that were iterated to their end, and behind cuts without a
        wanted table. A target that stores it with its data may give it back as ``start``."""
        if self._current is not None and not self._current[0].is_over:
            return {self._cuts_partition: self._next_offset}
        behind = self._next_offset if self._current is None else self._current[1]
        is_all = self._read_ahead is None and self._groups.is_between_transactions
        return {self._cuts_partition: max(behind, self._end_offset) if is_all else behind}

    def poll(self, timeout_s: float) -> Transactions | None:
        """The next transactions; None where none are complete in time. Events of the previous ones that were not
        iterated are skipped.

        After an error this stream is over: a new one continues from the committed offset.

        Raises:
            OperatorError: records are gone, are not of this pipeline, or may not be read.
            KafkaAway: the broker answers with an error that may pass.
        """
        if failure := self._failure or (self._current and self._current[0].failure):
            raise failure  # what was read ahead is lost with it
        try:
            return self._poll(timeout_s)
        except Exception as error:
            self._failure = error
            raise

    def _poll(self, timeout_s: float) -> Transactions | None:
        if self._current is not None:
            self._next_offset, self._current = self._current[1], None
        deadline_s = time.monotonic() + timeout_s
        group: Group | None = None
        while group is None or group.records < ROWS:
            found, self._read_ahead = (
                self._read_ahead or self._next_group(0 if group else deadline_s - time.monotonic()),
                None,
            )
            if found is None:
                break
            if group is not None and not found.may_follow(group):
                self._read_ahead = found
                break
            group = found if group is None else group.followed_by(found)
            if group.is_empty:
                self._next_offset, group = group.next_offset, None
                if time.monotonic() >= deadline_s:
                    break
        return None if group is None else self._transactions_of(group)

    def _transactions_of(self, group: Group) -> Transactions:
        us, events = group.cut.commit_time_us, self._ranges.read(group.ranges.values())
        made = Transactions(group.end_lsn, None if us is None else time_of(us), group.records, group.barriers, events)
        self._current = made, group.next_offset
        return made

    def __iter__(self) -> Iterator[Transactions]:
        while not self._is_over:
            found = self.poll(SLICE_S)
            if found is not None:
                yield found

    @property
    def _is_over(self) -> bool:
        return not self._follow and self._is_at_end and self._read_ahead is None

    def _next_group(self, timeout_s: float) -> Group | None:
        deadline_s = time.monotonic() + timeout_s
        while (cut := self._next_cut(max(deadline_s - time.monotonic(), 0))) is not None:
            self._relations.read_to(cut[1].metadata_end_offset)
            self._wanted.refresh()
            try:
                group = self._groups.receive(cut[1], cut[0])
            except ProtocolError as error:
                raise _broken(self._cuts_partition[0], cut[0], error) from None
            if group is not None:
                return replace(group, ranges={at: part for at, part in group.ranges.items() if self._is_retained(part)})
            if time.monotonic() >= deadline_s:
                return None
        return None

    def _is_retained(self, part: PartitionRange) -> bool:
        """Whether Kafka still had the records of this range when a reader without offsets began."""
        if (retained := self._retained.get(part.topic)) is None:
            return True
        first, end = retained.get(part.partition, (math.inf, 0))
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
                    raise unreadable_record(self._cuts_partition[0], fault, offset) from None
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._is_at_end, self._end_offset = True, message.offset() or 0  # type: ignore[union-attr]
                if (refused := refusal(error, self._cuts_partition[0])) is not None:
                    raise refused
            self._check_cuts_topic_if_due()
            if time.monotonic() >= deadline_s or self._is_over:
                return None

    def _check_cuts_topic_if_due(self) -> None:
        """While no cut comes, check that the cuts topic still exists. Twice not found is deleted: a broker that has
        just started may not know a topic for a moment.

        Raises:
            OperatorError: it was deleted, or made again.
        """
        if time.monotonic() - self._checked_s < REFRESH_S:
            return
        self._checked_s = time.monotonic()
        with suppress(KafkaAway):  # poll waits for the broker
            now = self._ids_asked.of([self._cuts_partition[0]])
            is_missing, self._is_missing = self._is_missing, now != self.topic_ids
            if self._is_missing and (is_missing or now):
                raise _deleted(self._cuts_partition[0])

    def commit(self) -> None:
        """Commit for the group the transactions that were iterated to their end. Raises as ``poll``."""
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
