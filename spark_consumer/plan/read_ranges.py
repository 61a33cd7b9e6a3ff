"""Which records a plan reads: a range of each partition, and the gaps in it that are passed over.

In: consecutive cuts, and those whose records of a topic are rows of a copy that goes on. Out: ``ReadRanges``. Pure.

A plan that feeds a table while it is copied has no use for the copied rows, which the copy's own plan reads at its end.
Cuts hold such rows alone, since each step of a copy is one, so their offsets are known.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from walbridge.schemas.control.cut import Cut, PartitionId, PartitionRange, merge_ranges
from walbridge.spark_consumer.plan.pending_copy import PendingCopy

GAPS_MAX = 32
"""Of one partition, the largest: each costs the readers some ten milliseconds. What lies in others is read, and counts
for nothing."""


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """``ranges`` begin and end with a record that is read; their ``records`` are those that are."""

    ranges: Mapping[PartitionId, PartitionRange]
    gaps: Mapping[PartitionId, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Offsets in these ranges, the end excluded, that are not read; in their order."""


def read_ranges(
    cuts: Sequence[Cut], unread: Mapping[str, Collection[int]], ended: Iterable[PendingCopy] = ()
) -> ReadRanges:
    """What a plan of these cuts reads.

    Args:
        unread: by topic of each table in the plan the numbers of the cuts whose records of it are not read. Tables that
            are not in the plan wait, and nothing of them is read.
        ended: copies that end in the plan: all of their records are read.
    """
    # From its beginning to the end of the plan, so they take the place of what the cuts say of the same partitions.
    copied = {(part.topic, part.partition): part for copy in ended for part in copy.ranges()}
    waiting = {table.topic for cut in cuts for table in cut.tables} - unread.keys()
    of_copies = _parts_of_copies(cuts, unread)
    ranges, gaps = dict(copied), {}
    for place, part in merge_ranges(cuts).items():
        if place in copied or part.topic in waiting:
            continue
        parts = [*_in_turn(place, of_copies[place])] if place in of_copies else [(part, True)]
        if any(is_read for _, is_read in parts):
            ranges[place], left_out = _without_gaps(parts)
            if left_out:
                gaps[place] = tuple((gap.start_offset, gap.end_offset) for gap in left_out)
    return ReadRanges(ranges, gaps)


def _without_gaps(parts: Sequence[tuple[PartitionRange, bool]]) -> tuple[PartitionRange, list[PartitionRange]]:
    """From the first part that is read to the last one, and what is left out between them."""
    read_at = [number for number, (_, is_read) in enumerate(parts) if is_read]
    first, last = read_at[0], read_at[-1]
    inside = parts[first : last + 1]
    gaps = sorted((part for part, is_read in inside if not is_read), key=lambda part: part.records)[-GAPS_MAX:]
    records = sum(part.records for part, _ in inside) - sum(gap.records for gap in gaps)
    start, end = parts[first][0], parts[last][0]
    read = PartitionRange(start.topic, start.partition, start.start_offset, end.end_offset, records)
    return read, sorted(gaps, key=lambda gap: gap.start_offset)


def _parts_of_copies(
    cuts: Iterable[Cut], unread: Mapping[str, Collection[int]]
) -> dict[PartitionId, list[tuple[bool, PartitionRange]]]:
    """Of each partition that has unread records: what the cuts have of it, and whether that is read."""
    found: dict[PartitionId, list[tuple[bool, PartitionRange]]] = {}
    for cut in cuts:
        for part in cut.partitions:
            if of_copy := unread.get(part.topic):
                found.setdefault((part.topic, part.partition), []).append((cut.cut_id not in of_copy, part))
    return found


def _in_turn(place: PartitionId, found: Iterable[tuple[bool, PartitionRange]]) -> Iterator[tuple[PartitionRange, bool]]:
    """The partition's records that are read, and those that are not, in turn."""
    for is_read, group in groupby(found, key=lambda each: each[0]):
        parts = [part for _, part in group]
        records = sum(part.records for part in parts)
        yield PartitionRange(*place, parts[0].start_offset, parts[-1].end_offset, records), is_read
