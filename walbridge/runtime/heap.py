"""What a heap of Spark takes: how large a record may be, and how many are read at a time (I9).

In: bytes of heap, and of the largest record. Out: bytes, readers. The Spark job and ``walbridge
check`` ask the same functions. ARCHITECTURE.md, "Memory of a row", says where each number is from.
"""

import re
from contextlib import suppress

from walbridge.schemas.errors import OperatorError

RECORD_OVERHEAD_BYTES = 64 * 2**10
"""An envelope beside its rows."""
BASE_BYTES = 90 * 2**20
"""Classes, plans and caches of Spark, Delta and the Kafka client, after a full collection."""
RESERVED_BYTES = 300 * 2**20
"""What Spark itself leaves out before it takes its share (``RESERVED_SYSTEM_MEMORY_BYTES``)."""
SPARK_SHARE = 0.4
"""``spark.memory.fraction`` of our sessions: blocks that are kept, sorts, aggregates."""
READ_COPIES = 15
"""Copies of one record that a reader holds at most, those of the record before it included: as measured."""

MORE_HEAP = "raise [spark] driver_memory, or lower [lake] plan_rows_max"

_UNITS = {"": 2**20, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE = re.compile(r"(\d+)([bkmgtp]?)b?")


def size_bytes(text: str) -> int | None:
    """Spark's notation of memory, ``1g`` or ``768m``; None where it is none."""
    found = _SIZE.fullmatch(text.strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else None


def spark_share(text: str) -> float:
    """``spark.memory.fraction`` as Spark reads it.

    Raises:
        OperatorError: it is no number, or leaves no memory to Spark or none to us.
    """
    with suppress(ValueError):
        if 0 < (share := float(text)) < 1:  # neither holds of nan
            return share
    raise OperatorError(f"Spark does not take {text!r} as spark.memory.fraction", 'write it as "0.4"')


def record_bytes_max(row_bytes_max: int) -> int:
    """The most bytes of a record with its envelope, in which a row may stand twice: before and after."""
    return 2 * row_bytes_max + RECORD_OVERHEAD_BYTES


def largest_row(record_bytes: int) -> int:
    """Bytes of the largest row that may stand twice in a record of that size."""
    return max(record_bytes - RECORD_OVERHEAD_BYTES, 0) // 2


def largest_record(heap_bytes: int, spark_share: float = SPARK_SHARE, readers: int = 1) -> int:
    """Bytes of the largest record that the heap takes, with so many readers at a time."""
    of_spark = spark_share * max(heap_bytes - RESERVED_BYTES, 0)
    return max(int((heap_bytes - BASE_BYTES - of_spark) / (READ_COPIES * readers)), 0)


def readers_at_a_time(heap_bytes: int, record_bytes: int, cores: int, spark_share: float = SPARK_SHARE) -> int:
    """Tasks that may each hold a record of that size; one at least, which then refuses what is larger."""
    return max(min(cores, largest_record(heap_bytes, spark_share) // max(record_bytes, 1)), 1)


def heap_needed(record_bytes: int, spark_share: float = SPARK_SHARE) -> int:
    """The smallest heap that takes such a record, in whole MiB."""
    wanted = READ_COPIES * record_bytes + BASE_BYTES
    heap = wanted if wanted <= RESERVED_BYTES else (wanted - spark_share * RESERVED_BYTES) / (1 - spark_share)
    return -(-int(heap) // 2**20) * 2**20 + 2**20


def more_memory(record_bytes: int, spark_share: float = SPARK_SHARE) -> str:
    """The setting with which the heap takes such a record."""
    return f'set [spark] driver_memory = "{heap_needed(record_bytes, spark_share) // 2**20}m"'
