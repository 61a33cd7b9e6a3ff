"""Ranges of Kafka partitions: the types that all readers of Kafka share."""

import pyarrow as pa

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
