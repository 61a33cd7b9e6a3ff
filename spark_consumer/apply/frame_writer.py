"""Rows that executors write: none of them crosses the driver.

In: a frame of a segment's rows, as they are or folded by key, and the table at its head. Out: one commit that adds
them; before it, where the segment empties the table, one without rows. What a reader of the table sees in between
is no published version (I8), and a job that is killed there begins the segment again (I5).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from walbridge.runtime.kill_points import kill_point
from walbridge.spark_consumer.delta.by_spark.commit import append_by_spark
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import SHAPE, Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

_OTHER_OPERATION = "walbridge: another operation"


class OtherOperation(Exception):
    """A row has an operation that is not allowed."""


@dataclass(frozen=True, slots=True)
class FoldSummary:
    """What is asked of folded rows before executors write them."""

    needs_table: bool
    """Whether a row needs the table: its key changed, or it has an unknown column."""
    held: int
    """How many rows the table should hold already."""

    @classmethod
    def of(cls, rows: DataFrame) -> "FoldSummary":
        """One Spark job counts all of it, and fills the cache of a persisted frame."""
        found = rows.agg(
            F.coalesce(F.bool_or(F.col("moved") | (F.size("unknown") > 0)), F.lit(False)),
            F.coalesce(F.sum(F.when(F.col("is_new"), 0).otherwise(1)), F.lit(0)),
        ).collect()[0]
        return cls(*found)


def not_deleted(rows: DataFrame) -> DataFrame:
    """The folded rows whose last operation is not a delete."""
    return rows.where(F.col("change.op") != "d")


def of_operations(rows: DataFrame, allowed: Sequence[str]) -> DataFrame:
    """The same rows, checked when they are read: another operation fails as ``OtherOperation`` in a ``FrameWriter``."""
    op = F.col("change.op")
    checked = F.when(op.isin([*allowed]), op).otherwise(F.raise_error(F.lit(_OTHER_OPERATION)))
    return rows.withColumn("change", F.col("change").withField("op", checked))


@dataclass(frozen=True)
class FrameWriter:
    """Writes one segment's rows; their columns are named by place, with ``change``."""

    table: LakeTable
    shape: TableShape
    commit: Commit

    def add(self, rows: DataFrame, *, empties: bool) -> None:
        """Append the rows; if the segment ``empties`` the table, it holds nothing else afterwards.

        Raises:
            ConcurrentCommit: another program committed to the table meanwhile.
            OtherOperation: as of ``of_operations``.
        """
        before = replace(self.commit, step=SHAPE)
        if empties:
            self.table.overwrite(self._no_rows(), before)
            kill_point("apply:table-emptied")
        # Before Spark's first commit: after a kill its commits are looked for only on tables with this property.
        self.table.mark_spark_writes(before)
        head = self.table.version
        try:
            append_by_spark(self.table, self._in_lake(rows), self.commit)
        except (PySparkException, Py4JJavaError) as error:
            if _OTHER_OPERATION in str(error):
                raise OtherOperation from None
            raise
        if empties and self.table.version == head:
            # Spark makes no commit without rows, and nothing would say that the segment is done (I5).
            self.table.overwrite(self._no_rows(), self.commit)

    def _no_rows(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(arrow_schema(self.shape.fields), [])

    def _in_lake(self, rows: DataFrame) -> DataFrame:
        """The rows under the lake's names, in the table's own order of columns and in its types."""
        names = {name: place_name(place) for place, name in enumerate(self.shape.lake_names)}
        fields = {field.name: StructField.fromJson(field.json()).dataType for field in self.table.fields}
        return rows.select(
            *[F.col(names.get(name, "change")).cast(of_lake).alias(name) for name, of_lake in fields.items()]
        )
