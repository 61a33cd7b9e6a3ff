"""A topic of one table that is gone before the job has read it: the lake calls that table stale until its copy (I8)."""

from __future__ import annotations

import pytest

from tests.faults.topic_life import TopicLife
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import Running
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.schemas.topics import data_topic
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.tables.copy import copy


def entries(pipeline: PipelineUnderTest) -> dict[str, TableEntry]:
    return {entry.name: entry for entry in pipeline.published()[-1].tables}


def states(pipeline: PipelineUnderTest) -> dict[str, str]:
    return {name: entry.state for name, entry in entries(pipeline).items()}


def published_of(pipeline: PipelineUnderTest, *, read: bool = True) -> Running:
    """``t`` and ``u``, whose topics hold changes that the job has not read. ``read``: it has read those before."""
    execute, producer = pipeline.database.execute, pipeline.producer
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v text)")
    execute("INSERT INTO t (v) VALUES (0); INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 100) i")
    producer.publish("t", "u")
    running = producer.start_streaming()
    if read:
        pipeline.check_equal()
    write(pipeline)
    with producer.topics() as topics:
        producer.caught_up(topics)
    return running


def write(pipeline: PipelineUnderTest) -> None:
    pipeline.database.execute("INSERT INTO t (v) VALUES (1); UPDATE u SET v = v || '!'; DELETE FROM u WHERE id = 7")


@pytest.mark.parametrize("remade", [in_soak(False), True], ids=["deleted", "made anew"])
def test_table_whose_topic_is_lost_is_stale_until_it_is_copied_and_the_others_go_on(
    pipeline: PipelineUnderTest, remade: bool
) -> None:
    pipeline.producer.settings["producer"] = {"on_table_error": "quarantine"}
    pipeline.on_table_error = "quarantine"  # or the job asks for the copy that is asked for below
    running = published_of(pipeline)
    before = entries(pipeline)["u"]
    life, topic = TopicLife(pipeline.producer), data_topic(pipeline.producer.name, "public", "u")
    if remade:
        life.remake(topic)
    else:
        life.delete(topic)
    write(pipeline)
    running.wait_for_log("table is quarantined")
    write(pipeline)
    pipeline.catch_up()

    found = entries(pipeline)["u"]
    assert states(pipeline) == {"t": "current", "u": "stale"}
    assert (found.path, found.version) == (before.path, before.version), "rows of before stay"
    assert len(pipeline.contents("t")) == 4

    assert copy(pipeline.settings, ["u"], wait=False, say=print) == 0
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    assert states(pipeline) == {"t": "current", "u": "current"}
    assert (entries(pipeline)["u"].path, entries(pipeline)["u"].topic) == (before.path, f"{topic}_2")


@pytest.mark.soak
def test_lake_that_begins_after_a_topic_was_lost_gets_the_copy_that_came_instead(pipeline: PipelineUnderTest) -> None:
    """Nobody can have what was in it."""
    running = published_of(pipeline, read=False)
    TopicLife(pipeline.producer).delete(data_topic(pipeline.producer.name, "public", "u"))
    write(pipeline)
    wait_until(lambda: "table is copied" in running.log, "the copy")
    pipeline.check_equal()
    assert states(pipeline) == {"t": "current", "u": "current"}
