"""``walbridge copy --all`` from a lost slot to the lake: old states stay, marked, until each table's copy (I8)."""

from __future__ import annotations

import pytest

from tests.faults.followed import wait_until_current
from tests.fix_pipeline import PipelineUnderTest
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.read import tables_at
from walbridge.tables.copy_all import copy_all


def test_lake_keeps_its_tables_marked_stale_until_each_is_copied_after_a_lost_slot(pipeline: PipelineUnderTest) -> None:
    """What was changed while there was no slot is in the lake afterwards, also what was deleted."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'a' FROM generate_series(1, 500) i")
    execute("CREATE TABLE bag (v int); ALTER TABLE bag REPLICA IDENTITY FULL; INSERT INTO bag VALUES (1), (1), (2)")
    execute("CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1)")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start_streaming()
    pipeline.check_equal()
    running.stop()
    producer.slot_at_rest()
    execute(f"SELECT pg_drop_replication_slot('{producer.slot}')")
    execute("DELETE FROM t WHERE id < 100; UPDATE t SET v = 'b' WHERE id > 400; DELETE FROM bag; DROP TABLE gone")
    before = pipeline.published()[-1]

    assert copy_all(pipeline.settings, wait=False, say=print) == 0
    producer.run_until_killed("again:streaming")
    pipeline.materialize()
    stale = pipeline.published()[-1]
    assert stale.epoch != before.epoch
    assert {(entry.state, entry.since) for entry in stale.tables} == {("stale", before.end_lsn)}
    assert {(e.path, e.version) for e in stale.tables} == {(e.path, e.version) for e in before.tables}
    with pytest.raises(OperatorError, match="is stale"):
        tables_at(pipeline.spark, str(pipeline.lake))
    old = tables_at(pipeline.spark, str(pipeline.lake), states=("current", "stale"))
    assert {name: frame.count() for name, frame in old.items()} == {"public.bag": 3, "public.gone": 1, "public.t": 500}

    producer.run_until_killed("chunk:entered")
    pipeline.materialize()
    producer.start_streaming()
    wait_until_current(producer)
    execute("INSERT INTO t VALUES (1, 'again'); INSERT INTO bag VALUES (7)")
    pipeline.check_equal()
    assert {entry.name: entry.state for entry in pipeline.published()[-1].tables} == {
        "t": "current",
        "bag": "current",
        "gone": "stale",
    }
    assert {(e.name, e.path) for e in before.tables} == {(e.name, e.path) for e in pipeline.published()[-1].tables}
