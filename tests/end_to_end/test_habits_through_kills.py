"""Hundreds of tables over a dozen schemas, and owners who do as they like while both programs and both servers die
(I8).

A part of ``make soak``; ``FAULT_SEED=7`` draws the same acts and kills again.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.end_to_end.habits import NAMES, PARTS, Habits
from tests.faults.campaign.schedule import draw
from tests.faults.campaign.stage import Play, Stage
from tests.faults.seed import fault_seed
from tests.faults.writer import Writer
from tests.fix_postgres import Database
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings
from walbridge.verify import compare
from walbridge.verify.report import TableResult

pytestmark = [pytest.mark.fault, pytest.mark.soak]
SCHEMAS = ("public", *(f"team_{number}" for number in range(12)))
MANY_NAMES = tuple(f"{name}_{number}" for name in NAMES for number in range(8))
TABLES_MIN, ACTS = 200, 50
ROUNDS = 2
"""Of kills: each kills both programs and both servers."""
THERE = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_|^information_schema$'"""


class Owners(Writer):
    """They act until left."""

    pause_s = 0.1

    def __init__(self, stage: Stage, habits: Habits) -> None:
        super().__init__(stage)
        self._habits = habits

    def write(self, connection: psycopg.Connection[Any]) -> None:
        self._habits.act(connection)


def test_lake_equals_hundreds_of_tables_whose_owners_go_on_while_everything_is_killed(
    database: Database, kafka: KafkaBroker, pipeline_name: str, lake: Path, tmp_path: Path
) -> None:
    """Nothing stops; in the end every table of the source is in the lake, and equal."""
    seed, began_s = fault_seed(), time.monotonic()
    dice = random.Random(seed)
    habits = Habits(dice, names=MANY_NAMES, schemas=SCHEMAS, schema_share=0.04)
    database.execute("; ".join(f"CREATE SCHEMA {name}" for name in (PARTS, *SCHEMAS[1:])))
    database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)")
    with database.connect() as connection:
        while len(database.rows(THERE)) < TABLES_MIN:
            habits.act(connection)
    assert len({name.partition(".")[0] for (name,) in database.rows(THERE)} - {PARTS}) >= 10
    play = Play((), "", f'dropped_tables = "{dice.choice(("keep", "drop"))}"')
    with Stage(database, kafka, pipeline_name, lake, tmp_path, play) as stage:
        stage.open()
        with Owners(stage, habits) as owners:
            for strike in [each for strikes in draw(seed, ROUNDS) for each in strikes]:
                wanted = owners.count + ACTS
                stage.wait(lambda wanted=wanted: owners.count >= wanted, "the owners")  # type: ignore[misc]
                stage.strike(strike)
                print(f"{time.monotonic() - began_s:6.0f} s  {owners.count} acts, {strike}", flush=True)
        settings = load_settings(stage.config)
        stage.wait(lambda: not different(database, settings), f"the lake to equal its source, seed {seed}")
        stage.producer.stop()
        stage.job.stop()
    print(
        f"{len(database.rows(THERE))} tables; {dict(habits.done)}; {dict(stage.kills)}; "
        f"{time.monotonic() - began_s:.0f} s; seed {seed}",
        flush=True,
    )


def different(database: Database, settings: Settings) -> list[TableResult | str]:
    """Tables that differ, or are in one of both alone."""
    try:
        results = compare(settings, timeout_s=30)
    except OperatorError as error:
        return [error.what]
    names = {name for (name,) in database.rows(THERE)} ^ {result.table for result in results}
    return [*names, *(result for result in results if not result.equal or result.in_flux)]
