"""A pipeline whose progress earlier code wrote goes on without a copy, and its progress is then of the new format."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.fix_producer import ProducerUnderTest
from tests.format_1 import encode_format_1
from walbridge.schemas.topics import progress_topic

pytestmark = pytest.mark.fault


@pytest.fixture
def of_format_1(producer: ProducerUnderTest) -> ProducerUnderTest:
    """Three tables: two are followed, one has left the publication; changes wait for the next start."""
    execute = producer.database.execute
    execute(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE v (id int PRIMARY KEY)"
    )
    producer.publish("t", "u", "v")
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); INSERT INTO v VALUES (1)")
    producer.check_equal()
    execute("ALTER PUBLICATION walbridge DROP TABLE v")
    running.wait_for_log("left the publication")
    running.stop()
    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    writer = Producer({"bootstrap.servers": producer.kafka.bootstrap_servers})
    writer.produce(progress_topic(producer.name), encode_format_1(progress), progress.key)
    assert writer.flush(60) == 0
    execute("INSERT INTO t VALUES (2); INSERT INTO u VALUES (2)")
    return producer


def test_pipeline_of_format_1_goes_on_without_a_copy(of_format_1: ProducerUnderTest) -> None:
    """I4: nothing comes twice; each table is what it was, and is compared with what it was beside (I7)."""
    producer, execute = of_format_1, of_format_1.database.execute
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (3)")
    producer.check_equal()
    assert "copy begins" not in running.log

    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    assert progress.format_version == 2
    states = {table.topic: (table.state, bool(table.topic_id)) for table in progress.tables.values()}
    assert states == {
        f"{producer.name}.public.t": ("current", True),
        f"{producer.name}.public.u": ("current", True),
        f"{producer.name}.public.v": ("dropped", True),
    }
    execute("ALTER PUBLICATION walbridge SET TABLE t, u WHERE (id > 5); INSERT INTO t VALUES (9)")
    running.wait_for_log("its row filter or column list was changed")
    running.wait_for_log("table is copied")
