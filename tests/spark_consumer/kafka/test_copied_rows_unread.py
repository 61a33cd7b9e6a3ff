"""A plan that feeds a table while it is copied gets the changes from Kafka, and not one row of the copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract_events import copied, copy_begin
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.in_soak import in_variants
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.plan_reader import planned_records
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import TableHead, make_plan

COLUMNS = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")]
CHANGES = range(0x3000, 0x3400, 0x100)


@pytest.mark.parametrize("reader", ["one consumer", in_variants("the driver's disk"), "spark"])
def test_a_plan_reads_changes_and_no_copied_rows(
    spark: SparkSession,
    kafka: KafkaBroker,
    pipeline_name: str,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    if reader != "one consumer":
        monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", Volume())
    if reader == "spark":
        monkeypatch.setattr(KafkaLog, "fetch_many", lambda *_, **__: None)
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    table = writer.relation("t", COLUMNS, relation_id=1, partitions=2)
    writer.copy([(table, [])])
    marker, begin = copy_begin(table, 0x2000)
    cuts = [writer.send([marker], barriers=[begin], end_lsn=0x2000)]
    for lsn in CHANGES:
        cuts.append(writer.send([Event(table, "u", lsn, n, after={"id": n, "v": "x"}) for n in range(3)]))
        rows = [{"id": lsn + number} for number in range(50)]
        cuts.append(writer.send(copied(table, writer.end_lsn, *rows), end_lsn=writer.end_lsn))
    plan = make_plan(list(enumerate(cuts)), {1: TableHead(1, table.topic, "public/t", 1, table.schema_id, "current")})
    settings = Settings(
        name=pipeline_name,
        kafka={"bootstrap_servers": kafka.bootstrap_servers},  # type: ignore[arg-type]
        lake={"path": str(lake)},  # type: ignore[arg-type]
    )

    with planned_records(KafkaLog(spark, settings), plan) as records:
        found = records.of(table.topic)
        markers = table.partition_count
        assert sum(volume.rows for volume in found.volumes.values()) == 3 * len(CHANGES) + markers
        assert found.frame().count() == 3 * len(CHANGES) + markers
        assert (found.spooled is not None) == (reader == "the driver's disk")
