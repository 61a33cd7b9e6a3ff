"""A pipeline in Confluent's wire format with tombstones, to the lake: on the driver, by Spark, and values set aside on
disk."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak
from walbridge.embedded.registry import SchemaRegistry
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.change_reader import LARGE_BYTES, LOCAL_FOLD_MAX
from walbridge.spark_consumer.kafka.slices import Volume

FEW = Volume(300, LOCAL_FOLD_MAX.bytes)
"""Of one table, that the driver takes: with fewer Spark comes in sooner."""


@pytest.mark.parametrize("taken", [FEW, in_soak(LOCAL_FOLD_MAX)], ids=["few", "many"])
def test_lake_equals_the_source_and_never_asks_the_registry(
    pipeline: PipelineUnderTest, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, taken: Volume
) -> None:
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", taken)
    execute, producer = pipeline.database.execute, pipeline.producer
    execute("CREATE TABLE t (id int PRIMARY KEY, v text, n numeric); CREATE TABLE log (v text)")
    execute("ALTER TABLE log REPLICA IDENTITY FULL; INSERT INTO t SELECT i, 'copied', i FROM generate_series(1, 50) i")
    producer.publish("t", "log")
    producer.settings["topics"] = {"format": "confluent", "registry_url": registry.url, "tombstones": True}
    running = producer.start_streaming()
    pipeline.check_equal()

    execute("UPDATE t SET v = v || id WHERE id % 2 = 0; DELETE FROM t WHERE id = 3; UPDATE t SET id = -id WHERE id = 4")
    execute("INSERT INTO log VALUES ('a'), ('a'), ('b'); DELETE FROM log WHERE v = 'b'")
    execute(f"INSERT INTO t VALUES (1000, repeat('x', {LARGE_BYTES + 1}), 1); UPDATE t SET n = 2 WHERE id = 1000")
    execute("ALTER TABLE t ADD w int; INSERT INTO t (id, w) VALUES (1001, 7); UPDATE t SET w = 1 WHERE id < 10")
    execute("ALTER TABLE t ADD p numeric(10,2); UPDATE t SET p = 1.5 WHERE id < 9")
    # Another precision: a schema that has a field of ours, a record without fields.
    execute("ALTER TABLE t ALTER p TYPE numeric(12,2); UPDATE t SET p = 9999999999.25 WHERE id < 5")
    pipeline.catch_up()
    registry.stop()
    execute(f"INSERT INTO t SELECT i, 'many', i, i FROM generate_series(2000, {2000 + taken.rows}) i")
    execute("UPDATE t SET p = id WHERE id > 2000; DELETE FROM t WHERE id > 2000 AND id % 2 = 0")
    pipeline.check_equal()
    running.stop()
