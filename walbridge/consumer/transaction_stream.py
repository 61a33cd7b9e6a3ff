"""Whole Postgres transactions of some tables, in the order in which they were committed.

In: the cuts of a pipeline, and the ranges that they name. Out: ``Transactions``: the events of the wanted tables in one
or several complete cuts, to be iterated once. A target that applies each ``Transactions`` in one transaction of its own
always has the state of the source at one LSN. The group commits its offset in the cuts topic only, so no event is
missed or read twice when a table changes its topic.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from walbridge.consumer.client import SLICE_S, bounds, partitions_of, reader
from walbridge.consumer.cut_groups import CutGroups, Group, TableBarrier
from walbridge.consumer.cut_reader import CutReader
from walbridge.consumer.event import Event, EventDecoder, time_of
from walbridge.consumer.merged_ranges import MergedRanges
from walbridge.consumer.relations import Relations
from walbridge.consumer.single_events import decoded
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import PartitionId, PartitionRange
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn

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
        self._relations, self._wanted = relations, wanted
        self._cuts = CutReader(kafka, pipeline, start, kept_ids, follow=follow)
        self._rows = reader(kafka)
        decoder = EventDecoder(relations.version, relations.key_schema)
        self._ranges = MergedRanges(self._rows, lambda record: decoded(decoder.decode, record))
        self._groups = CutGroups(self._wanted.has)
        self._current: tuple[Transactions, int] | None = None
        self._read_ahead: Group | None = None
        self._retained: dict[str, dict[int, tuple[int, float]]] = {}
        """For a reader that began without offsets, by topic and partition: the first offset that Kafka had then, and
        the end."""
        self._failure: Exception | None = None
        if self._cuts.resumes:
            self._groups.begin_after_complete_cut()
        else:
            self._retained = {topic: self._retained_offsets(topic) for topic in self._wanted.topics_ever}
        self._next_offset = self._cuts.begin()

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
            return {self._cuts.partition: self._next_offset}
        behind = self._next_offset if self._current is None else self._current[1]
        is_all = self._read_ahead is None and self._groups.is_between_transactions
        return {self._cuts.partition: max(behind, self._cuts.end_offset) if is_all else behind}

    @property
    def topic_ids(self) -> dict[str, str]:
        """Kafka's id of the cuts topic, to be stored with ``offsets``."""
        return self._cuts.topic_ids

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
        return self._cuts.is_over and self._read_ahead is None

    def _next_group(self, timeout_s: float) -> Group | None:
        deadline_s = time.monotonic() + timeout_s
        while (cut := self._cuts.poll(max(deadline_s - time.monotonic(), 0))) is not None:
            self._relations.read_to(cut[1].metadata_end_offset)
            self._wanted.refresh()
            try:
                group = self._groups.receive(cut[1], cut[0])
            except ProtocolError as error:
                raise _broken(self._cuts.topic, cut[0], error) from None
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

    def commit(self) -> None:
        """Commit for the group the transactions that were iterated to their end. Raises as ``poll``."""
        self._cuts.commit(self.offsets)

    def close(self) -> None:
        """Commits nothing."""
        for each in (self._cuts, self._rows, self._relations):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _broken(topic: str, offset: int, error: ProtocolError) -> OperatorError:
    return OperatorError(
        f"{topic} at offset {offset}: {error}",
        remedy="begin anew with an empty target and another group.id; walbridge check looks at the topics",
    )
