"""A pipeline whose first copy goes on beside the stream: tables appear in the lake as their copies end (I8)."""

from __future__ import annotations

import pytest

from tests.faults.followed import settings_of, wait_until_current
from tests.fix_pipeline import PipelineUnderTest
from walbridge.spark_consumer.read import tables_at
from walbridge.tables.copy import copy

MADE = """
    CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, 'a' FROM generate_series(1, 350) i;
    CREATE TABLE b (id int PRIMARY KEY, v text); INSERT INTO b SELECT i, 'b' FROM generate_series(1, 350) i;
    CREATE TABLE bag (n int); ALTER TABLE bag REPLICA IDENTITY FULL; INSERT INTO bag VALUES (1), (1), (2);
    CREATE PUBLICATION walbridge FOR ALL TABLES
"""


def states(pipeline: PipelineUnderTest) -> dict[str, str]:
    """Of the tables that the newest published cut has rows of."""
    return {entry.name: entry.state for entry in pipeline.published()[-1].tables if entry.version is not None}


@pytest.mark.variant(of="test_first_copy_that_is_killed_reads_no_more_than_a_chunk_or_two_again")
def test_lake_begins_empty_and_has_each_table_once_its_copy_is_whole(pipeline: PipelineUnderTest) -> None:
    """At every published moment what is there equals the source, while the producer is killed again and again."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute(MADE)
    producer.settings["producer"] = {"first_copy": "beside", "batch_rows_max": 100}
    producer.run_until_killed("again:streaming")
    pipeline.materialize()
    assert (states(pipeline), tables_at(pipeline.spark, str(pipeline.lake))) == ({}, {})

    execute("UPDATE a SET v = 'early' WHERE id < 10; DELETE FROM b WHERE id > 340")
    producer.run_until_killed("chunk:entered:2")
    pipeline.materialize()
    assert states(pipeline) == {}
    producer.run_until_killed("chunk:ended")
    pipeline.materialize()
    ((first, state),) = states(pipeline).items()
    assert state == "current"
    (frame,) = tables_at(pipeline.spark, str(pipeline.lake)).values()
    wanted = f"SELECT count(*), min(v) FROM {first}" if first != "bag" else "SELECT count(*), '' FROM bag"
    assert frame.count() == pipeline.database.rows(wanted)[0][0]

    running = producer.start_streaming()
    assert copy(settings_of(producer), ["a", "b", "bag"], wait=True, say=print) == 0
    wait_until_current(producer)
    execute("INSERT INTO a VALUES (1000, 'late'); DELETE FROM bag WHERE n = 1; UPDATE b SET v = 'late'")
    pipeline.check_equal()
    assert states(pipeline) == dict.fromkeys(("a", "b", "bag"), "current")
    running.stop()


@pytest.mark.soak
@pytest.mark.parametrize(("point", "whole"), [("copy:rows:2", {}), ("copy:table:2", {"public.a": 350})])
def test_half_a_table_of_a_first_copy_in_one_snapshot_is_nobodys_once_the_next_is_beside_the_stream(
    pipeline: PipelineUnderTest, point: str, whole: dict[str, int]
) -> None:
    """Its rows are of no state of the source; one that is whole is of that snapshot. Folders are the tables' all the
    same."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute(MADE)
    producer.settings["producer"] = {"batch_rows_max": 100}
    producer.run_until_killed(point)
    pipeline.materialize()
    assert pipeline.published() == []
    execute("DELETE FROM a WHERE id % 2 = 0; DELETE FROM b WHERE id % 2 = 0")
    producer.settings["producer"] |= {"first_copy": "beside"}
    producer.run_until_killed("again:streaming")
    pipeline.materialize()
    kept = tables_at(pipeline.spark, str(pipeline.lake), states=("current", "stale"))
    assert {name: frame.count() for name, frame in kept.items()} == whole
    assert {*states(pipeline).values()} <= {"stale"}

    running = producer.start_streaming()
    wait_until_current(producer)
    execute("INSERT INTO a VALUES (2, 'again')")
    pipeline.check_equal()
    assert {entry.name: entry.path for entry in pipeline.published()[-1].tables} == {
        name: f"public/{name}" for name in ("a", "b", "bag")
    }
    running.stop()
