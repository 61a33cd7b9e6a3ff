"""``[lake] dropped_tables = "drop"``: what left the source leaves the lake, and may come back (I8)."""

from __future__ import annotations

from deltalake import DeltaTable

from tests.fix_pipeline import PipelineUnderTest
from tests.wait import wait_until
from walbridge.spark_consumer.plan.manifest_row import by_name
from walbridge.spark_consumer.read import tables_at

RUNS_S = 240.0
"""Each look is a run of the job, a minute of a busy machine, and it takes several."""


def names(pipeline: PipelineUnderTest) -> list[str]:
    """What readers of the newest published cut have."""
    return sorted(tables_at(pipeline.spark, str(pipeline.lake)))


def test_tables_that_left_are_taken_out_of_the_lake_and_come_back_whole(pipeline: PipelineUnderTest) -> None:
    """One is dropped and made again, one leaves the publication and is added again; older cuts have them still."""
    producer, execute = pipeline.producer, pipeline.database.execute
    pipeline.dropped_tables = "drop"
    for table in ("t", "u", "w"):
        execute(f"CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES (1)")
    producer.publish("t", "u", "w")
    running = producer.start_streaming()
    pipeline.check_equal()
    before = pipeline.published()[-1]

    execute("DROP TABLE u; ALTER PUBLICATION walbridge DROP TABLE w; INSERT INTO t VALUES (2)")

    def left() -> bool:
        pipeline.catch_up()
        return {entry.state for entry in pipeline.published()[-1].tables} == {"current", "dropped"}

    wait_until(left, "the job to take both tables out", RUNS_S)
    wait_until(lambda: left() and names(pipeline) == ["public.t"], "both tables to be out", RUNS_S)
    said = next(row for row in pipeline.published() if by_name(row.tables)["public.u"].state == "stale")
    assert said.end_lsn > before.end_lsn
    for entry in before.tables:
        held = DeltaTable(str(pipeline.lake / entry.path), version=entry.version)
        assert held.to_pyarrow_table()["id"].to_pylist() == [1]
    assert sorted(tables_at(pipeline.spark, str(pipeline.lake), before.end_lsn)) == ["public.t", "public.u", "public.w"]

    execute("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (3); INSERT INTO w VALUES (3)")
    execute("ALTER PUBLICATION walbridge ADD TABLE u, w")
    wait_until(lambda: running.log.count("table is copied") == 2, "both tables to be copied", 60)
    execute("INSERT INTO u VALUES (4); DELETE FROM w WHERE id = 1")
    pipeline.check_equal()
    assert names(pipeline) == ["public.t", "public.u", "public.w"]
