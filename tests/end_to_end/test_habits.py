"""Whatever the owners of a database do to its tables, nothing stops, and the lake equals it in the end (I8).

``FAULT_SEED=7`` draws the same again.
"""

from __future__ import annotations

import random

import pytest

from tests.end_to_end.habits import PARTS, SCHEMAS, Habits
from tests.faults.copies.test_table_copied import progress_of
from tests.faults.differential.owner import Owner
from tests.faults.differential.statements import TYPES
from tests.faults.seed import fault_seed
from tests.fix_pipeline import PipelineUnderTest
from tests.wait import wait_until

SETTLED_S = 240.0
"""A table made again, or renamed, waits for the look that finds it so; under load a run of the job takes a minute."""
ROUNDS, SOAK_ROUNDS = 1, 40
ACTS = 60
DDL_ROUNDS, TRANSACTIONS = 8, 80


def test_lake_equals_a_database_whose_tables_are_made_altered_renamed_and_dropped(pipeline: PipelineUnderTest) -> None:
    _run(pipeline, ROUNDS)


@pytest.mark.soak
def test_lake_equals_a_database_that_is_altered_for_long(pipeline: PipelineUnderTest) -> None:
    _run(pipeline, SOAK_ROUNDS)


@pytest.mark.soak
def test_lake_equals_a_database_that_sees_every_kind_of_ddl(pipeline: PipelineUnderTest) -> None:
    """Several in a transaction, within savepoints and rolled back."""
    dice = random.Random(seed := fault_seed())
    owner = Owner(dice, names_tables=False)
    _publish_all(pipeline)
    pipeline.database.execute(TYPES)
    running = pipeline.producer.start_streaming()
    with pipeline.database.connect() as connection:
        for _ in range(DDL_ROUNDS):
            for _ in range(TRANSACTIONS):
                for _ in owner.transaction(connection):
                    pass
            pipeline.catch_up()
            running.kill()
            running = pipeline.producer.start()
            owner.mend(connection)
            wait_until(lambda: _is_settled(pipeline), f"the lake to equal its source, seed {seed}", SETTLED_S)
            assert running.process.poll() is None, running.log[-3000:]
    print(f"{dict(owner.taken)}, seed {seed}")


def _publish_all(pipeline: PipelineUnderTest) -> None:
    pipeline.database.execute("CREATE SCHEMA archive; CREATE SCHEMA parts")
    pipeline.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)")
    pipeline.database.execute("CREATE TABLE orders (id int PRIMARY KEY, n int, v text); INSERT INTO orders VALUES (1)")


def _run(pipeline: PipelineUnderTest, rounds: int) -> None:
    seed = fault_seed()
    dice = random.Random(seed)
    producer, habits = pipeline.producer, Habits(dice)
    _publish_all(pipeline)
    running = producer.start_streaming()
    for number in range(rounds):
        with pipeline.database.connect() as connection:
            for _ in range(ACTS):
                habits.act(connection)
        pipeline.catch_up()
        if number % 2 == 0:
            running.kill()
            running = producer.start()
        wait_until(lambda: _is_settled(pipeline), f"the lake to equal its source, seed {seed}", SETTLED_S)
        assert running.process.poll() is None, running.log[-3000:]
    print(f"{dict(habits.done)}, seed {seed}")


def _is_settled(pipeline: PipelineUnderTest) -> bool:
    """Every table is current, and the source's."""
    query = (
        "SELECT oid::int FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
        "AND relnamespace::regnamespace::text = ANY (%s)"
    )
    there = {row[0] for row in pipeline.database.rows(query, ([*SCHEMAS, "attic", PARTS],))}
    with pipeline.producer.topics() as topics:
        pipeline.producer.caught_up(topics)
        tables = progress_of(topics).tables
    if {each for each, table in tables.items() if table.state in ("current", "copying")} != there:
        return False
    return all(tables[each].state == "current" for each in there) and not [
        result for result in pipeline.compared() if not result.equal or result.in_flux
    ]
