"""A pipeline whose topics hold JSON, to the lake: on the driver, by Spark, and values set aside on disk."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak
from walbridge.spark_consumer.kafka import change_reader
from walbridge.spark_consumer.kafka.change_reader import LARGE_BYTES, LOCAL_FOLD_MAX
from walbridge.spark_consumer.kafka.slices import Volume

TABLES = """
CREATE TABLE t (id int PRIMARY KEY, v text, n numeric, raw bytea);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
CREATE TABLE log (v text, day date);
ALTER TABLE log REPLICA IDENTITY FULL;
CREATE TABLE days ("Day" date, n numeric(5, 2), "a.b" text, PRIMARY KEY ("Day", n));
INSERT INTO t SELECT i, 'copied', i, '\\x00ff' FROM generate_series(1, 50) i;
INSERT INTO days VALUES ('infinity', 1, 'é"\\'), ('-infinity', 1, NULL), ('epoch', 'NaN', ''), ('epoch', 2, '');
"""


FEW = Volume(300, LOCAL_FOLD_MAX.bytes)
"""Of one table, that the driver takes: with fewer Spark comes in sooner."""


@pytest.mark.parametrize("taken", [FEW, in_soak(LOCAL_FOLD_MAX)], ids=["few", "many"])
def test_lake_equals_the_source(pipeline: PipelineUnderTest, monkeypatch: pytest.MonkeyPatch, taken: Volume) -> None:
    """I5, I6, I8"""
    monkeypatch.setattr(change_reader, "LOCAL_FOLD_MAX", taken)
    execute, producer = pipeline.database.execute, pipeline.producer
    execute(TABLES)
    producer.publish("t", "log", "days")
    producer.settings["topics"] = {"format": "json", "tombstones": True, "partitions": 2}
    running = producer.start_streaming()
    pipeline.check_equal()

    execute("UPDATE t SET v = v || id WHERE id % 2 = 0; DELETE FROM t WHERE id = 3; UPDATE t SET id = -id WHERE id = 4")
    execute("INSERT INTO log VALUES ('a', 'infinity'), ('a', 'infinity'), ('b', NULL); DELETE FROM log WHERE v = 'b'")
    execute("DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log)")
    execute(f"INSERT INTO t VALUES (1000, repeat('x', {LARGE_BYTES + 1}), 1); UPDATE t SET n = 2 WHERE id = 1000")
    execute(f"INSERT INTO log VALUES (repeat('y', {LARGE_BYTES + 1}), NULL), (repeat('y', {LARGE_BYTES + 1}), NULL)")
    execute("UPDATE days SET \"Day\" = '-infinity', n = 3 WHERE \"Day\" = 'infinity'; DELETE FROM days WHERE n = 'NaN'")
    execute("ALTER TABLE t ADD w int; INSERT INTO t (id, w) VALUES (1001, 7); UPDATE t SET w = 1 WHERE id < 10")
    execute("ALTER TABLE t ADD p numeric(10,2) DEFAULT 2; UPDATE t SET p = 1.5 WHERE id < 9")
    execute("ALTER TABLE t ALTER p TYPE numeric(12,2); UPDATE t SET p = 9999999999.25 WHERE id < 5")
    pipeline.check_equal()

    # Values out of line that an update and a change of the key leave alone, and more records than the driver takes.
    execute("UPDATE t SET n = 3 WHERE id = 1000; UPDATE t SET id = 1002 WHERE id = 1000")
    execute(f"INSERT INTO t SELECT i, 'many', i, i::text::bytea FROM generate_series(2000, {2000 + taken.rows}) i")
    execute("UPDATE t SET p = id WHERE id > 2000; DELETE FROM t WHERE id > 2000 AND id % 2 = 0")
    execute(f"INSERT INTO log SELECT 'many' || i % 7, NULL FROM generate_series(1, {taken.rows + 1}) i")
    execute("DELETE FROM log WHERE v = 'many3'")
    pipeline.check_equal()
    execute("TRUNCATE log, days; INSERT INTO log VALUES ('after', 'epoch')")
    execute("CREATE TABLE late (id int PRIMARY KEY, v text); INSERT INTO late VALUES (1, 'a')")
    execute("ALTER PUBLICATION walbridge ADD TABLE late; UPDATE late SET v = 'b'")
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    running.stop()
