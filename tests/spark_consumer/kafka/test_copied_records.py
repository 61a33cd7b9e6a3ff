"""Reading a copy in pieces: all of its records and no others, counted, the large ones by their places (I7, I9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.contract_events import Event
from tests.contract_writer import ColumnSpec, ContractWriter
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka.copied_records import copied_records
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.plan.plan import make_plan

COLUMNS = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")]


@pytest.fixture
def log(spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path) -> KafkaLog:
    of_kafka = {"bootstrap_servers": kafka.bootstrap_servers}
    return KafkaLog(spark, Settings(name=pipeline_name, kafka=of_kafka, lake={"path": str(lake)}))  # type: ignore[arg-type]


def test_pieces_are_all_records_that_the_cuts_promise(log: KafkaLog, kafka: KafkaBroker, pipeline_name: str) -> None:
    writer, steps = ContractWriter(kafka.bootstrap_servers, pipeline_name), list[int]()
    table = writer.relation("t", COLUMNS, relation_id=1, partitions=2)
    first = writer.copy([(table, [{"id": n, "v": "x"} for n in range(20)])])
    writer.abort([Event(table, "c", 0x2000, n, after={"id": n, "v": "aborted"}) for n in range(9)])
    large = Event(table, "c", 0x3000, 0, after={"id": 77, "v": "y" * 300_000})
    plan = make_plan([(0, first), (1, writer.send([large]))], {})

    with copied_records(log, plan, lambda: steps.append(1), piece_rows=6) as records:
        assert records.frame().count() == plan.rows
        assert sum(volume.rows for volume in records.volumes.values()) == plan.rows
        assert records.frame().where("value is null").count() == 1
        ((place, value),) = records.values(records.large)
        assert (place.size, value.count(b"y")) == (len(value), 300_000)
    assert len(steps) == -(-plan.rows // 6)

    (part, *_) = plan.ranges.values()
    more = {**plan.ranges, (part.topic, part.partition): replace(part, records=part.records + 1)}
    with (
        pytest.raises(TableError, match="the topic was changed from outside"),
        copied_records(log, replace(plan, ranges=more), lambda: None),
    ):
        pytest.fail("they are not what the cuts promise")

    admin, gone = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), part.start_offset + 2
    place_gone = TopicPartition(part.topic, part.partition, gone)
    admin.delete_records([place_gone])[TopicPartition(part.topic, part.partition)].result(30)
    with pytest.raises(TableError, match="are gone"), copied_records(log, plan, lambda: None):
        pytest.fail("some of them are gone")
