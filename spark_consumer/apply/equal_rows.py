"""Rows of a table without a key: how many equal ones go and come.

In: the net change of each distinct row, in slices. Out: the rows that lose some, the rows that come, and both as one
merge takes them.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.spark_consumer.apply.arrow_spool import Spool


def rows_that_go(batch: pa.RecordBatch) -> pa.Table:
    """Each row of which the table loses some, once."""
    return pa.Table.from_batches([batch.filter(pc.less(batch.column("net"), 0))])


def rows_that_come(batch: pa.RecordBatch) -> pa.Table:
    """Each row as often as the table gains it."""
    indices = [place for place, net in enumerate(batch.column("net").to_pylist()) for _ in range(net)]
    return pa.Table.from_batches([batch.take(pa.array(indices, pa.int64()))])


def numbered(rows: Spool) -> Iterator[pa.Table]:
    """The rows of which the table loses some, with a ``number`` each."""
    start = 0
    for batch in rows.batches():
        going = rows_that_go(batch)
        yield going.append_column("number", pa.array(range(start, start + going.num_rows), pa.int64()))
        start += going.num_rows


def exchanged(rows: Spool, kept: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """What is ``gone`` with all its equals, and what is there afterwards: rows that come, and equals that are kept."""
    for batch in rows.batches():
        yield _marked(rows_that_go(batch).drop_columns("net"), gone=True)
        yield _marked(rows_that_come(batch).drop_columns("net"), gone=False)
    for batch in kept:
        yield _marked(pa.Table.from_batches([batch]), gone=False)


def _marked(rows: pa.Table, *, gone: bool) -> pa.Table:
    return rows.append_column("gone", pa.array([gone] * rows.num_rows, pa.bool_()))
