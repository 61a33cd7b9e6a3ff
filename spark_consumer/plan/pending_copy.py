"""A copy beside the stream whose rows are not in the lake yet: which records it has, and which cut begins it.

In: cuts and their barriers. Out: ``PendingCopy``, all that the lake must remember of the copy. Pure.

Until the copy ends, its rows are in the topic alone: the lake never holds half a copy that a kill could leave
behind (I8). At ``copy_end`` one plan reads all records in ``partitions`` and folds them: the copied rows, and every
change since ``start``, also those that earlier plans applied. A large copy may be deferred when it has ended
(``ended_copies.py``): then later changes of the table join its records.

A first copy in one snapshot has the same barriers. It begins at the epoch's consistent point, and its cuts are
incomplete until all tables are copied, or it ends in its first cut, behind its rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Records of one partition since the copy began; ``records`` is their count as the cuts give it (I7)."""

    partition: int
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class CopyShape:
    """The schema of the copy's records from a position on."""

    commit_lsn: int
    ordinal: int
    schema_id: str

    @property
    def position(self) -> Position:
        return Position(Lsn(self.commit_lsn), self.ordinal)


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A copy whose rows are not in the lake. Its offsets begin with the cut that began it, but records of that cut
    before ``start`` do not belong to it.

    ``shapes``: its schemas in order; the first one holds from ``start`` on.
    """

    topic: str
    shapes: tuple[CopyShape, ...]
    partitions: tuple[CopyRange, ...] = ()
    shapes_at_end: int | None = None
    """How many shapes there were when it ended; None while it goes on. A copied row may come again under the next
    shape, but only up to that one."""

    @property
    def start(self) -> Position:
        return self.shapes[0].position

    @property
    def schema_id(self) -> str:
        """The newest schema."""
        return self.shapes[-1].schema_id

    @property
    def has_ended(self) -> bool:
        """Whether all copied rows have come, so that from now on only changes of the table come."""
        return self.shapes_at_end is not None

    @property
    def records(self) -> int:
        """How many records the copy has so far."""
        return sum(part.records for part in self.partitions)

    def ended(self) -> "PendingCopy":
        """The same copy after its ``copy_end``."""
        return replace(self, shapes_at_end=len(self.shapes))

    def began_anew(self, at: Position) -> "PendingCopy":
        """The same copy without the records before ``at``, where the table was emptied."""
        return PendingCopy(self.topic, (CopyShape(*at, self.schema_id),), (), 1 if self.has_ended else None)

    def shaped(self, at: Position, schema_id: str) -> "PendingCopy":
        """The copy with this schema from ``at`` on, unless it is the newest already."""
        if schema_id == self.schema_id:
            return self
        return replace(self, shapes=(*self.shapes, CopyShape(*at, schema_id)))

    def with_cut(self, cut: Cut) -> "PendingCopy":
        """The copy with a cut's records of its topic."""
        known = {part.partition: part for part in self.partitions}
        for part in cut.partitions:
            if part.topic == self.topic:
                known[part.partition] = _joined(known.get(part.partition), part)
        return replace(self, partitions=tuple(known[partition] for partition in sorted(known)))

    def ranges(self) -> Iterable[PartitionRange]:
        """The ranges of its records."""
        for part in self.partitions:
            yield PartitionRange(self.topic, part.partition, part.start_offset, part.end_offset, part.records)


def _joined(before: CopyRange | None, part: PartitionRange) -> CopyRange:
    if before is None:
        return CopyRange(part.partition, part.start_offset, part.end_offset, part.records)
    return replace(before, end_offset=part.end_offset, records=before.records + part.records)


def copy_begun(topic: str, barrier: Barrier) -> PendingCopy:
    """The copy that a ``copy_begin`` begins."""
    return PendingCopy(topic, (CopyShape(*barrier.position, barrier.schema_id or ""),))


def begins_copy_beside(barrier: Barrier, cut: Cut, barriers: Sequence[Barrier]) -> bool:
    """Whether a barrier of a cut begins a copy beside the stream; ``barriers``: those of its table in that cut."""
    if barrier.kind != "copy_begin" or barrier.position.ordinal != COPIED_ORDINAL:
        return False
    if barrier.position.commit_lsn != cut.epoch.consistent_point:
        return True
    ends = [each.position.ordinal for each in barriers if each.kind == "copy_end"]
    return cut.complete and not any(ordinal > COPIED_ORDINAL for ordinal in ends)


def is_step_of_copy(cut: Cut) -> bool:
    """Whether the cut has no event of a transaction as the stream brought it: what it holds of tables is a step of a
    copy, or of listed keys that are read again."""
    return cut.commit_lsn is None


def begins_without_copy(cut: Cut) -> bool:
    """Whether the cut begins an epoch whose tables are copied beside the stream: a first copy begins with its cut 1."""
    barriers = (barrier.kind for table in cut.tables for barrier in table.barriers)
    return cut.cut_id == 1 and cut.complete and "copy_begin" not in barriers


def has_copy_begin_beside(cut: Cut, table: TableChanges) -> bool:
    """Whether a copy of the table begins in the cut, beside the stream."""
    return any(begins_copy_beside(barrier, cut, table.barriers) for barrier in table.barriers)
