"""No kill point is forgotten: the lists that tests die by name what the sources name."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults import kill_points

ROOT = Path(__file__).parents[3]
PROGRAMS = ("producer", "spark_consumer")
CALL = re.compile(r'kill_point\("([^"]+)"\)')
COUNT = re.compile(r":\d+$")


def test_a_test_dies_at_every_kill_point_of_both_programs() -> None:
    sources = [path.read_text() for program in PROGRAMS for path in (ROOT / program).rglob("*.py")]
    there = {name for source in sources for name in CALL.findall(source)}
    died_at = {
        COUNT.sub("", name)
        for name in (
            *kill_points.COPY,
            kill_points.COPY_DONE,
            *kill_points.COPY_WORKER,
            COUNT.sub("", kill_points.CHUNK_WORKER),
            *kill_points.STREAM,
            *kill_points.REGISTRY,
            *kill_points.SPOOL,
            *kill_points.SPOOL_PREPARED,
            *kill_points.BESIDE,
            *kill_points.WHOLE,
            *kill_points.FIRST,
            *kill_points.AGAIN,
            kill_points.AGAIN_DONE,
            *kill_points.JOB,
            *kill_points.BY_EXECUTORS,
            *kill_points.WRITTEN_BESIDE,
            *kill_points.ENTERS,
        )
    }
    assert there == died_at
