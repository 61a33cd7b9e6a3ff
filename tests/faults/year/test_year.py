"""A year in an hour: what happens to a pipeline in a year, in a seeded order, under load.

After each event the lake equals the source again (I8), ``check`` finds no error, and no step was taken by hand but
those that the programs printed. ``make soak`` draws a seed; ``FAULT_SEED=7`` draws the same again, ``YEAR_EVENTS=90``
takes more of them, and ``YEAR_EVENTS=slot_dropped,habits`` these alone.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.seed import fault_seed
from tests.faults.year.events import EVENTS, Event
from tests.faults.year.of_lake import disk_full
from tests.faults.year.year_servers import Access, YearPostgres
from tests.faults.year.year_stage import YearStage
from tests.fix_postgres import Database, new_database
from tests.secured_servers import Authority
from walbridge.embedded.kafka import KafkaBroker

pytestmark = [pytest.mark.fault, pytest.mark.soak]
LOAD_S = 3.0


@pytest.fixture
def source(tmp_path: Path) -> Iterator[tuple[Database, Access]]:
    """A server of its own: it is restored, promoted and locked."""
    authority = Authority(tmp_path)
    with YearPostgres(authority.issue("postgres")) as server, new_database(server) as database:
        yield database, Access(database, authority, tmp_path)


def test_pipeline_passes_a_year_of_events_with_the_steps_alone_that_its_programs_print(
    source: tuple[Database, Access], kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> None:
    seed = fault_seed()
    dice = random.Random(seed)
    began_s = time.monotonic()
    with YearStage(*source, kafka, pipeline_name, tmp_path, dice) as stage:
        stage.settle("the first copy")
        events = _drawn(dice, os.environ.get("YEAR_EVENTS", ""))
        for event in events:
            if event is disk_full and not stage.disk.is_there:
                print("left out, since no disk can be mounted here: disk_full", flush=True)
                continue
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


def _drawn(dice: random.Random, asked: str) -> list[Event]:
    """Each kind once before any comes again; or those that are named."""
    by_name = {event.__name__: event for event in EVENTS}
    if asked and not asked.isdecimal():
        return [by_name[name] for name in asked.split(",")]
    count = int(asked or len(EVENTS))
    drawn: list[Event] = []
    while len(drawn) < count:
        drawn += dice.sample(EVENTS, len(EVENTS))
    return drawn[:count]
