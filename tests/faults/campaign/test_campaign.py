"""Random kills of everything under load; after them all is as if nothing had happened.

``make fault`` runs it with a new seed, ``make fault SEED=7`` again with one that was printed, ``make
test`` always with the same; the long run of ``make soak`` makes 400 kills of one seed.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from pathlib import Path

import pytest

from tests.faults.campaign.balances import BalanceCheck
from tests.faults.campaign.ledger import Ledger
from tests.faults.campaign.load import SCHEMA, TABLES
from tests.faults.campaign.schedule import Rounds, draw, kills
from tests.faults.campaign.slot_watch import SlotWatch
from tests.faults.campaign.stage import Stage
from tests.faults.seed import fault_seed, is_drawn
from tests.fix_postgres import Database
from walbridge.__main__ import main
from walbridge.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.fault
ROUNDS, DRAWN_ROUNDS = 1, 3
"""Of ``make test``, and of ``make fault``, which nobody waits for."""
USUAL = 43
"""Its first round has every aim, and a Spark job that dies within a plan, together with Postgres."""
SOAK_KILLS = 400
SAMPLES_PER_KILL = 20
"""Of the slot, on average: enough for what a kill may do to it. How many it are in a second measures the machine."""


@pytest.fixture
def stage(database: Database, kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path) -> Stage:
    """pgbench's tables; nothing runs yet."""
    database.execute(SCHEMA)
    return Stage(database, kafka, pipeline_name, lake, tmp_path)


def test_killed_at_random_under_load_everything_arrives_once_and_the_lake_equals_the_source(stage: Stage) -> None:
    """I1, I3, I4, I5, I8, after every round of kills."""
    seed = fault_seed(USUAL)
    rounds = draw(seed, DRAWN_ROUNDS if is_drawn() else ROUNDS)
    assert kills(rounds).total() >= 6 * len(rounds)
    assert min(kills(rounds).values()) >= len(rounds)
    _run(stage, seed, rounds)


@pytest.mark.soak
def test_four_hundred_random_kills_leave_the_lake_equal_to_its_source(stage: Stage) -> None:
    seed = fault_seed()
    rounds: Rounds = []
    while sum(kills(rounds).values()) < SOAK_KILLS:
        rounds = draw(seed, len(rounds) + 1)
    _run(stage, seed, rounds)


def _run(stage: Stage, seed: int, rounds: Rounds) -> None:
    began_s = time.monotonic()
    with stage:
        stage.open()
        place = stage.kafka.bootstrap_servers, stage.pipeline
        with Ledger(*place) as ledger, SlotWatch(stage.database, *place, stage.pipeline) as watch:
            balances = BalanceCheck(stage.lake)
            for number, strikes in enumerate(rounds):
                stage.play()
                before = stage.published_lsn()
                stage.wait(lambda before=before: stage.published_lsn() > before, "the load to arrive")  # type: ignore[misc]
                for strike in strikes:
                    print(f"{time.monotonic() - began_s:6.0f} s  round {number}: {strike}", flush=True)
                    stage.strike(strike)
                _check(stage, ledger, watch, balances)
            _end(stage, ledger, watch)
            print(
                f"{dict(stage.kills)}, {stage.pairs} pairs; {len(ledger.cuts)} cuts of {ledger.events} events, "
                f"{balances.cuts} published; slot looked at {watch.samples} times; "
                f"starts that waited in vain: {stage.producer.gave_up_waiting + stage.job.gave_up_waiting}; "
                f"{time.monotonic() - began_s:.0f} s; seed {seed}",
                flush=True,
            )
    assert stage.kills == kills(rounds)
    assert watch.samples >= SAMPLES_PER_KILL * stage.kills.total()


def _check(stage: Stage, ledger: Ledger, watch: SlotWatch, balances: BalanceCheck) -> None:
    """All that must hold, at one LSN."""
    lsn = stage.caught_up()
    _verify(stage)
    ledger.read_to(lsn)
    watch.check(ledger)
    balances.check()


def _verify(stage: Stage) -> None:
    """As an operator does, while the job runs."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(["verify", "--json", "--timeout", "120", "--config", str(stage.config)])
    assert code == 0, said.getvalue()
    tables = json.loads(said.getvalue())["tables"]
    assert len(tables) == len(TABLES)
    assert not [each for each in tables if each["in_flux"]]


def _end(stage: Stage, ledger: Ledger, watch: SlotWatch) -> None:
    """Both programs stop in peace, and nothing is in the topics that no cut names."""
    stage.caught_up()
    stage.producer.stop()
    stage.job.stop()
    ledger.read_to_end()
    ledger.check_nothing_unnamed()
    watch.check(ledger, is_whole=True)
