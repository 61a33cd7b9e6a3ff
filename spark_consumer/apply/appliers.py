"""Which engine writes rows to a table: delta-rs on the driver, or Spark's executors.

In: a table, the rows of a merge and where they can be, or how many rows are new. Out: what either engine commits,
which means the same. Delta-rs is done in a fraction of a second, and rewrites each file that a row is in. Spark takes
seconds, and writes the changed rows with a mark beside the file for each old one (a deletion vector): bytes written
follow the changes, not the table. So Spark has what is large: a merge as far as its rows fit in memory at once, and
new rows however many they are, or a whole table in another shape, since none of these rows crosses the driver.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession

from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.delta.by_spark.merge import merge_by_spark
from walbridge.spark_consumer.delta.commit import Commit, Matches
from walbridge.spark_consumer.delta.dialect import DELTA_RS, SPARK, Dialect
from walbridge.spark_consumer.delta.table import LakeTable, Merge
from walbridge.spark_consumer.delta.table_faults import NotShared
from walbridge.spark_consumer.errors import not_shared
from walbridge.spark_consumer.jvm.executors import hosts_of, is_cluster
from walbridge.spark_consumer.jvm.shared_folder import executors_write
from walbridge.spark_consumer.kafka.slices import Volume

log = structlog.get_logger()

AUTO, LOCAL, BY_SPARK = "auto", "local", "spark"
REWRITTEN_BYTES_MIN = 256 * 2**20
"""Some ten seconds of one core for delta-rs. Of narrow rows Spark needs half as many again, for reading their keys
three times; but the bytes are written anew by each plan, and kept as long as rows of ``_cuts`` name them."""
DRIVER_MAX = Volume(rows=1_000_000, bytes=256 * 2**20)
"""New rows of a segment that cross the driver; more are written by executors, also a copy's."""
CLUSTER_DRIVER_MAX = Volume(rows=200_000, bytes=64 * 2**20)
"""The same where executors have machines of their own: two slices. Delta-rs takes as long for them as Spark for its
commit, and a plan, which has 250,000 rows unless settings say otherwise, would never have more than ``DRIVER_MAX``."""
ROWS_A_CHANGE = 10
"""Where fewer rows of the files stay as they are, rewriting them costs no more than reading them later."""


@dataclass
class Appliers:
    """Both engines of one job; several threads use it at once.

    Args:
        setting: ``[lake] applier``.
        spark: None where there is delta-rs alone.
        on_cluster: executors are other processes than the driver's, as a rule on other machines.
    """

    setting: str = LOCAL
    spark: SparkSession | None = None
    on_cluster: bool = False
    _taken: dict[str, str] = field(default_factory=dict)
    _added_to: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, settings: Settings, spark: SparkSession) -> "Appliers":
        """By itself Spark is taken only where its executors write to the disk that the driver sees, and where two
        programs cannot make one version: neither is so on an object store (Delta's log store there is one driver's).
        """
        if settings.lake.applier == AUTO and not executors_write(spark, settings.lake.path):
            return cls(LOCAL, spark)
        return cls(settings.lake.applier, spark, is_cluster(spark))

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

    def write_frame(self, volume: Volume) -> bool:
        """Whether executors write rows that are new to a table, or all that it will hold.

        Spark's commit takes a second or two; delta-rs takes one for each slice, and all slices wait on the driver's
        disk.
        """
        if self.spark is None or self.setting == LOCAL or volume.slices == 1:
            return False
        return self.setting == BY_SPARK or not volume.fits(CLUSTER_DRIVER_MAX if self.on_cluster else DRIVER_MAX)

    def tell_frame(self, table: LakeTable, volume: Volume) -> None:
        """Say once of a table that executors write its new rows, and how many these are."""
        if table.uri not in self._added_to:
            self._added_to.add(table.uri)
            log.info(
                "a table's new rows are written by executors", path=table.uri, rows=volume.rows, bytes=volume.bytes
            )

    def rewrites(self, table: LakeTable) -> SparkSession | None:
        """The session by which executors rewrite this whole table, None where delta-rs does, as it does by itself: it
        streams all rows, half a million a second and core, and a job with ``local[...]`` has no other machines."""
        size_bytes = pc.sum(table.file_statistics()["size_bytes"]).as_py() or 0
        return self.spark if self.setting == BY_SPARK and size_bytes >= REWRITTEN_BYTES_MIN else None

    def merge(
        self, table: LakeTable, rows: Spool, bounds: KeyBounds, make: Callable[[Dialect], Merge], commit: Commit
    ) -> Matches:
        """One MERGE; returns what it found."""
        taken, spark = self._take(table, rows, bounds), self.spark
        if spark is None or taken == LOCAL:
            return table.merge(make(DELTA_RS), rows.reader(), commit)
        held = pa.Table.from_batches(rows.batches(), rows.schema)
        return merge_by_spark(spark, table, make(SPARK), held, commit)

    def _take(self, table: LakeTable, rows: Spool, bounds: KeyBounds) -> str:
        if self.spark is None or self.setting == LOCAL or not rows.is_held:
            return LOCAL
        files, rewritten = rewritten_bytes(table, rows.rows, bounds)
        taken = self.setting
        if taken == AUTO:
            untouched = files >= ROWS_A_CHANGE * rows.rows
            taken = BY_SPARK if rewritten >= REWRITTEN_BYTES_MIN and untouched else LOCAL
        if self._taken.get(table.uri, LOCAL) != taken:
            log.info("a table's changes are merged by another engine", path=table.uri, applier=taken, rewrite=rewritten)
        self._taken[table.uri] = taken
        return taken


def rewritten_bytes(table: LakeTable, rows: int, bounds: KeyBounds) -> tuple[int, int]:
    """Rows in the files that may hold one of so many rows, and bytes of those that at most do."""
    files = bounds.files_within(table.file_statistics())
    if files.num_rows == 0:
        return 0, 0
    size, held = (pc.sum(files[name]).as_py() or 0 for name in ("size_bytes", "num_records"))
    return held, size * min(rows, files.num_rows) // files.num_rows
