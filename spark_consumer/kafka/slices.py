"""Brings a table's rows from Spark to the driver in slices.

In: frames, and how much they hold. Out: Arrow slices that are bounded by rows and bytes (I9).
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SLICE_ROWS_MAX = 100_000
SLICE_BYTES_MAX = 32 * 2**20
"""A slice takes several times this in Spark's heap: rows, folded rows, Arrow, the answer to the driver."""
ONE_TASK_ROWS_MAX = 20_000
"""Up to so many rows one task is quicker than a shuffle between two."""
GATHERED_FROM = 8
"""With so many slices, a shuffle that gathers each slice costs less than filtering all records once for each slice."""
_SLICE = "_slice"
AT_A_TIME_BYTES = 4 * 2**20
"""If a table has more bytes than this, no other slice comes to the driver at the same time."""


@dataclass(frozen=True, slots=True)
class Volume:
    """The number of some records, and the bytes of their values."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: "Volume") -> "Volume":
        return Volume(self.rows + other.rows, self.bytes + other.bytes)

    def __sub__(self, other: "Volume") -> "Volume":
        return Volume(self.rows - other.rows, self.bytes - other.bytes)

    def fits(self, limit: "Volume") -> bool:
        """Whether neither rows nor bytes are above the limit."""
        return self.rows <= limit.rows and self.bytes <= limit.bytes

    @property
    def slices(self) -> int:
        """Pieces of at most SLICE_ROWS_MAX rows and about SLICE_BYTES_MAX bytes."""
        return max(-(-self.rows // SLICE_ROWS_MAX), -(-self.bytes // SLICE_BYTES_MAX), 1)


def in_slice(by: Column, index: int, slices: int) -> Column:
    """Whether a row is in one of several slices."""
    return _slice_of(by, slices) == str(index)


def _slice_of(by: Column, slices: int) -> Column:
    """The number of a row's slice, as text. A number would be a constant in the code that Spark generates, so that the
    JVM would compile classes for each slice anew."""
    return F.pmod(F.xxhash64(by), F.lit(slices)).cast("string")


@contextmanager
def persisted(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> Iterator[DataFrame]:
    """The frame, persisted in memory or on local disk until the block ends."""
    frame = frame.persist(level)
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def pieces_of(frame: DataFrame, by: Column, slices: int) -> Iterator[Callable[[int], DataFrame]]:
    """A function that gives the rows of a slice. With many slices a shuffle gathers each, so that none filters all
    rows."""
    if slices < GATHERED_FROM:
        yield lambda index: frame if slices == 1 else frame.where(in_slice(by, index, slices))
        return
    numbered = frame.withColumn(_SLICE, _slice_of(by, slices))
    with persisted(numbered.repartition(slices, _SLICE)) as gathered:
        yield lambda index: gathered.where(F.col(_SLICE) == str(index)).drop(_SLICE)


def slices_of(frame: DataFrame, by: Column, volume: Volume) -> Iterator[pa.Table]:
    """The frame in slices. It is computed once: persisted, or gathered by slice."""
    if 1 < volume.slices < GATHERED_FROM:
        with persisted(frame, StorageLevel.MEMORY_AND_DISK_DESER) as rows:
            yield from slices_of_persisted(rows, by, volume)
    else:  # computed once anyway: as one slice, or by the shuffle that gathers slices
        yield from slices_of_persisted(frame, by, volume)


def slices_of_persisted(rows: DataFrame, by: Column, volume: Volume) -> Iterator[pa.Table]:
    """A persisted frame in slices."""
    with pieces_of(rows, by, volume.slices) as piece:
        for index in range(volume.slices):
            yield to_driver(piece(index), volume)


def to_driver(slice_of_frame: DataFrame, volume: Volume) -> pa.Table:
    """The slice as Arrow on the driver. Slices of large tables come one at a time, over all threads."""
    if volume.bytes <= AT_A_TIME_BYTES:
        return slice_of_frame.toArrow()
    with _TO_DRIVER:
        return slice_of_frame.toArrow()


_TO_DRIVER = threading.Lock()


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of small tables in slices: as many as fit in one."""
    held: list[pa.Table] = []
    volume = Volume()
    for table in tables:
        added = volume + Volume(table.num_rows, table.nbytes)
        if held and not added.fits(Volume(SLICE_ROWS_MAX, SLICE_BYTES_MAX)):
            yield pa.concat_tables(held)
            held, added = [], added - volume
        held.append(table)
        volume = added
    if held:
        yield pa.concat_tables(held)


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows cast to another schema, column by column in order.

    Spark names the session's time zone in its timestamps and calls list items differently.
    """
    if rows.num_rows == 0:
        return schema.empty_table()
    columns = [_with_offsets(column.cast(field.type)) for column, field in zip(rows.columns, schema, strict=True)]
    if not columns:
        return rows.cast(schema)
    return pa.Table.from_arrays(columns, schema=schema)


def _with_offsets(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values, every offset written out.

    Where all lists or maps of a batch are empty or null, Spark leaves the offsets of their
    children out, as Arrow's files may; delta-rs then reads what happens to lie there, and panics.
    """
    if not pa.types.is_nested(column.type):
        return column
    chunks = [chunk.take(_all(len(chunk))) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def _all(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int64))
