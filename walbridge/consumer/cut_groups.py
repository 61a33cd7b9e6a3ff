"""Cuts to groups that hold whole Postgres transactions. Pure: no clock, no broker.

In: the cuts of a pipeline in their order, with their offsets. Out: groups, each from behind one complete cut up to a
later one. All that was committed up to the group's ``end_lsn``, and no more, is in it and the groups before it.

A transaction that is larger than a batch has several cuts, of which only the last is complete; their ranges are joined,
so a group takes the same memory however large it is (I9). Cuts of an epoch that broke off before they were complete
hold parts of what never came whole: they are left out, since every table is copied anew behind them.
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
    """``next_offset``: in the cuts topic, behind its last cut."""

    cut: Cut
    next_offset: int
    ranges: Mapping[PartitionId, PartitionRange] = field(default_factory=dict)
    barriers: tuple[TableBarrier, ...] = ()

    @property
    def records(self) -> int:
        """Over all partitions."""
        return sum(part.records for part in self.ranges.values())

    @property
    def end_lsn(self) -> Lsn:
        return Lsn(self.cut.end_lsn)

    @property
    def is_empty(self) -> bool:
        return not self.ranges and not self.barriers

    def may_follow(self, earlier: "Group") -> bool:
        """Whether the two can be one group. LSNs of another epoch may be lower; and two copies of a table may begin
        and end at one LSN, so that positions alone would not tell their rows apart."""
        begins = any(each.barrier.kind == "copy_begin" for each in self.barriers)
        return self.cut.epoch == earlier.cut.epoch and not begins

    def then(self, later: "Group") -> "Group":
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
        self._open: Group | None = None
        self._is_inside = True
        """Nothing tells yet whether the first cut continues a transaction."""

    def begin_behind_complete(self) -> None:
        """The cut before the first one to come was complete."""
        self._is_inside = False

    @property
    def is_between(self) -> bool:
        """Whether a reader that begins behind the last cut begins between two transactions."""
        return self._open is None and not self._is_inside

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
            self._is_inside, self._open = False, None
        if self._is_inside:
            self._is_inside = not cut.complete
            return Group(cut, offset + 1) if cut.complete else None
        group = self._wanted_of(cut, offset)
        group = group if self._open is None else self._open.then(group)
        self._open = None if cut.complete else group
        return group if cut.complete else None

    def _wanted_of(self, cut: Cut, offset: int) -> Group:
        tables = [table for table in cut.tables if self._is_wanted(table.relation_id, table.topic)]
        topics = {table.topic for table in tables}
        ranges = {(part.topic, part.partition): part for part in cut.partitions if part.topic in topics}
        barriers = (TableBarrier(table.relation_id, each) for table in tables for each in table.barriers)
        return Group(cut, offset + 1, ranges, tuple(barriers))
