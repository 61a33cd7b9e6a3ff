"""Cuts to groups that hold whole Postgres transactions. Pure: no clock, no broker.

In: the cuts of a pipeline in their order, with their offsets. Out: groups; each begins behind a complete cut and ends
with a later complete one. A group and the groups before it hold exactly what was committed up to its ``end_lsn``.

A transaction that is larger than a batch has several cuts, of which only the last is complete. Their ranges are joined,
so a group takes the same memory however large it is (I9). Where an epoch ended before such a transaction was complete,
its cuts are left out: every table is copied anew behind them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from walbridge.schemas.control.cut import (
    Barrier,
    Cut,
    PartitionId,
    PartitionRange,
    chain_break,
    count_mismatch,
    merge_ranges,
)
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn


@dataclass(frozen=True, slots=True)
class TableBarrier:
    """A barrier of a table: see ``docs/kafka.md``, Cuts."""

    relation_id: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Group:
    """Cuts that belong together. ``next_offset``: in the cuts topic, behind the last of them."""

    cut: Cut
    next_offset: int
    ranges: Mapping[PartitionId, PartitionRange] = field(default_factory=dict)
    barriers: tuple[TableBarrier, ...] = ()

    @property
    def records(self) -> int:
        """How many records all its ranges have."""
        return sum(part.records for part in self.ranges.values())

    @property
    def end_lsn(self) -> Lsn:
        return Lsn(self.cut.end_lsn)

    @property
    def is_empty(self) -> bool:
        return not self.ranges and not self.barriers

    def may_follow(self, earlier: "Group") -> bool:
        """Whether this group can be joined to an earlier one. Not across epochs, since the LSNs of a later epoch may be
        lower; and not where a copy begins, since two copies of a table may have rows of the same position."""
        begins = any(each.barrier.kind == "copy_begin" for each in self.barriers)
        return self.cut.epoch == earlier.cut.epoch and not begins

    def followed_by(self, later: "Group") -> "Group":
        """One group of two that follow each other."""
        earlier_ranges = replace(self.cut, partitions=tuple(self.ranges.values()))
        later_ranges = replace(later.cut, partitions=tuple(later.ranges.values()))
        return replace(
            later, ranges=merge_ranges([earlier_ranges, later_ranges]), barriers=self.barriers + later.barriers
        )


class CutGroups:
    """Gathers the cuts of one reader.

    Args:
        is_wanted: whether a relation's events in a topic are read; asked with a cut whose metadata has been read.
    """

    def __init__(self, is_wanted: Callable[[int, str], bool]) -> None:
        self._is_wanted = is_wanted
        self._previous: Cut | None = None
        self._incomplete: Group | None = None
        self._is_inside_transaction = True
        """At first True: the first cut may continue a transaction that began before it."""

    def begin_after_complete_cut(self) -> None:
        """Begin with the next cut: the one before it was complete."""
        self._is_inside_transaction = False

    @property
    def is_between_transactions(self) -> bool:
        """Whether the last cut was complete."""
        return self._incomplete is None and not self._is_inside_transaction

    def receive(self, cut: Cut, offset: int) -> Group | None:
        """The group that a cut completes; None where more cuts have to come.

        Raises:
            ProtocolError: a cut is missing, or does not add up (I7).
        """
        previous, self._previous = self._previous, cut
        if previous is not None and (broken := chain_break(previous, cut)) is not None:
            raise ProtocolError(broken)
        if (torn := count_mismatch(cut)) is not None:
            raise ProtocolError(f"cut {cut.cut_id} has a hole in {torn.topic}[{torn.partition}]")
        if cut.cut_id == 1:
            self._is_inside_transaction, self._incomplete = False, None
        if self._is_inside_transaction:
            self._is_inside_transaction = not cut.complete
            return Group(cut, offset + 1) if cut.complete else None
        group = self._wanted_of(cut, offset)
        group = group if self._incomplete is None else self._incomplete.followed_by(group)
        self._incomplete = None if cut.complete else group
        return group if cut.complete else None

    def _wanted_of(self, cut: Cut, offset: int) -> Group:
        tables = [table for table in cut.tables if self._is_wanted(table.relation_id, table.topic)]
        topics = {table.topic for table in tables}
        ranges = {(part.topic, part.partition): part for part in cut.partitions if part.topic in topics}
        barriers = (TableBarrier(table.relation_id, each) for table in tables for each in table.barriers)
        return Group(cut, offset + 1, ranges, tuple(barriers))
