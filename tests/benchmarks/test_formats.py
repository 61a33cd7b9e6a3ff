"""What a row costs in each format of the topics: one backlog, drained by three pipelines in turns; ``make bench``.

Ratios are of the same turn, since a shared machine is twice as quick in one minute as in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks.results import record
from tests.benchmarks.test_producer import WORKLOADS, Cost, drain
from tests.fix_producer import ProducerUnderTest
from walbridge.embedded.registry import SchemaRegistry

pytestmark = [pytest.mark.bench, pytest.mark.servers]
TURNS, TRANSACTIONS = 3, 300
ROWS = TRANSACTIONS * 1_000
PLAIN, *OTHERS = FORMATS = "single-object", "confluent", "json"


@pytest.fixture
def pipelines(
    producer: ProducerUnderTest, registry: SchemaRegistry, tmp_path: Path
) -> Iterator[dict[str, ProducerUnderTest]]:
    """By format, at their defaults, over the empty table of all workloads."""
    producer.database.execute((WORKLOADS / "schema.sql").read_text())
    made = {}
    for name in FORMATS:
        (folder := tmp_path / name).mkdir()
        one = ProducerUnderTest(f"{producer.name}_{name[0]}", producer.database, producer.kafka, folder)
        one.as_command, one.log_level = True, "info"
        one.settings = {
            "producer": {"idle_cut_interval_ms": 2_000},
            "postgres": {"publication": "pub"},
            "topics": {"format": name} | ({"registry_url": registry.url} if name == "confluent" else {}),
        }
        one.start_streaming().stop()
        made[name] = one
    yield made
    for one in made.values():
        one.kill_all()


def test_w1_in_each_format_by_turns(pipelines: dict[str, ProducerUnderTest]) -> None:
    """Inserts in transactions of a thousand. Confluent's wire format has other bytes before the same body."""
    database, turns = pipelines[PLAIN].database, []
    for turn in range(TURNS):
        begin = turn * TRANSACTIONS
        database.execute(
            f"DO $$ BEGIN FOR k IN {begin}..{begin + TRANSACTIONS - 1} LOOP "
            "INSERT INTO orders SELECT * FROM mk(k*1000+1, k*1000+1000); COMMIT; END LOOP; END $$"
        )
        in_turn = FORMATS[turn % 3 :] + FORMATS[: turn % 3]
        turns.append({name: drain(pipelines[name], ROWS) for name in in_turn})

    values = {f"{name}_us_a_row": round(median(_us(turn[name]) for turn in turns), 2) for name in FORMATS}
    for name in OTHERS:
        values[f"{name}_cpu_ratio"] = round(median(_us(turn[name]) / _us(turn[PLAIN]) for turn in turns), 3)
        values[f"{name}_rate_ratio"] = round(
            median(turn[name].rows_per_s / turn[PLAIN].rows_per_s for turn in turns), 3
        )
    print(f"\nw1_formats: {values}; {record('w1_formats', values)}")
    assert values["confluent_cpu_ratio"] < 1.1


def _us(cost: Cost) -> float:
    """CPU of our own loop: the rest of the process is the client's threads."""
    assert cost.main_thread_cpu_s_per_million is not None
    return cost.main_thread_cpu_s_per_million
