"""Hundreds of published cuts under load and random kills, by each applier: every one is a state of the source.

A part of ``make soak``; ``make one T=tests/faults/bank ARGS=-s`` runs it alone, and ``FAULT_SEED=7`` before it
draws the kills of seed 7.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.bank.cut_check import CutCheck
from tests.faults.bank.transfers import SCHEMA, TransferLog, play
from tests.faults.campaign.schedule import Strike, draw
from tests.faults.campaign.stage import Stage
from tests.faults.seed import fault_seed
from tests.fix_postgres import Database
from walbridge.embedded.kafka import KafkaBroker
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, open_table

pytestmark = [pytest.mark.fault, pytest.mark.soak]
PAUSES = (0, 1, 10, 40)
"""So many rows of ``_cuts`` come between two kills: some meet a program that has not come back to work."""


@pytest.mark.parametrize(("applier", "states", "strikes"), [("auto", 500, 24), ("spark", 40, 6)])
def test_every_cut_that_is_published_under_kills_is_a_state_of_the_source(
    database: Database,
    kafka: KafkaBroker,
    pipeline_name: str,
    lake: Path,
    tmp_path: Path,
    applier: str,
    states: int,
    strikes: int,
) -> None:
    """I8: of a bank that moves money, and of lists that only grow."""
    seed, began_s, struck = fault_seed(), time.monotonic(), 0
    dice = random.Random(seed)
    database.execute(SCHEMA)
    log = TransferLog(database, f"{pipeline_name}_witness")
    of_lake = f'applier = "{applier}"\npublish_interval_ms = 0\nall_cuts_hours = 24'
    with Stage(database, kafka, pipeline_name, lake, tmp_path, play(of_lake)) as stage:
        stage.open()
        stage.play()
        check, schedule = CutCheck(lake, log), strikes_of(seed)
        while check.states < states or struck < strikes:
            await_rows(stage, min(dice.choice(PAUSES), states // 12))  # Spark takes seconds for each
            strike = next(schedule)
            stage.strike(strike)
            struck += 1
            stage.pgbench.end()  # else states come faster than a slow machine reads them
            check.check()
            stage.keep_running()
            print(f"{time.monotonic() - began_s:6.0f} s  {check.states} states, {strike}", flush=True)
        stage.caught_up()
        check.check()
        print(
            f"{applier}: {check.cuts} published cuts, {check.states} states, {len(log.read())} transfers, "
            f"{check.marked} tables read that had marked rows, "
            f"{dict(stage.kills)}; {time.monotonic() - began_s:.0f} s; seed {seed}",
            flush=True,
        )
        stage.producer.stop()
        stage.job.stop()
    assert (check.marked > 0) == (applier == "spark")


def strikes_of(seed: int) -> Iterator[Strike]:
    for rounds in count(1):
        yield from draw(seed, rounds)[-1]


def await_rows(stage: Stage, rows: int) -> None:
    def newest() -> int:
        manifest = open_table(str(stage.lake))
        row = None if manifest is None else newest_published(manifest)
        return 0 if row is None else row.sequence

    before = newest()
    stage.wait(lambda: newest() >= before + 2 * rows, f"{rows} more published cuts")
