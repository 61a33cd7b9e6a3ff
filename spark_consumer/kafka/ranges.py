"""Ranges of Kafka partitions: the types that all readers of Kafka share."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import pyarrow as pa

from walbridge.schemas.control.cut import PartitionId

Range = tuple[int, int]
"""Start and end offset, the end excluded."""
RECORD = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)
"""Columns of a record, as Spark's source of Kafka has them."""
SIZED_RECORD = pa.schema(
    [
        *RECORD,
        pa.field("frame_id", pa.string()),
        pa.field("size", pa.int32()),
        pa.field("large", pa.int32()),
        pa.field("is_left_out", pa.bool_()),
    ]
)
"""``RECORD`` and: the frame id; ``size``, the bytes of the value, 0 if it is large; ``large``, the bytes of a large
value, else null; ``is_left_out``, whether ``value`` is null here though the record has one."""


Gaps = Mapping[PartitionId, Sequence[Range]]
"""What is not read in ranges of partitions."""
NO_GAPS: Gaps = {}
Rounds = Sequence[Mapping[PartitionId, Range]]
"""What is read in turn: of each partition one range at a time."""


def pieces(bounds: Range, gaps: Sequence[Range]) -> Iterator[Range]:
    """What is left of a range without these gaps, which lie inside of it; in order."""
    starts = [bounds[0], *(end for _, end in gaps)]
    ends = [*(start for start, _ in gaps), bounds[1]]
    return zip(starts, ends, strict=True)


def rounds(ranges: Mapping[PartitionId, Range], gaps: Gaps) -> Rounds:
    """The ranges without their gaps, for readers that take one range a partition: its first pieces, then its second
    ones."""
    found = [pieces(bounds, gaps.get(place, ())) for place, bounds in ranges.items()]
    return [
        {place: piece for place, piece in zip(ranges, of_round, strict=True) if piece is not None}
        for of_round in zip_longest(*found)
    ]
