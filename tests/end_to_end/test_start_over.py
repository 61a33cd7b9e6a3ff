"""The section "Start over with a new copy", followed literally: the topic that orders all others is gone."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

from tests.documents import PAGES
from tests.faults.topic_life import TopicLife
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ROOT
from walbridge.schemas.topics import cuts_topic

HEADING = "Start over with a new copy"
STEP_S = 120.0


def test_pipeline_whose_cuts_were_deleted_is_in_a_new_lake_after_starting_over(pipeline: PipelineUnderTest) -> None:
    """I8"""
    producer, database = pipeline.producer, pipeline.database
    _intro, stop, drop, new_lake, init = steps()
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'before')")
    producer.publish("t")
    running = producer.start_streaming()
    pipeline.check_equal()
    running.stop()
    TopicLife(producer).delete(cuts_topic(producer.name))
    database.execute("UPDATE t SET note = 'unread'; INSERT INTO t VALUES (2, 'after')")
    assert HEADING in producer.refusal()

    assert "walbridge produce" in stop
    walbridge(pipeline, command(drop), "--yes")
    assert "`lake.path`" in new_lake
    again = replace(pipeline, lake=pipeline.lake.with_name("new-lake"))
    walbridge(again, command(init))
    producer.start_streaming()

    again.check_equal()
    assert sorted(row["note"] for row in again.contents("t")) == ["after", "unread"]


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
