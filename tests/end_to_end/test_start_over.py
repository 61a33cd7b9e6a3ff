"""The section "Start over with a new copy", followed literally."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.documents import PAGES
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ROOT

HEADING = "Start over with a new copy"
STEP_S = 120.0


def test_pipeline_that_starts_over_goes_on_in_its_lake(pipeline: PipelineUnderTest) -> None:
    """I8"""
    producer, database = pipeline.producer, pipeline.database
    _intro, stop, drop, init = steps()
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'before')")
    producer.publish("t")
    running = producer.start_streaming()
    pipeline.check_equal()
    running.stop()
    database.execute("UPDATE t SET note = 'unread'; INSERT INTO t VALUES (2, 'after')")

    assert "walbridge produce" in stop
    walbridge(pipeline, command(drop), "--yes")
    walbridge(pipeline, command(init))
    producer.start_streaming()

    pipeline.check_equal()
    assert sorted(row["note"] for row in pipeline.contents("t")) == ["after", "unread"]


def steps() -> list[str]:
    """The section's introduction, then its numbered steps."""
    section = PAGES["docs/commands.md"].split(f"\n## {HEADING}\n")[1].split("\n## ")[0]
    return re.split(r"(?m)^\d\. ", section)


def command(step: str) -> str:
    """The first command of a step."""
    found = re.search(r"`(walbridge [^`]+)`", step)
    assert found is not None
    return found[1]


def walbridge(pipeline: PipelineUnderTest, typed: str, *more: str) -> None:
    config = pipeline.producer.write_settings()
    arguments = [*typed.split()[1:], *more, "--config", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "walbridge", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
