"""What maintenance leaves of a table's log and files, read by Spark and by delta-rs."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import SparkSession

from tests.in_soak import in_soak
from tests.spark_consumer.delta.maintenance.test_maintenance import Clock, publish
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance import log_trim, maintenance, old_files
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, contents_at
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import PROPERTIES, VECTORS
from walbridge.spark_consumer.plan.kept_cuts import Retention

PATH = "public/a"


class Marked:
    """A table of which Spark marks rows as deleted and delta-rs appends some, in turns, with its published versions."""

    def __init__(self, lake: Path, spark: SparkSession, clock: Clock) -> None:
        self.folder, self.spark, self.clock = lake / PATH, spark, clock
        self.manifest = Manifest(str(lake), "p", {})
        self.held: dict[int, list[int]] = {}
        self.sequence = 0
        rows = pa.table({"n": pa.array(range(40), pa.int64())})
        write_deltalake(str(self.folder), rows, configuration=dict(PROPERTIES) | {VECTORS: "true"})
        self.rows = set(range(40))

    def delete(self, n: int) -> None:
        self.spark.sql(f"DELETE FROM delta.`{self.folder}` WHERE n = {n}")
        self.rows.discard(n)

    def append(self, n: int) -> None:
        write_deltalake(str(self.folder), pa.table({"n": pa.array([n], pa.int64())}), mode="append")
        self.rows.add(n)

    def publish(self) -> None:
        self.sequence += 1
        self.clock.now += timedelta(minutes=30)
        version = DeltaTable(str(self.folder)).version()
        publish(self.manifest, self.sequence, version, self.clock.now)
        self.held[version] = sorted(self.rows)

    def grow_old(self) -> None:
        """By three days, with the clock of the storage."""
        for file in [*self.folder.rglob("*.json"), *self.folder.rglob("*.parquet"), *self.folder.rglob("*.bin")]:
            long_ago = (datetime.now(UTC) - timedelta(days=3)).timestamp()
            os.utime(file, (long_ago, long_ago))
        self.clock.now += timedelta(days=2)

    def by_spark(self, version: int) -> list[int]:
        found = self.spark.read.format("delta").option("versionAsOf", version).load(str(self.folder)).collect()
        return sorted(row.n for row in found)

    def by_delta_rs(self, version: int | None = None) -> list[int]:
        query = QueryBuilder().register("t", DeltaTable(str(self.folder), version=version))
        found: list[int] = pa.table(query.execute("SELECT n FROM t ORDER BY n").read_all())["n"].to_pylist()
        return found

    @property
    def kept(self) -> list[int]:
        return sorted(self.manifest.versions_in_rows(PATH))

    def vectors(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.bin")}

    def assert_readable(self) -> None:
        for version in self.kept:
            assert self.by_spark(version) == self.by_delta_rs(version) == self.held[version]
        assert self.by_delta_rs() == sorted(self.rows)
        assert [row.n for row in self.spark.table(f"delta.`{self.folder}`").orderBy("n").collect()] == sorted(self.rows)


@pytest.mark.variant(of="test_file_of_which_much_is_marked_is_written_anew_and_every_row_stays")
@pytest.mark.parametrize(("turns", "appended"), [(2, 3), in_soak(4, 9)], ids=["short", "long"])
def test_kept_versions_of_a_table_that_two_engines_write_are_readable_by_both_and_little_else_is_left(
    lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, turns: int, appended: int
) -> None:
    """I8: log, vectors and data files; also after somebody's VACUUM, and for the next commits of both."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 1)
    monkeypatch.setattr(maintenance, "MANIFEST_ROWS_MAX", 1)
    monkeypatch.setattr(old_files, "COMMITS_BETWEEN_TRIMS", 1)
    monkeypatch.setattr(old_files, "GAP_S", 600)
    monkeypatch.setattr(log_trim, "TOMBSTONES_MAX", 0)
    clock = Clock()
    table = Marked(lake, spark, clock)
    hours = {"all_cuts_hours": 1, "minute_cuts_hours": 2, "cut_retention_hours": 100}
    settings = Settings(name="p", lake={"path": str(lake), **hours})  # type: ignore[arg-type]
    tidying = Maintenance(str(lake), table.manifest, settings, clock)
    for turn in range(turns):
        for n in range(appended):
            table.append(100 * turn + 100 + n)
        table.delete(turn)
        table.publish()
        if turn == turns // 2 - 1:
            table.grow_old()
            tidying.after_plan([])
            tidying.after_plan([PATH])
    (table.folder / "deletion_vector_0b1a9b5e-1f52-4a5e-9d0c-0a9f3f3f3f3f.bin").write_bytes(
        b"of a task that was killed"
    )
    table.grow_old()
    for module in (maintenance, old_files):
        monkeypatch.setattr(module, "READERS_HOUR", timedelta(0))
    for _ in range(3):
        tidying.after_plan([])
        tidying.after_plan([PATH])

    is_long = turns > 2  # each look reads all kept versions with both engines; the last one sees what others would
    if is_long:
        table.assert_readable()
        names = [file.name for file in (table.folder / "_delta_log").iterdir()]
        assert len([name for name in names if name.endswith(".json") and name[0] == "0"]) < 40
    files = DeltaStorageHandler(str(table.folder))
    versions = [*table.kept, DeltaTable(str(table.folder)).version()]
    needed = [contents_at(files, LogFiles.of(str(table.folder), files), version) for version in versions]
    assert table.vectors() == {vectors for held in needed for vectors in held.values() if vectors}
    assert {file.name for file in table.folder.glob("*.parquet")} == {path for held in needed for path in held}

    session = spark.newSession()
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # else two hundred tasks
    session.sql(f"VACUUM delta.`{table.folder}`").collect()
    if is_long:
        table.assert_readable()
    table.delete(110)
    table.append(999)
    table.publish()
    table.assert_readable()


@pytest.mark.variant(of="test_file_of_which_much_is_marked_is_written_anew_and_every_row_stays")
def test_merges_leave_no_vector_that_no_kept_version_names(
    lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one file holds the vectors of several data files, or those of a data file that went with them."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 1)
    clock = Clock()
    table = Marked(lake, spark, clock)
    table.append(100)
    settings = Settings(name="p", lake={"path": str(lake), "cut_retention_hours": 1})  # type: ignore[arg-type]
    tidying = Maintenance(str(lake), table.manifest, settings, clock)
    table.publish()
    tidying.after_plan([PATH])
    for n in range(2):
        spark.sql(f"DELETE FROM delta.`{table.folder}` WHERE n IN ({n}, {100 + n})")
        table.rows -= {n, 100 + n}
        table.append(101 + n)
    assert len(table.vectors()) >= 2
    clock.now += timedelta(hours=5)
    table.publish()
    table.manifest.thin(Retention(*[timedelta(hours=1)] * 3), clock.now)
    table.grow_old()  # Spark wrote vectors, too, for data files that lost all of their rows: no version named them
    tidying.after_plan([PATH])

    assert len(table.vectors()) == 1
    assert table.kept == [DeltaTable(str(table.folder)).version()]
    table.assert_readable()
