"""Rows of a table without a key: which distinct rows are removed, and which are added.

In: each distinct row with its ``net``, in slices. Out: the rows of which some are removed, the rows that are added, and
both together as one merge takes them.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.spark_consumer.apply.arrow_spool import Spool


def rows_that_go(batch: pa.RecordBatch) -> pa.Table:
    """The distinct rows of which some are removed, each once."""
    return pa.Table.from_batches([batch.filter(pc.less(batch.column("net"), 0))])


def rows_that_come(batch: pa.RecordBatch) -> pa.Table:
    """The rows that are added, each as often as it is added."""
    indices = [place for place, net in enumerate(batch.column("net").to_pylist()) for _ in range(net)]
    return pa.Table.from_batches([batch.take(pa.array(indices, pa.int64()))])


def numbered(rows: Spool) -> Iterator[pa.Table]:
    """The distinct rows of which some are removed, each with a ``number``."""
    start = 0
    for batch in rows.batches():
        going = rows_that_go(batch)
        yield going.append_column("number", pa.array(range(start, start + going.num_rows), pa.int64()))
        start += going.num_rows


def exchanged(rows: Spool, kept: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Rows marked ``gone``, whose equals are all deleted, and rows to add: new ones, and equals that stay."""
    for batch in rows.batches():
        yield _marked(rows_that_go(batch).drop_columns("net"), gone=True)
        yield _marked(rows_that_come(batch).drop_columns("net"), gone=False)
    for batch in kept:
        yield _marked(pa.Table.from_batches([batch]), gone=False)


def _marked(rows: pa.Table, *, gone: bool) -> pa.Table:
    return rows.append_column("gone", pa.array([gone] * rows.num_rows, pa.bool_()))
