"""Which engine writes rows to a table: delta-rs on the driver, or Spark's executors.

In: a table; the rows of a merge and the bounds of their keys, or how many rows are new. Out: the same rows in the table
by either engine. Delta-rs takes a fraction of a second, and rewrites each file that holds a changed row. Spark takes
seconds, but writes only the changed rows, and marks the old ones in deletion vectors, so the bytes written depend on
the changes and not on the table. So Spark gets what is large: merges into large tables, any number of new rows, and
whole tables in another shape. New rows and whole tables then never cross the driver. Rows of a merge do, in slices;
from the second slice on they wait for the executors in a file.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession

from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.delta.by_spark.merge import merge_by_spark
from walbridge.spark_consumer.delta.by_spark.source import Source, source_in_folder, source_in_memory
from walbridge.spark_consumer.delta.commit import Commit, Matches
from walbridge.spark_consumer.delta.dialect import DELTA_RS, SPARK, Dialect
from walbridge.spark_consumer.delta.table import LakeTable, Merge
from walbridge.spark_consumer.delta.table_faults import NotShared
from walbridge.spark_consumer.errors import not_shared
from walbridge.spark_consumer.jvm.executors import hosts_of, is_cluster
from walbridge.spark_consumer.jvm.shared_folder import executors_write
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.ended_copies import ASIDE

log = structlog.get_logger()

AUTO, LOCAL, BY_SPARK = "auto", "local", "spark"
REWRITTEN_BYTES_MIN = 256 * 2**20
"""Delta-rs rewrites so much in some ten seconds of one core. For narrow rows Spark takes half as long again, since it
reads their keys three times. But delta-rs would write these bytes in each plan, and they are kept as long as rows of
``_cuts`` name them."""
BYTES_A_CHANGE = 4 * 2**10
"""Of more than one slice Spark takes a merge only where delta-rs would rewrite so much for each row. Of 200,000 rows
all over ten million (195 MB) delta-rs took 13 CPU seconds and Spark 57 (``tests/benchmarks/test_appliers.py``)."""
DRIVER_MAX = Volume(rows=1_000_000, bytes=256 * 2**20)
"""Up to so many new rows of a segment cross the driver; more are written by executors, also those of a copy."""
CLUSTER_DRIVER_MAX = Volume(rows=200_000, bytes=64 * 2**20)
"""The same where executors have machines of their own: two slices. Delta-rs takes as long for two slices as Spark for a
commit. A plan of 250,000 rows, which is the default, would never reach ``DRIVER_MAX``."""
ROWS_A_CHANGE = 10
"""Files whose rows are changed to a larger part are rewritten: that costs no more than reading marked rows later."""


@dataclass
class Appliers:
    """Both engines of one job; several threads use it at once.

    Args:
        setting: ``[lake] applier``.
        spark: None where there is delta-rs alone.
        on_cluster: executors are other processes than the driver's, as a rule on other machines.
        marks_rows: merges by Spark, which mark rows as deleted beside their files, are allowed.
        aside: a folder that executors read, for the rows of a merge that are more than one slice.
    """

    setting: str = LOCAL
    spark: SparkSession | None = None
    on_cluster: bool = False
    marks_rows: bool = True
    aside: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    _last_engine: dict[str, str] = field(default_factory=dict)
    _logged: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, settings: Settings, spark: SparkSession) -> "Appliers":
        """The engines by the settings. With ``auto`` Spark takes part only if its executors write to the driver's disk,
        and two programs cannot commit one version. Neither is certain on an object store, where Delta's log store is
        safe for one driver only.
        """
        if settings.lake.applier == AUTO and not executors_write(spark, settings.lake.path):
            return cls(LOCAL, spark)
        return cls(settings.lake.applier, spark, is_cluster(spark), aside=Path(settings.lake.path, ASIDE))

    def stop_using_executors(self, error: NotShared) -> None:
        """Have the driver write all rows from now on.

        Raises:
            OperatorError: the settings ask for executors.
        """
        if self.spark is None or self.setting == LOCAL:
            return
        hosts = ", ".join(hosts_of(self.spark))
        if self.setting == BY_SPARK:
            raise not_shared(error.uri, hosts)
        log.warning(
            "executors do not write to the lake any more: the driver writes all rows",
            path=error.uri,
            reason="what they write, or look for, is not in the driver's folder",
            hosts=hosts,
        )
        self.setting = LOCAL

    def writes_by_executors(self, volume: Volume) -> bool:
        """Whether executors write rows that are new to a table, or all that it will hold.

        Spark's commit takes a second or two; delta-rs takes one for each slice, and all slices wait on the driver's
        disk.
        """
        if self.spark is None or self.setting == LOCAL or volume.slices == 1:
            return False
        return self.setting == BY_SPARK or not volume.fits(CLUSTER_DRIVER_MAX if self.on_cluster else DRIVER_MAX)

    def log_executors_write(self, table: LakeTable, volume: Volume) -> None:
        """Log, once a table, that executors write its new rows."""
        if table.uri not in self._logged:
            self._logged.add(table.uri)
            log.info(
                "a table's new rows are written by executors", path=table.uri, rows=volume.rows, bytes=volume.bytes
            )

    def session_for_rewrite(self, table: LakeTable) -> SparkSession | None:
        """The session with which executors rewrite the whole table; None where delta-rs rewrites it. With ``auto`` that
        is always delta-rs, which streams half a million rows a second and core."""
        size_bytes = pc.sum(table.file_statistics()["size_bytes"]).as_py() or 0
        return self.spark if self.setting == BY_SPARK and size_bytes >= REWRITTEN_BYTES_MIN else None

    def merge(
        self,
        table: LakeTable,
        rows: Spool,
        bounds: KeyBounds,
        make: Callable[[Dialect], Merge],
        commit: Commit,
        *,
        by_driver: bool = False,
    ) -> Matches:
        """One MERGE by the engine that suits it, or by delta-rs in any case; returns its counts."""
        engine, rewrite = (LOCAL, None) if by_driver else self._choose_engine(table, rows, bounds)
        commit, spark = replace(commit, rewrite=rewrite), self.spark
        if spark is None or engine == LOCAL:
            return table.merge(make(DELTA_RS), rows.reader(), commit)
        with self._source(rows) as source:
            return merge_by_spark(spark, table, make(SPARK), source, commit)

    @contextmanager
    def _source(self, rows: Spool) -> Iterator[Source]:
        if rows.is_in_memory:
            yield source_in_memory(pa.Table.from_batches(rows.batches(), rows.schema))
        else:
            with source_in_folder(rows.schema, rows.batches(), self.aside) as source:
                yield source

    def _choose_engine(self, table: LakeTable, rows: Spool, bounds: KeyBounds) -> tuple[str, int | None]:
        """The engine, and how many bytes delta-rs would rewrite where there is another one."""
        if self.spark is None or self.setting == LOCAL or not self.marks_rows:
            return LOCAL, None
        files, rewritten = rewritten_bytes(table, rows.rows, bounds)
        engine = self.setting
        if engine == AUTO:
            untouched = files >= ROWS_A_CHANGE * rows.rows
            least = max(REWRITTEN_BYTES_MIN, 0 if rows.is_in_memory else BYTES_A_CHANGE * rows.rows)
            engine = BY_SPARK if rewritten >= least and untouched else LOCAL
        if self._last_engine.get(table.uri, LOCAL) != engine:
            log.info(
                "a table's changes are merged by another engine", path=table.uri, applier=engine, rewrite=rewritten
            )
        self._last_engine[table.uri] = engine
        return engine, rewritten


def rewritten_bytes(table: LakeTable, rows: int, bounds: KeyBounds) -> tuple[int, int]:
    """Of the files whose key bounds overlap ``bounds``: how many rows they have, and how many bytes at most must be
    rewritten for ``rows`` changed rows."""
    files = bounds.files_within(table.file_statistics())
    if files.num_rows == 0:
        return 0, 0
    size, held = (pc.sum(files[name]).as_py() or 0 for name in ("size_bytes", "num_records"))
    return held, size * min(rows, files.num_rows) // files.num_rows
