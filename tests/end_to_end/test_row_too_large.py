"""A row that is too large for Kafka keeps its table from being current in the lake, and no other one (I8)."""

from __future__ import annotations

import pytest

from tests.faults.followed import settings_of
from tests.fix_pipeline import PipelineUnderTest
from walbridge.tables.copy import copy

LARGE = "repeat('x', 1000000)"


def states(pipeline: PipelineUnderTest) -> dict[str, str]:
    """As the newest published cut has them."""
    return {entry.name: entry.state for entry in pipeline.published()[-1].tables}


@pytest.mark.soak
@pytest.mark.parametrize("rows_max", [200, 20_000], ids=["first copy of many cuts", "first copy of one cut"])
def test_table_of_a_row_that_is_too_large_is_not_current_until_it_is_copied(
    pipeline: PipelineUnderTest, rows_max: int
) -> None:
    """One table has it when the first copy is made, another one later."""
    producer, execute = pipeline.producer, pipeline.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text)")
    execute("CREATE TABLE w (id int PRIMARY KEY, v text)")
    for name in ("t", "u", "w"):
        execute(f"INSERT INTO {name} SELECT i, 'v' FROM generate_series(1, 300) i")
    execute(f"INSERT INTO w VALUES (301, {LARGE})")
    producer.publish("t", "u", "w")
    producer.settings["producer"] = {"row_bytes_max": 100_000, "batch_rows_max": rows_max}
    running = producer.start_streaming()
    pipeline.catch_up()
    assert (states(pipeline)["t"], states(pipeline)["u"]) == ("current", "current")
    assert states(pipeline).get("w") != "current"
    execute(f"UPDATE u SET v = 'w' WHERE id < 9; UPDATE u SET v = {LARGE} WHERE id = 7; DELETE FROM t WHERE id = 1")
    execute("UPDATE u SET v = 'left out' WHERE id = 20")
    pipeline.catch_up()
    assert (states(pipeline)["t"], states(pipeline)["u"]) == ("current", "stale")
    assert len(pipeline.contents("t")) == 299
    found = {row["id"]: row["v"] for row in pipeline.contents("u")}
    assert (found[7], found[8], found[20]) == ("w", "w", "v")
    running.stop()

    producer.settings["producer"]["row_bytes_max"] = 10_000_000
    producer.start_streaming()
    assert copy(settings_of(producer), ["public.u", "public.w"], wait=True, say=print) == 0
    execute(f"INSERT INTO u VALUES (301, {LARGE}); UPDATE w SET v = 'small' WHERE id = 301")
    pipeline.check_equal()
    assert set(states(pipeline).values()) == {"current"}
