"""A large plan from Kafka to the table by a JVM that is warm: seconds, CPU and memory of the job's way, and floors.

The floors read the same records by Spark: ``from_avro`` → noop decodes them and writes nothing; the plain append writes
the new rows as they are; the plain MERGE INTO upserts them by key, without positions, checks or counts. The plan of
large rows has a tenth of the rows. Memory is that of this program, and of the JVM's heap with what the next collection
would free.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.benchmarks.results import record
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.in_soak import in_soak
from tests.memory import Watched
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.apply import apply_table
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.fold.schema_join import events, place_name
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.plan_reader import planned_records
from walbridge.spark_consumer.plan.plan import Plan, TableHead, make_plan

pytestmark = [pytest.mark.bench, pytest.mark.servers, pytest.mark.usefixtures("compiled")]

COLUMNS = [
    ColumnSpec("id", "int8", is_key=True),
    ColumnSpec("customer_id", "int8"),
    ColumnSpec("sku"),
    ColumnSpec("qty", "int4"),
    ColumnSpec("price", "numeric", typmod=(12 << 16 | 2) + 4),
    ColumnSpec("status"),
    ColumnSpec("note"),
    ColumnSpec("created_at", "timestamptz"),
    ColumnSpec("updated_at", "timestamptz"),
    ColumnSpec("flag", "bool"),
]
NOTE_BYTES, LARGE_NOTE_BYTES = 60, 20_000
TRANSACTION, WARM_UP = 10_000, 20_000
AT = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)


@dataclass
class Table:
    """One that plans of events are written for. ``head``: as the last plan that was applied left it."""

    spark: SparkSession
    writer: ContractWriter
    lake: Path
    note_bytes: int
    relation: RelationRecord
    log: KafkaLog
    head: TableHead | None = None
    offset: int = 0
    cuts: list[tuple[int, Cut]] = field(default_factory=list)

    def write(self, op: str, first: int, rows: int) -> Plan:
        """The plan of so many inserts or updates."""
        cuts = []
        for start in range(first, first + rows, TRANSACTION):
            lsn = self.writer.end_lsn + 8
            of = range(start, min(start + TRANSACTION, first + rows))
            cuts.append(self.writer.send([Event(self.relation, op, lsn, n, after=self.row(n)) for n in of]))
        return self.plan(cuts)

    def plan(self, cuts: list[Cut]) -> Plan:
        heads = {} if self.head is None else {self.relation.table.relation_id: self.head}
        return make_plan([*enumerate(cuts)], heads)

    def row(self, number: int) -> dict[str, Any]:
        note = f"note {number}".ljust(self.note_bytes, "abcdefghij "[number % 11])
        statuses = ["new", "paid", "shipped", "done"]
        return {
            "id": number, "customer_id": number * 7919 % 100_003, "sku": f"SKU-{number % 5000:06}", "qty": number % 20,
            "price": Decimal(number * 37 % 1_000_000).scaleb(-2), "status": statuses[number % 4], "note": note,
            "created_at": AT, "updated_at": AT, "flag": number % 2 == 0,
        }  # fmt: skip

    def apply(self, plan: Plan) -> None:
        lake = JobLake(str(self.lake), self.writer.pipeline, source_sends_all=True)
        (table,) = plan.tables
        with planned_records(self.log, plan) as records:
            mine = records.of(table.topic)
            assert (mine.spooled is None) == (plan.rows == 1)  # the truncate before a copy
            self.head = apply_table(lake, mine, {self.relation.schema_id: self.relation}, table, plan)

    def decoded(self, plan: Plan) -> DataFrame:
        """The plan's new rows, as Spark decodes them."""
        ranges = {partition_id: (part.start_offset, part.end_offset) for partition_id, part in plan.ranges.items()}
        (segment,) = plan.tables[0].segments
        return events(self.log.read(ranges, plan.rows), self.relation, segment).select("after.*")


@pytest.fixture
def table_of(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path
) -> Iterator[Callable[[int], Table]]:
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    settings = Settings.model_validate(
        {"name": pipeline_name, "kafka": {"bootstrap_servers": kafka.bootstrap_servers}, "lake": {"path": str(lake)}}
    )
    log = KafkaLog(spark, settings)

    def make(note_bytes: int) -> Table:
        relation = writer.relation("orders", COLUMNS, relation_id=1)
        made = Table(spark, writer, lake, note_bytes, relation, log)
        made.apply(made.plan([writer.copy([(relation, [])])]))
        return made

    yield make
    log.close()


@pytest.mark.parametrize("rows", [100_000, in_soak(500_000)])
@pytest.mark.parametrize("note_bytes", [NOTE_BYTES, LARGE_NOTE_BYTES], ids=["rows of 200 bytes", "large rows"])
def test_large_plan(
    table_of: Callable[[int], Table], spark: SparkSession, lake: Path, rows: int, note_bytes: int
) -> None:
    rows = rows if note_bytes == NOTE_BYTES else rows // 10
    table = table_of(note_bytes)
    for first in (0, WARM_UP):
        table.apply(table.write("c", first, WARM_UP))
    inserts = table.write("c", 2 * WARM_UP, rows)
    said = {"inserts": measured(spark, rows, lambda: table.apply(inserts))}
    updates = table.write("u", 2 * WARM_UP, rows)
    said["updates"] = measured(spark, rows, lambda: table.apply(updates))
    floor = f"{lake}/floor"
    said["from_avro to noop"] = measured(
        spark, rows, lambda: table.decoded(inserts).write.format("noop").mode("overwrite").save()
    )
    said["plain append"] = measured(spark, rows, lambda: table.decoded(inserts).write.format("delta").save(floor))
    said["plain MERGE INTO"] = measured(spark, rows, lambda: plainly_merged(table, updates, floor))
    for name, values in said.items():
        print(f"\n{name}: {rows:,} rows, ", ", ".join(f"{what} {value:,}" for what, value in values.items()))
    record(f"large_plan_{note_bytes}", said)
    assert spark.read.format("delta").load(floor).count() == rows


def plainly_merged(table: Table, plan: Plan, path: str) -> None:
    key = place_name(0)
    table.decoded(plan).createOrReplaceTempView("changes")
    table.spark.sql(
        f"MERGE INTO delta.`{path}` t USING changes s ON s.{key} = t.{key} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def measured(spark: SparkSession, rows: int, work: Callable[[], None]) -> dict[str, float]:
    """What a step takes of Python and the JVM."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = [pool for pool in pools if pool.getType().name() == "HEAP"]
    for pool in heap:
        pool.resetPeakUsage()
    python, java = psutil.Process(), psutil.Process(jvm.java.lang.ProcessHandle.current().pid())
    watched, before, java_before, since_s = Watched(children=False), cpu_s(python), cpu_s(java), time.monotonic()
    work()
    took_s = time.monotonic() - since_s
    return {
        "rows/s": round(rows / took_s),
        "Python µs": round(1e6 * (cpu_s(python) - before) / rows, 1),
        "JVM µs": round(1e6 * (cpu_s(java) - java_before) / rows, 1),
        "Python MB": round(watched.stop()),
        "heap MB": round(sum(pool.getPeakUsage().getUsed() for pool in heap) / 2**20),
    }


def cpu_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))
