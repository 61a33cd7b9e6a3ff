"""Arrow rows that can be read more than once, in bounded memory.

In: slices of Arrow rows, each at most ``SLICE_ROWS_MAX`` rows. Out: a reader, as often as asked.
One slice stays in memory; more go to a file without a name: it is gone with the ``Spool``, and with
a program that is killed (I9).
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa

from walbridge.spark_consumer.kafka.slices import conformed


class Spool:
    """Rows of one schema, in memory or in a file."""

    def __init__(self, schema: pa.Schema, held: pa.Table | None, file: IO[bytes] | None, rows: int) -> None:
        self.schema = schema
        self.rows = rows
        self._held = held
        self._file = file

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the beginning."""
        if self._held is not None:
            yield from self._held.to_batches()
        elif self._file is not None:
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            with pa.ipc.open_stream(pa.py_buffer(mapped)) as reader:
                yield from reader

    @property
    def is_in_memory(self) -> bool:
        """Whether the rows are in memory; else they are in a file."""
        return self._held is not None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


@contextmanager
def spooled(schema: pa.Schema, slices: Iterable[pa.Table]) -> Iterator[Spool]:
    """Hold the slices, cast to ``schema``, until the block ends."""
    source = iter(slices)
    first = next(source, None)
    second = next(source, None)
    if second is None:
        held = schema.empty_table() if first is None else conformed(first, schema)
        yield Spool(schema, held, None, held.num_rows)
        return
    assert first is not None
    with tempfile.TemporaryFile() as file:
        rows = 0
        with pa.ipc.new_stream(file, schema) as writer:
            for piece in _chain(first, second, source):
                rows += piece.num_rows
                writer.write_table(conformed(piece, schema))
        file.flush()
        yield Spool(schema, None, file, rows)


def _chain(first: pa.Table, second: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    del first
    yield second
    del second
    yield from rest
