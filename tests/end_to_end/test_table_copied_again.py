"""``walbridge copy`` and ``walbridge forget``, from the command to the lake (I8)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits
from tests.faults.followed import states_by_name
from tests.fix_pipeline import PipelineUnderTest
from tests.wait import wait_until
from walbridge.tables.copy import copy
from walbridge.tables.forget import forget


@pytest.mark.variant(of="test_table_whose_folder_is_gone_is_copied_again_without_being_asked_for")
def test_table_that_is_copied_again_stays_readable_and_equals_the_source(pipeline: PipelineUnderTest) -> None:
    """Its rows of before are published until the copy is whole, and each published cut equals the source."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    execute(MADE.format(rows=500))
    producer.publish("t", "u")
    producer.settings["producer"] = {"batch_rows_max": 100}
    running = producer.start_streaming()
    pipeline.check_equal()
    with Habits(producer, 500) as habits:
        assert copy(pipeline.settings, ["u"], wait=False, say=print) == 0
        running.wait_for_log("copy of a table begins")
        pipeline.catch_up()
        assert {entry.state for entry in pipeline.published()[-1].tables} == {"current"}
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    pipeline.check_equal()
    assert {(entry.state, entry.copy_from) for entry in pipeline.published()[-1].tables} == {("current", None)}


@pytest.mark.soak
def test_table_that_is_forgotten_leaves_topic_and_folder_that_may_be_deleted(pipeline: PipelineUnderTest) -> None:
    """The remedies are followed to the letter; all other tables go on, and the table may come again."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    producer.publish("t", "u")
    producer.start_streaming()
    pipeline.check_equal()
    execute("ALTER PUBLICATION walbridge DROP TABLE u; INSERT INTO t VALUES (1)")
    dropped = {"public.t": "current", "public.u": "dropped"}
    wait_until(lambda: states_by_name(pipeline.settings) == dropped, "the table to be dropped")
    pipeline.catch_up()
    said: list[str] = []
    assert forget(pipeline.settings, ["u"], say=said.append) == 0
    wait_until(lambda: states_by_name(pipeline.settings) == {"public.t": "current"}, "the table to be forgotten")
    folder = Path(said[2].rpartition(" rm -r ")[2])
    assert folder.is_dir()
    shutil.rmtree(folder)
    execute("INSERT INTO t VALUES (2)")
    pipeline.catch_up()
    assert sorted(row["id"] for row in pipeline.contents("t")) == [1, 2]
    execute("ALTER PUBLICATION walbridge ADD TABLE u; INSERT INTO u VALUES (2)")
    wait_until(lambda: states_by_name(pipeline.settings).get("public.u") == "current", "the table to be copied")
    pipeline.check_equal()


def test_table_whose_folder_is_gone_is_copied_again_without_being_asked_for(pipeline: PipelineUnderTest) -> None:
    """The job asks the producer; the other table goes on."""
    execute = pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    pipeline.producer.publish("t", "u")
    running = pipeline.producer.start_streaming()
    pipeline.check_equal()
    shutil.rmtree(pipeline.lake / "public" / "u")
    execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (2)")
    pipeline.catch_up()
    states = [{entry.name: entry.state for entry in row.tables} for row in pipeline.published()]
    assert {"t": "current", "u": "stale"} in states, "not the newest, maybe: its copy may have reached the same run"
    running.wait_for_log("table is copied")
    pipeline.check_equal()
    assert {entry.state for entry in pipeline.published()[-1].tables} == {"current"}
