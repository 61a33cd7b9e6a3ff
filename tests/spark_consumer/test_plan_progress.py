"""An operator sees at what the job is while a plan takes long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.spark_consumer.plan.cuts import cut, numbered, part
from walbridge.spark_consumer.plan.plan import Plan, TablePlan, make_plan
from walbridge.spark_consumer.plan_progress import PlanProgress


class Clock:
    """Of a test, in seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        patch.setattr("walbridge.spark_consumer.plan_progress.time.monotonic", lambda: self.now_s)


def plan() -> Plan:
    """Of three tables with five rows."""
    sizes = {"p.a": 1, "p.b": 1, "p.c": 3}
    of_rows = make_plan(numbered(cut(7, parts=[part(0, size, topic) for topic, size in sizes.items()])), {})
    return replace(of_rows, tables=tuple(TablePlan(at, topic, None, (), "current") for at, topic in enumerate(sizes)))


def lines(progress: PlanProgress) -> list[Any]:
    with capture_logs() as said:
        progress.log_if_due()
    return list(said)


def test_long_plan_says_every_ten_seconds_at_which_tables_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, of_three = Clock(monkeypatch), plan()
    progress = PlanProgress(of_three)
    with progress.applying(of_three.tables[0]):
        clock.now_s += 5
        assert lines(progress) == []
    with progress.applying(of_three.tables[1]):
        clock.now_s += 5
        with progress.applying(of_three.tables[2]):
            (line,) = lines(progress)
            assert lines(progress) == []

    assert {name: line[name] for name in ("to_cut", "rows", "tables", "tables_done", "seconds", "at")} == {
        "to_cut": 7,
        "rows": 5,
        "tables": 3,
        "tables_done": 1,
        "seconds": 10,
        "at": "p.b, p.c",
    }


def test_plan_that_only_reads_names_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    progress = PlanProgress(plan())
    clock.now_s += 10

    (line,) = lines(progress)

    assert "at" not in line
