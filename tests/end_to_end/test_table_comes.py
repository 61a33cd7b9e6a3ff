"""A table that comes while the stream runs, from the source to the lake (I8)."""

from __future__ import annotations

import pytest

from tests.faults.copies.test_table_copied_again import ask_for_copy
from tests.fix_pipeline import PipelineUnderTest


@pytest.mark.variant(of="test_lake_equals_a_database_whose_tables_are_made_altered_renamed_and_dropped")
def test_table_that_comes_is_in_the_lake_and_equal_once_it_is_copied(pipeline: PipelineUnderTest) -> None:
    """Created, added with rows, and made again under its name; the job publishes while they are copied."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    execute("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 20) i; INSERT INTO u VALUES (1)")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start_streaming()
    pipeline.check_equal()
    execute("CREATE TABLE w (id int PRIMARY KEY, v text); INSERT INTO w SELECT i, 'w' FROM generate_series(1, 1000) i")
    running.wait_for_log("copy of a table begins")
    execute("UPDATE w SET v = 'x' WHERE id % 3 = 0; DELETE FROM w WHERE id % 7 = 0; UPDATE t SET v = 'y'")
    pipeline.catch_up()
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    running.stop()

    execute("DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (2)")
    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    execute("INSERT INTO u VALUES (3)")
    pipeline.check_equal()
    assert sorted(row["id"] for row in pipeline.contents("u")) == [2, 3]


@pytest.mark.soak
def test_table_without_a_key_that_comes_is_in_the_lake_and_equal_once_it_is_copied(pipeline: PipelineUnderTest) -> None:
    """Rows that equal others come and go while it is copied, and afterwards; also where its copy begins anew."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 100}
    producer.start_streaming()
    pipeline.check_equal()
    producer.kill_all()

    execute("CREATE TABLE u (n int, v float8); ALTER TABLE u REPLICA IDENTITY FULL")
    execute("INSERT INTO u SELECT i % 7, CASE WHEN i % 5 > 0 THEN i % 3 END FROM generate_series(1, 700) i")
    producer.run_until_killed("whole:rows-entered:3")
    one = "ctid = (SELECT min(ctid) FROM u WHERE n = {})"
    execute(f"DELETE FROM u WHERE {one.format(1)}; UPDATE u SET v = '-0' WHERE {one.format(2)}")
    running = producer.start_streaming()
    execute(f"INSERT INTO u VALUES (1, 2), (1, 2), (9, 'NaN'); UPDATE u SET n = 8 WHERE {one.format(3)}")
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    execute(
        f"DELETE FROM u WHERE {one.format(1)}; UPDATE u SET n = 1 WHERE {one.format(8)}; UPDATE u SET v = 3 WHERE n = 9"
    )
    pipeline.check_equal()


@pytest.mark.soak
def test_table_without_a_key_that_is_copied_again_has_each_row_once(pipeline: PipelineUnderTest) -> None:
    """And is not called current from where its changes wait until they are in the topic."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE u (n int); ALTER TABLE u REPLICA IDENTITY FULL")
    execute("INSERT INTO u SELECT i % 7 FROM generate_series(1, 700) i")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start_streaming()
    execute("INSERT INTO u VALUES (1)")
    pipeline.check_equal()
    running.stop()

    ask_for_copy(producer, "u")
    producer.run_until_killed("whole:rows-entered:2")
    pipeline.materialize()
    assert [entry.state for entry in pipeline.published()[-1].tables] != ["current"]
    assert len(pipeline.contents("u")) == 701
    running = producer.start_streaming()
    execute("INSERT INTO u VALUES (1), (8); DELETE FROM u WHERE ctid = (SELECT min(ctid) FROM u WHERE n = 2)")
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    assert [entry.state for entry in pipeline.published()[-1].tables] == ["current"]
    assert len(pipeline.contents("u")) == 702
