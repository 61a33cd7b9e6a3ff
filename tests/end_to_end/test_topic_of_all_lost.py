"""A topic of all tables is lost: ``walbridge copy --all`` goes on in the same topics and lake (I7, I8)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.faults.followed import copy_all_into_what_is_left, drop_slot_only, wait_until_current
from tests.faults.topic_life import TopicLife
from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak
from walbridge.schemas.control.cut import encode_cut
from walbridge.schemas.errors import COPY_ALL, COPY_ALL_ANEW, OperatorError
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.tables.copy_all import copy_all


def begin(pipeline: PipelineUnderTest) -> None:
    """Two tables are in the lake; then one has changes that are in Kafka alone, and the producer is stopped."""
    pipeline.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    pipeline.database.execute("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    pipeline.producer.publish("t", "u")
    running = pipeline.producer.start_streaming()
    pipeline.check_equal()
    pipeline.database.execute("UPDATE t SET v = 'unread' WHERE id = 2; CREATE TABLE late (id int PRIMARY KEY)")
    pipeline.database.execute("ALTER PUBLICATION walbridge ADD TABLE late; INSERT INTO late VALUES (1)")
    wait_until_current(pipeline.producer)
    with pipeline.producer.topics() as topics:
        pipeline.producer.caught_up(topics)
    running.stop()


def check_copied_into_the_same_lake(pipeline: PipelineUnderTest, before: CutRow) -> None:
    """``before``: the newest published state of that time."""
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    after = {entry.name: entry for entry in pipeline.published()[-1].tables}
    assert {name: entry.state for name, entry in after.items()} == dict.fromkeys(("t", "u", "late"), "current")
    assert all(after[entry.name].path == entry.path for entry in before.tables)


def refusal_of_job(pipeline: PipelineUnderTest) -> OperatorError:
    job = Job(pipeline.spark, pipeline.settings, threading.Event())
    try:
        with pytest.raises(OperatorError) as refused:
            job.run(once=True)
    finally:
        job.close()
    return refused.value


@pytest.mark.variant(of="test_lake_keeps_its_tables_marked_stale_until_each_is_copied_after_a_lost_slot")
@pytest.mark.parametrize("topic_of", [in_soak(cuts_topic), metadata_topic])
def test_lake_keeps_its_tables_until_each_is_copied_after_a_topic_of_all_was_lost(
    pipeline: PipelineUnderTest, topic_of: Callable[[str], str]
) -> None:
    begin(pipeline)
    before = pipeline.published()[-1]
    TopicLife(pipeline.producer).delete(topic_of(pipeline.producer.name))
    pipeline.database.execute("DELETE FROM t WHERE id = 1")
    said = pipeline.producer.refusal()
    assert f"topic {topic_of(pipeline.producer.name)} was deleted and made again" in said
    assert COPY_ALL in said
    assert refusal_of_job(pipeline).remedy.endswith(COPY_ALL_ANEW)
    assert pipeline.published()[-1] == before

    copy_all_into_what_is_left(pipeline.producer)

    check_copied_into_the_same_lake(pipeline, before)
    pipeline.database.execute("INSERT INTO t VALUES (3, 'c'); DELETE FROM late")
    pipeline.check_equal()


@pytest.mark.soak
def test_pipeline_whose_progress_was_lost_begins_with_a_copy_in_the_same_lake(pipeline: PipelineUnderTest) -> None:
    begin(pipeline)
    before = pipeline.published()[-1]
    TopicLife(pipeline.producer).delete(progress_topic(pipeline.producer.name))
    pipeline.database.execute("DELETE FROM t WHERE id = 1")
    assert "but <pipeline>.progress says nothing of it" in pipeline.producer.refusal()

    drop_slot_only(pipeline.producer)
    check_copied_into_the_same_lake(pipeline, before)


@pytest.mark.soak
def test_lake_that_cannot_go_on_though_the_stream_can_gets_a_new_epoch(pipeline: PipelineUnderTest) -> None:
    """Somebody else wrote a cut: the producer knows nothing of that, and goes on."""
    begin(pipeline)
    with pipeline.producer.topics() as topics:
        cut = topics.cuts()[-1]
    other = Producer({"bootstrap.servers": pipeline.producer.kafka.bootstrap_servers})
    other.produce(cuts_topic(pipeline.producer.name), encode_cut(cut))
    assert other.flush(60) == 0
    running = pipeline.producer.start_streaming()
    pipeline.database.execute("DELETE FROM t WHERE id = 1")
    told = refusal_of_job(pipeline)
    assert (told.what[:27], told.remedy) == ("the cuts do not fit togethe", COPY_ALL_ANEW)

    said = list[str]()
    assert copy_all(pipeline.settings, wait=True, say=said.append, new_epoch=True) == 0
    assert (
        said[1] == "walbridge produce begins a new epoch, with a new slot; each table is stale until its copy is whole"
    )
    assert 'until it is copied" reason="a new epoch was asked for"' in running.log
    pipeline.check_equal()
    assert {entry.state for entry in pipeline.published()[-1].tables} == {"current"}
    pipeline.database.execute("INSERT INTO t VALUES (3, 'c')")
    pipeline.check_equal()
    running.stop()
