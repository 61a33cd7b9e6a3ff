"""``[postgres] archives = true``: publications that leave operations out, up to what readers are told (I7)."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ProducerUnderTest, Running
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.read import tables_at
from walbridge.tables.read_tables import read_tables
from walbridge.tables.table_status import table_statuses
from walbridge.verify.report import as_text


def test_inserts_are_kept_and_nobody_is_told_that_they_equal_the_source(pipeline: PipelineUnderTest) -> None:
    """Whatever was deleted, updated or emptied there: also a filter on a column that identifies no row."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE log (n int); CREATE TABLE u (id int PRIMARY KEY);"
        "INSERT INTO t VALUES (1, 'old'), (2, 'draft'); INSERT INTO log VALUES (1)"
    )
    producer.publish("t WHERE (v <> 'draft')", "log", options="WITH (publish = 'insert')")
    assert "does not publish update, delete, truncate" in producer.refusal()
    producer.settings["postgres"] = {"archives": True}
    running = producer.start_streaming()
    execute(
        "INSERT INTO t VALUES (3, 'new'), (4, 'draft'); UPDATE t SET v = 'changed'; DELETE FROM t WHERE id < 3;"
        "INSERT INTO log VALUES (2), (2)"
    )
    execute("TRUNCATE log")
    execute("INSERT INTO t VALUES (1, 'again'); INSERT INTO log VALUES (3); DELETE FROM t WHERE id = 1")
    results = pipeline.compared()

    def held() -> tuple[list[tuple[int, str]], list[int]]:
        rows = sorted((row["id"], row["v"]) for row in pipeline.contents("t"))
        return rows, sorted(row["n"] for row in pipeline.contents("log"))

    assert held() == ([(1, "again"), (3, "new")], [1, 2, 2, 3])
    assert [(each.table, each.state, each.equal, each.passes) for each in results] == [
        (f"public.{name}", "archive", False, True) for name in ("log", "t")
    ]
    assert as_text(results).count("not compared: archive (not all changes come, so it need not be equal)") == 2
    with pytest.raises(OperatorError, match=r"table public\.log is an archive"):
        tables_at(pipeline.spark, str(pipeline.lake))
    assert {*tables_at(pipeline.spark, str(pipeline.lake), states=("archive",))} == {"public.t", "public.log"}
    assert {each.state for each in table_statuses(read_tables(pipeline.settings, needs_postgres=True), None)} == {
        "archive"
    }

    # A copy would take away what the source has no more: nobody makes one unasked.
    execute("ALTER TABLE log ALTER n TYPE int USING n * 10")
    execute("INSERT INTO t VALUES (5, 'new')")
    running.wait_for_log("table is quarantined")
    pipeline.catch_up()
    assert held() == ([(1, "again"), (3, "new"), (5, "new")], [1, 2, 2, 3])
    running.stop()
    producer.start_streaming()
    execute("INSERT INTO t VALUES (6, 'new')")
    pipeline.catch_up()
    assert held()[0][-1] == (6, "new")
    assert {entry.name: entry.state for entry in pipeline.published()[-1].tables} == {"t": "archive", "log": "stale"}


def two_archives(producer: ProducerUnderTest) -> Running:
    """A producer that follows the inserts of two tables."""
    producer.database.execute(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO t VALUES (1)"
    )
    producer.publish("t", "u", options="WITH (publish = 'insert')")
    producer.settings["postgres"] = {"archives": True}
    return producer.start_streaming()


@pytest.mark.soak
def test_archive_that_left_its_publication_for_a_while_is_not_begun_anew_unasked(pipeline: PipelineUnderTest) -> None:
    """A copy would take away what the source has no more."""
    producer, execute = pipeline.producer, pipeline.database.execute
    running = two_archives(producer)
    execute("DELETE FROM t; ALTER PUBLICATION walbridge DROP TABLE t")
    execute("INSERT INTO u VALUES (1)")
    running.wait_for_log("table left the publication")
    pipeline.catch_up()
    execute("ALTER PUBLICATION walbridge ADD TABLE t")
    execute("INSERT INTO t VALUES (2); INSERT INTO u VALUES (2)")
    running.wait_for_log("table is quarantined")
    pipeline.catch_up()
    assert pipeline.contents("t") == [{"id": 1}]
    running.stop()
    producer.start_streaming()
    execute("INSERT INTO t VALUES (3); INSERT INTO u VALUES (3)")
    pipeline.catch_up()
    assert pipeline.contents("t") == [{"id": 1}]
    assert {entry.name: entry.state for entry in pipeline.published()[-1].tables} == {"t": "stale", "u": "archive"}


@pytest.mark.variant(of="test_inserts_are_kept_and_nobody_is_told_that_they_equal_the_source")
def test_archive_that_comes_back_to_its_publication_is_quarantined_and_not_copied(producer: ProducerUnderTest) -> None:
    """Also by the next start; the lake of such a pipeline is that of the test before, in ``make soak``."""
    execute = producer.database.execute
    running = two_archives(producer)
    execute("ALTER PUBLICATION walbridge DROP TABLE t")
    execute("INSERT INTO u VALUES (1)")
    running.wait_for_log("table left the publication")
    execute("ALTER PUBLICATION walbridge ADD TABLE t")
    execute("INSERT INTO t VALUES (2)")
    running.wait_for_log("table is quarantined")
    running.stop()
    again = producer.start_streaming()
    execute("INSERT INTO t VALUES (3)")
    with producer.topics() as topics:
        producer.caught_up(topics)
    assert "copy of a table begins" not in running.log + again.log


def test_operations_that_no_archive_can_be_made_of_are_refused(producer: ProducerUnderTest) -> None:
    """With the SQL that makes one of them."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t", options="WITH (publish = 'insert, delete')")
    producer.settings["postgres"] = {"archives": True}
    told = producer.refusal()
    assert "publishes no update, truncate of table public.t: an archive takes inserts at least" in told
    execute("ALTER PUBLICATION \"walbridge\" SET (publish = 'insert');")
    producer.start_streaming()
    execute("INSERT INTO t VALUES (1); DELETE FROM t")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert [row["id"] for row in topics.replay().rows("public", "t")] == [1]
