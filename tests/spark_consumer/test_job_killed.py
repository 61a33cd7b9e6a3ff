"""A job that dies at every one of its points, one after the other, in one and the same plan.

In the shared session death is an exception that nothing of ours catches; ``test_program.py`` and the
campaign kill the process itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_consumer import apply, job
from spark_consumer.read import published
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.faults.kill_points import JOB, JOB_NEW_TABLE
from tests.spark_consumer.test_rivals import rows, runner
from walbridge.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.fault


class Killed(BaseException):
    """Stands for the end of the process."""


def test_plan_that_is_killed_at_every_point_in_turn_is_applied_once(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5, I8: the plan that fills new tables, then one that changes them; published once each, last of all."""
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    accounts = writer.relation("a", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("n", "int4")], relation_id=1)
    history = writer.relation("h", [ColumnSpec("id", "int4"), ColumnSpec("n", "int4")], relation_id=2)
    run = runner(spark, kafka, pipeline_name, lake)

    def die_in_turn(points: tuple[str, ...]) -> None:
        before = len(published(str(lake)))
        for point in points:

            def kill(reached: str, point: str = point) -> None:
                if reached == point:
                    raise Killed

            with monkeypatch.context() as patch:
                patch.setattr(job, "kill_point", kill)
                patch.setattr(apply, "kill_point", kill)
                with pytest.raises(Killed):
                    run()
            assert len(published(str(lake))) - before == (point == points[-1])

    writer.copy([(accounts, [{"id": 1, "n": 0}, {"id": 2, "n": 0}]), (history, [{"id": 0, "n": 0}])])
    die_in_turn(JOB)
    changed = [
        Event(accounts, "u", 0x2000, 0, after={"id": 1, "n": 5}),
        Event(accounts, "d", 0x2000, 1, before={"id": 2}, before_image="key"),
        Event(history, "c", 0x2000, 2, after={"id": 1, "n": 5}),
    ]
    writer.send(changed)
    die_in_turn(tuple(point for point in JOB if point not in JOB_NEW_TABLE))
    run()

    assert rows(lake, "public/a") == [(1, 5)]
    assert rows(lake, "public/h") == [(0, 0), (1, 5)]
    assert len(published(str(lake))) == 2
