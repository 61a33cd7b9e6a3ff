"""The producer's core against a model, seed by seed: nothing lost, nothing doubled, no false confirmation.

A seed is a history, batch limits, the moments at which frames and keepalives arrive, and faults:
the process killed between any two steps, connections cut at any frame, acknowledgements that
Postgres forgot, commits that failed though they were done or were done though they failed, an
EndTxn that arrives a transaction too late. After each the producer is started again until all is
drained. What is asserted is in ``model.py`` and ``postgres.py``: I1 at every status message, I3,
I4, I7 and I8 at every commit.
"""

from collections import Counter

import pytest

from tests.simulation.run import FAULTS, HIDDEN, Outcome, run_seed

SEED_COUNT = 300
"""Of ``make variants``."""
SOAK_SEED_COUNT = 100_200
"""Of ``make soak``."""
CHUNK = 300
"""What is left for one process at the end of a run keeps the others waiting."""
SHORT = 300
"""Of ``make test``."""
QUICK = 30
"""Of ``make check``."""


def _violations(seeds: range) -> tuple[list[str], list[Outcome]]:
    outcomes = [run_seed(seed) for seed in seeds]
    bad = [
        f"{outcome.violation} (after {', '.join(outcome.faults) or 'no fault'}); "
        f"replay with: python -m tests.simulation {outcome.seed}"
        for outcome in outcomes
        if outcome.violation is not None
    ]
    return bad, outcomes


def test_nothing_is_lost_or_doubled_in_the_first_seeds() -> None:
    """I1, I3, I4, I7, I8"""
    assert _violations(range(QUICK))[0] == []


@pytest.mark.simulation
def test_every_fault_and_many_restarts_leave_each_event_in_kafka_once() -> None:
    """I1, I3, I4, I7, I8. The runs must also have met what they are there for."""
    bad, outcomes = _violations(range(SHORT))

    assert bad[:5] == []
    struck = Counter(fault for outcome in outcomes for fault in outcome.faults)
    assert {*FAULTS, *HIDDEN} - struck.keys() == set()
    assert sum(outcome.records for outcome in outcomes) > 10 * SHORT
    assert sum(outcome.confirmations for outcome in outcomes) > 2 * SHORT
    assert sum(outcome.boots for outcome in outcomes) > 1.5 * SHORT


_CHUNKS = [
    pytest.param(first, marks=pytest.mark.soak if first >= SHORT + SEED_COUNT else pytest.mark.variant)
    for first in range(SHORT, SHORT + SOAK_SEED_COUNT, CHUNK)
]


@pytest.mark.simulation
@pytest.mark.parametrize("first", _CHUNKS)
def test_nothing_is_lost_doubled_or_confirmed_too_early(first: int) -> None:
    """I1, I3, I4, I7, I8"""
    bad, outcomes = _violations(range(first, first + CHUNK))

    assert bad[:5] == []
    print(f"{len(outcomes)} seeds, {sum(outcome.steps for outcome in outcomes)} steps")


def test_a_seed_is_one_run_always_the_same() -> None:
    first, second = (run_seed(77, traced=True) for _ in range(2))

    assert first.trace == second.trace
    assert len(first.trace) > 50
