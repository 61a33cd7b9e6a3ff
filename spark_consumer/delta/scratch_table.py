"""A temporary table for one query."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import SCRATCH


@contextmanager
def scratch_table(schema: pa.Schema, slices: Iterable[pa.Table]) -> Iterator[LakeTable]:
    """A table of these rows on local disk, for ``query``; gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as folder:
        batches = (batch for rows in slices for batch in rows.cast(schema).to_batches())
        write_deltalake(folder, pa.RecordBatchReader.from_batches(schema, batches))
        yield LakeTable(folder, DeltaTable(folder), {})
