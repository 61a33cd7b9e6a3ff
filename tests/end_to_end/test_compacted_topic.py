"""A compacted topic, to the lake: what compaction takes before the job has read it is never passed over."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ResourceType

from tests.fix_pipeline import PipelineUnderTest
from tests.integration.test_compacted_topics import AT_ONCE, admin, altered, go_on
from tests.wait import wait_until


@pytest.mark.soak
def test_table_whose_records_were_compacted_before_the_job_read_them_is_stale_until_it_equals_the_source_again(
    pipeline: PipelineUnderTest,
) -> None:
    """I7, I8: holes in the ranges of its cuts. Topics keep such records; here somebody has lowered that."""
    producer, execute, topic = pipeline.producer, pipeline.database.execute, f"{pipeline.producer.name}.public.t"
    execute("CREATE TABLE t (id int PRIMARY KEY, note text); CREATE TABLE u (id int PRIMARY KEY)")
    execute("ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t SELECT i, 'copied' FROM generate_series(1, 20) i")
    producer.publish("t", "u")
    producer.settings["topics"] = {"partitions": 2, "cleanup": {"public.t": "compact"}}
    running = producer.start_streaming()
    execute(
        "UPDATE t SET note = 'changed' WHERE id < 5; DELETE FROM t WHERE id = 5; UPDATE t SET id = -id WHERE id = 6"
    )
    pipeline.check_equal()
    execute("TRUNCATE t; INSERT INTO t SELECT i, 'behind it' FROM generate_series(1, 20) i")
    pipeline.check_equal()

    (broker,) = admin(producer).list_topics(timeout=10).brokers
    with (
        altered(producer, ResourceType.BROKER, str(broker), {"log.cleaner.backoff.ms": "50"}),
        altered(producer, ResourceType.TOPIC, topic, AT_ONCE),
    ):
        for number in range(10):
            execute(f"UPDATE t SET note = 'changed {number}'; INSERT INTO u VALUES ({number})")
        wait_until(lambda: go_on(producer, topic) < 100, "Kafka to compact the topic", 60)
    pipeline.catch_up()
    states = [{entry.topic: entry.state for entry in row.tables} for row in pipeline.published()]
    # Not the newest, maybe: its copy may have reached the same run of the job.
    assert {topic: "stale", f"{producer.name}.public.u": "current"} in states
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    running.stop()
