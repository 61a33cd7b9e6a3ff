"""``walbridge copy --all`` from a lost slot to the lake: old states stay, marked, until each table's copy (I8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.followed import wait_until_current
from tests.faults.refusals.test_guards_server import SETTINGS, replace_cluster
from tests.faults.topic_life import TopicLife
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from walbridge.check.verb import all_findings
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.topics import metadata_topic
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
    pipeline.materialize()  # it may have made another cut before it stopped
    producer.slot_at_rest()
    execute(f"SELECT pg_drop_replication_slot('{producer.slot}')")
    execute("DELETE FROM t WHERE id < 100; UPDATE t SET v = 'b' WHERE id > 400; DELETE FROM bag; DROP TABLE gone")
    before = pipeline.published()[-1]

    assert copy_all(pipeline.settings, wait=False, say=print) == 0
    producer.run_until_killed("again:streaming")
    replaced = "it holds the tables of an earlier copy"
    assert [each.remedy for each in all_findings(pipeline.settings) if each.text == replaced] == [
        "walbridge materialize replaces them; walbridge status shows when it has"
    ]
    pipeline.materialize()
    assert all(each.text != replaced for each in all_findings(pipeline.settings))
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


@pytest.mark.soak
def test_tables_of_another_cluster_take_the_place_of_those_of_the_same_names(
    kafka: KafkaBroker, spark: SparkSession, pipeline_name: str, lake: Path, tmp_path: Path
) -> None:
    """A dump that was restored elsewhere: there other tables have the relation ids, and topics and folders stay."""
    with PostgresServer(SETTINGS) as server:
        producer = ProducerUnderTest(pipeline_name, Database(server, "postgres"), kafka, tmp_path)
        pipeline, execute = PipelineUnderTest(producer, spark, lake), producer.database.execute
        try:
            execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, v text)")
            execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (2, 'u')")
            producer.publish("t", "u")
            running = producer.start_streaming()
            for number in range(3):
                execute(f"ALTER TABLE u ADD v{number} int; INSERT INTO u VALUES ({number + 3}, 'more')")
            pipeline.check_equal()
            running.stop()
            before = {entry.name: entry for entry in pipeline.published()[-1].tables}
            with PostgresServer(SETTINGS) as other:
                other.stop()
                replace_cluster(server, other.data)
            server.start()
            execute("CREATE TABLE u (id int PRIMARY KEY, v text); CREATE TABLE t (id int PRIMARY KEY)")
            execute("INSERT INTO t VALUES (10); INSERT INTO u VALUES (20, 'new')")
            producer.publish("t", "u")
            assert producer.database.value("SELECT 'u'::regclass::oid::int") == before["t"].relation_id
            assert copy_all(pipeline.settings, wait=False, say=print) == 0
            producer.run_until_killed("again:streaming")
            pipeline.materialize()
            stale = {entry.name: entry for entry in pipeline.published()[-1].tables}
            assert {name: (e.state, e.path, e.version) for name, e in stale.items()} == {
                name: ("stale", e.path, e.version) for name, e in before.items()
            }

            running = producer.start_streaming()
            wait_until_current(producer)
            execute("INSERT INTO t VALUES (11); UPDATE u SET v = 'newer'")
            pipeline.check_equal()

            after = {entry.name: entry for entry in pipeline.published()[-1].tables}
            assert {n: (e.state, e.topic, e.path) for n, e in after.items()} == {
                n: ("current", e.topic, e.path) for n, e in before.items()
            }
            assert sorted(row["id"] for row in pipeline.contents("t")) == [10, 11]

            # Its records begin at 0 again, where those of the cluster before were.
            running.stop()
            TopicLife(producer).delete(metadata_topic(producer.name))
            assert copy_all(pipeline.settings, wait=False, say=print) == 0
            producer.start_streaming()
            wait_until_current(producer)
            execute("INSERT INTO t VALUES (12)")
            pipeline.check_equal()
        finally:
            producer.kill_all()
