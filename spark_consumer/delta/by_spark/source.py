"""The rows of a MERGE, where Spark reads them: each time the same ones.

In: folded rows, in memory or in batches. Out: a frame of them in any session. Few rows go through the driver's JVM.
More are a file of Parquet in a folder that executors share with the driver, so that no heap holds them (I9).
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

Source = Callable[[SparkSession], DataFrame]


def source_in_memory(rows: pa.Table) -> Source:
    """Rows that the driver holds."""
    return lambda session: session.createDataFrame(rows, _spark_schema(rows.schema))


@contextmanager
def source_in_folder(schema: pa.Schema, batches: Iterator[pa.RecordBatch], aside: Path) -> Iterator[Source]:
    """Rows in a folder of their own below ``aside``, until the block ends."""
    folder = aside / f"merge-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        file, held = folder / "rows.parquet", 0
        # Nothing is skipped by statistics, whose bounds of floats are not exact. A row group, which a reader holds as a
        # whole, is no larger than a batch.
        with pq.ParquetWriter(file, schema, write_statistics=False) as writer:
            for batch in batches:
                held += batch.nbytes
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=max(batch.num_rows, 1))
        unpacked = max(held / file.stat().st_size, 1.0)
        yield lambda session: _read(session, folder, schema, unpacked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what stays goes at the job's next start


def _read(session: SparkSession, folder: Path, schema: pa.Schema, unpacked: float) -> DataFrame:
    # Spark sends all of a small side of a join to each executor, and takes a file's size for that of its rows.
    session.conf.set("spark.sql.sources.fileCompressionFactor", str(unpacked))
    return session.read.schema(_spark_schema(schema)).parquet(str(folder.absolute()))


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
