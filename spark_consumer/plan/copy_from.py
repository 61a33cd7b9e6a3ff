"""A copy that goes on beside the stream: where its records begin, and how a cut shows it.

In: cuts and their barriers. Out: ``CopyFrom``, all that the lake must remember of a copy until its rows
are in the lake. Pure.

Until then its rows are in the topic alone: nothing half copied is in the lake that a kill could leave
behind (I8). At ``copy_end`` the topic is read once from ``partitions`` on and folded, and so is every
event from ``start`` on, whichever plan it was in. A large copy that has ended may be left to later
(``ended_copies.py``): then every event of the table goes on to be one of those.

The first copy of earlier versions is told from it by its cuts: it begins at the epoch's consistent
point, and its cuts end no LSN until all of it is there, or it ends in its own cut, behind its rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Records of one partition since the copy began; ``records`` is their count as cuts tell it (I7)."""

    partition: int
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class CopyShape:
    """The schema that holds from a position on."""

    commit_lsn: int
    ordinal: int
    schema_id: str

    @property
    def position(self) -> Position:
        return Position(Lsn(self.commit_lsn), self.ordinal)


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """A copy whose rows are not in the lake. Offsets are those of the cut that began it: events before ``start`` are
    none of it.

    ``shapes``: the first one holds from ``start`` on, each other one from its own position on.
    """

    topic: str
    shapes: tuple[CopyShape, ...]
    partitions: tuple[CopyRange, ...] = ()
    shapes_at_end: int | None = None
    """How many of the shapes it had when it ended; None while it goes on. Rows of copies may come again in the next
    one of these, and no row in a later one."""

    @property
    def start(self) -> Position:
        return self.shapes[0].position

    @property
    def schema_id(self) -> str:
        """The newest."""
        return self.shapes[-1].schema_id

    @property
    def has_ended(self) -> bool:
        """Whether all of its rows have come, and what comes now are changes of the table alone."""
        return self.shapes_at_end is not None

    @property
    def records(self) -> int:
        """How many there are of it."""
        return sum(part.records for part in self.partitions)

    def ended(self) -> "CopyFrom":
        """The copy behind its ``copy_end``."""
        return replace(self, shapes_at_end=len(self.shapes))

    def began_anew(self, at: Position) -> "CopyFrom":
        """The same copy without what came before ``at``, where the table was emptied."""
        return CopyFrom(self.topic, (CopyShape(*at, self.schema_id),), (), 1 if self.has_ended else None)

    def shaped(self, at: Position, schema_id: str) -> "CopyFrom":
        """The copy with another shape from ``at`` on; a shape that it has already is nothing new."""
        if schema_id == self.schema_id:
            return self
        return replace(self, shapes=(*self.shapes, CopyShape(*at, schema_id)))

    def with_cut(self, cut: Cut) -> "CopyFrom":
        """The copy with the records that a cut holds of its topic."""
        known = {part.partition: part for part in self.partitions}
        for part in cut.partitions:
            if part.topic == self.topic:
                known[part.partition] = _joined(known.get(part.partition), part)
        return replace(self, partitions=tuple(known[partition] for partition in sorted(known)))

    def ranges(self) -> Iterable[PartitionRange]:
        """What is to be read of it."""
        for part in self.partitions:
            yield PartitionRange(self.topic, part.partition, part.start_offset, part.end_offset, part.records)


def _joined(before: CopyRange | None, part: PartitionRange) -> CopyRange:
    if before is None:
        return CopyRange(part.partition, part.start_offset, part.end_offset, part.records)
    return replace(before, end_offset=part.end_offset, records=before.records + part.records)


def copy_begun(topic: str, barrier: Barrier) -> CopyFrom:
    """The copy that a ``copy_begin`` begins."""
    return CopyFrom(topic, (CopyShape(*barrier.position, barrier.schema_id or ""),))


def begins_beside(barrier: Barrier, cut: Cut, barriers: Sequence[Barrier]) -> bool:
    """Whether a barrier of a cut begins a copy beside the stream; ``barriers``: those of its table in that cut."""
    if barrier.kind != "copy_begin" or barrier.position.ordinal != COPIED_ORDINAL:
        return False
    if barrier.position.commit_lsn != cut.epoch.consistent_point:
        return True
    ends = [each.position.ordinal for each in barriers if each.kind == "copy_end"]
    return cut.complete and not any(ordinal > COPIED_ORDINAL for ordinal in ends)


def begins_without_copy(cut: Cut) -> bool:
    """Whether the cut begins an epoch whose tables are copied beside the stream: a first copy begins with its cut 1."""
    barriers = (barrier.kind for table in cut.tables for barrier in table.barriers)
    return cut.cut_id == 1 and cut.complete and "copy_begin" not in barriers


def has_begin_beside(cut: Cut, table: TableChanges) -> bool:
    """Whether a copy of the table begins in the cut, beside the stream."""
    return any(begins_beside(barrier, cut, table.barriers) for barrier in table.barriers)
