"""A pipeline that gets another name: new topics, its own slot, and the lake that it had (I8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import KILLED, refusal_of
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.read import tables_at


def test_pipeline_goes_on_in_its_lake_under_a_new_name(
    pipeline: PipelineUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table keeps its rows, marked as stale, until its own copy is whole; each refusal says what is to be set."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE bag (n int)")
    execute("ALTER TABLE bag REPLICA IDENTITY FULL")
    execute("INSERT INTO t SELECT i, 'a' FROM generate_series(1, 50) i; INSERT INTO bag VALUES (1), (1)")
    producer.publish("t", "bag")
    running = producer.start_streaming()
    pipeline.check_equal()
    running.stop()
    pipeline.materialize()
    producer.slot_at_rest()
    before = pipeline.published()[-1]
    execute("DELETE FROM t WHERE id < 10; UPDATE t SET v = 'b' WHERE id > 40; INSERT INTO bag VALUES (2)")

    settings = {"postgres": {"slot": producer.slot}}
    named = replace(producer, name=f"{producer.name}_b", settings=settings, _running=[])
    renamed = replace(pipeline, producer=named)
    environ = {"WALBRIDGE_FORMERLY": producer.name}
    try:
        assert "if the pipeline had another name before, set formerly to that one" in named.refusal()
        wrong = refusal_of(named.start(environ={"WALBRIDGE_FORMERLY": "nobody"}))
        assert f"nobody.progress says nothing of slot {producer.slot}" in wrong
        assert "set formerly to the name that the pipeline had, or leave it out" in wrong
        assert named.start("again:streaming", environ).exit_code() == KILLED
        with pytest.raises(OperatorError, match="belongs to pipeline") as refused:
            renamed.materialize()
        assert refused.value.remedy.endswith("if that was its name before, set formerly to it")

        monkeypatch.setenv("WALBRIDGE_FORMERLY", producer.name)
        renamed.materialize()
        kept = pipeline.published()[-1]
        assert (kept.pipeline, *{(each.state, each.since) for each in kept.tables}) == (
            named.name,
            ("stale", before.end_lsn),
        )
        assert {each.path: each.version for each in kept.tables} == {each.path: each.version for each in before.tables}
        with pytest.raises(OperatorError, match="stale"):
            tables_at(pipeline.spark, str(pipeline.lake))
        frames = tables_at(pipeline.spark, str(pipeline.lake), states=("current", "stale"))
        assert {name: frame.count() for name, frame in frames.items()} == {"public.t": 50, "public.bag": 2}

        assert named.start("chunk:ended", environ).exit_code() == KILLED
        renamed.materialize()
        assert sorted(each.state for each in pipeline.published()[-1].tables) == ["current", "stale"]

        running = named.start_streaming(environ=environ)
        renamed.check_equal()
        after = pipeline.published()[-1]
        assert {(e.name, e.path, e.state) for e in after.tables} == {(e.name, e.path, "current") for e in before.tables}
        running.stop()
        monkeypatch.delenv("WALBRIDGE_FORMERLY")
        named.start_streaming()
        execute("INSERT INTO t VALUES (1, 'again'); DELETE FROM bag WHERE n = 1")
        renamed.check_equal()
        with pytest.raises(OperatorError, match="belongs to pipeline"):
            pipeline.materialize()
    finally:
        named.kill_all()
