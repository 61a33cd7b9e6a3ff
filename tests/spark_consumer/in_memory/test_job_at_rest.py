"""A source that is at rest: its lake gets a row now and then, and no other files. By a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.spark_consumer.memory_pipeline import CUTS, MemoryPipeline, job_over
from tests.spark_consumer.two_tables import cut_rows, shown, transfer
from walbridge.spark_consumer import job
from walbridge.spark_consumer.kafka.control.cuts_source import CutsFrom, CutsSource
from walbridge.spark_consumer.metrics import JobMetrics
from walbridge.spark_consumer.pace import Pace

Step = Callable[[], None]


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(job, "Pace", lambda interval_ms: Pace(interval_ms, clock))
    return clock


def following(
    pipeline: MemoryPipeline, lake: Path, monkeypatch: pytest.MonkeyPatch, steps: Callable[[Step], None]
) -> None:
    """Run the job; while it follows the stream, ``steps`` gets what brings it all cuts that there are by then."""

    def follow(source: CutsSource, act: Callable[[CutsFrom], None]) -> None:
        def bring() -> None:
            end = 2 * len(pipeline.topics.records[CUTS, 0])
            act(lambda offset: source.read(offset, end))

        steps(bring)

    monkeypatch.setattr(pipeline, "follow", follow)
    with job_over(pipeline, lake) as run:
        run(follows=True)


def kinds(lake: Path) -> list[str]:
    return [row.kind for row in cut_rows(lake)]


def test_cuts_without_a_change_share_a_row_and_say_nothing(
    pipeline: MemoryPipeline, lake: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def idle(bring: Step) -> None:
        with capture_logs() as told:
            for _ in range(40):
                pipeline.send()
                clock.now_s += 2
                bring()
                found.append(len(kinds(lake)))
        assert told == []

    following(pipeline, lake, monkeypatch, idle)

    assert found[0] == 2
    assert found[-1] == 10
    assert kinds(lake) == ["plan", *["published"] * 9]
    assert cut_rows(lake)[-1].end_lsn == pipeline.last.end_lsn


def test_last_cut_without_a_change_gets_its_row_also_if_no_other_comes(
    pipeline: MemoryPipeline, lake: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `walbridge verify` would wait for it for ever."""

    def idle(bring: Step) -> None:
        pipeline.send()
        bring()
        pipeline.rest()
        assert cut_rows(lake)[-1].end_lsn < pipeline.last.end_lsn
        clock.now_s += 30
        pipeline.rest()
        assert cut_rows(lake)[-1].end_lsn == pipeline.last.end_lsn
        pipeline.rest()

    following(pipeline, lake, monkeypatch, idle)

    assert kinds(lake) == ["plan", "published", "published"]


def test_change_after_cuts_without_one_is_applied_at_once_and_follows_the_rows_there_are(
    pipeline: MemoryPipeline, lake: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5."""

    def idle(bring: Step) -> None:
        pipeline.send()
        bring()
        transfer(pipeline, 1)
        bring()

    following(pipeline, lake, monkeypatch, idle)

    assert [(row.sequence, row.kind, row.to_cut) for row in cut_rows(lake)] == [
        (1, "plan", 1),
        (2, "published", 1),
        (3, "plan", 3),
        (4, "published", 3),
    ]
    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


def test_lake_is_as_old_as_the_newest_cut_though_that_has_no_row_yet(
    pipeline: MemoryPipeline, lake: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`walbridge_job_published_age_seconds` tells how far the lake is behind, not when it was written to."""
    metrics = JobMetrics()
    monkeypatch.setattr(job, "JobMetrics", lambda: metrics)
    ages, times = [], []

    def idle(bring: Step) -> None:
        metrics._unread.published_s = 0
        ages.append(metrics.registry.get_sample_value("walbridge_job_published_age_seconds") or 0)
        pipeline.send()
        bring()
        ages.append(metrics.registry.get_sample_value("walbridge_job_published_age_seconds") or 0)

        times.append(metrics.registry.get_sample_value("walbridge_job_published_time_seconds"))

    following(pipeline, lake, monkeypatch, idle)

    assert ages[0] > 1e9
    assert ages[1] < 600
    assert times == [metrics._unread.published_s]
