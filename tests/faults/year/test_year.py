"""A year in an hour: what happens to a pipeline in a year, in a seeded order, under load.

After each event the lake equals the source again (I8), and no step was taken by hand but those that the programs
printed. ``make soak`` draws a seed; ``FAULT_SEED=7`` draws the same again, ``YEAR_EVENTS=60`` takes more of them.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.seed import fault_seed
from tests.faults.year.events import EVENTS, Event
from tests.faults.year.year_stage import YearStage
from tests.fix_postgres import Database
from walbridge.embedded.kafka import KafkaBroker

pytestmark = [pytest.mark.fault, pytest.mark.soak]
LOAD_S = 3.0


def test_pipeline_passes_a_year_of_events_with_the_steps_alone_that_its_programs_print(
    database: Database, kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path
) -> None:
    seed = fault_seed()
    dice = random.Random(seed)
    began_s = time.monotonic()
    with YearStage(database, kafka, pipeline_name, lake, tmp_path, dice) as stage:
        stage.settle("the first copy")
        events = _drawn(dice, int(os.environ.get("YEAR_EVENTS", len(EVENTS))))
        for event in events:
            stage.play(LOAD_S)
            print(f"{time.monotonic() - began_s:6.0f} s  {event.__name__}", flush=True)
            event(stage)
            stage.play(LOAD_S)
            stage.settle(event.__name__)
        found = stage.run("check")
        assert "errors: 0," in found, found
        stage.producer.stop()
        stage.job.stop()
        took_s = time.monotonic() - began_s
        print(f"{len(events)} events, {len(stage.attendant.followed)} remedies followed, {took_s:.0f} s, seed {seed}")


def _drawn(dice: random.Random, count: int) -> list[Event]:
    """Each kind once before any comes again."""
    drawn: list[Event] = []
    while len(drawn) < count:
        drawn += dice.sample(EVENTS, len(EVENTS))
    return drawn[:count]
