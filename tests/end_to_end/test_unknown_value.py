"""A value that Postgres left out for good: the lake calls its table stale, and goes on with the others."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.integration.test_toast import BIG
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.read import tables_at


@pytest.mark.variant(of="test_table_that_lost_a_value_is_left_where_settings_say_so")
def test_table_that_lost_a_value_is_stale_and_holds_what_came_before(pipeline: PipelineUnderTest) -> None:
    """I6, I8: in the middle of a transaction, with rows of the table before and after it."""
    producer, execute = pipeline.producer, pipeline.database.execute
    producer.settings["producer"] = {"on_unknown_value": "stale"}
    execute("CREATE TABLE f (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    execute(f"INSERT INTO f VALUES (1, {BIG % 1}), (7, 'copied')")
    producer.publish("f WHERE (id > 5)", "u")
    producer.start_streaming()
    execute(
        "INSERT INTO f VALUES (8, 'before'); INSERT INTO u VALUES (1); UPDATE f SET id = 11 WHERE id = 1;"
        "UPDATE f SET v = 'after'; INSERT INTO u VALUES (2)"
    )
    pipeline.catch_up()
    execute("INSERT INTO f VALUES (9, 'after'); INSERT INTO u VALUES (3)")

    told = {result.table: (result.equal, result.state) for result in pipeline.compared()}
    assert told["public.u"] == (True, "current")
    assert told["public.f"][0] is False
    assert told["public.f"][1].startswith("stale since ")
    assert {row["id"]: row["v"] for row in pipeline.contents("f")} == {7: "copied", 8: "before"}
    with pytest.raises(OperatorError, match=r"public\.f is stale"):
        tables_at(pipeline.spark, str(pipeline.lake))
