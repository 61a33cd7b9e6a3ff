"""Hand-made runs: a small history, and each fault at every step that a run of it has; at every other one in each run
of all tests (``conftest.py``)."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.history import CONSISTENT_POINT, Transaction, Writer
from tests.simulation.run import Case, Outcome, run_seed, settings_of

Change = Callable[[Writer], None]
STEPS_APART = 1
"""2: at every other step only."""


def history_of(*changes: Change, gap: int = 0) -> list[Transaction]:
    """One transaction for each; without a gap each begins where the one before it ends."""
    made: list[Transaction] = []
    for n, change in enumerate(changes):
        writer = Writer(700 + n, made[-1].end_lsn + gap if made else CONSISTENT_POINT)
        change(writer)
        made.append(writer.commit())
    return made


def case_of(*changes: Change, rows_max: int = 2, partitions: int = 1, gap: int = 0) -> Case:
    """Without faults."""
    return Case(
        history=history_of(*changes, gap=gap),
        faults=[],
        settings=settings_of(rows_max, partitions, 10),
        pause_share=0.3,
        keepalive_share=0.4,
    )


def nothing(writer: Writer) -> None:
    """A transaction without published changes."""


def with_fault_at_every_step(case: Case, *faults: str, seeds: int = 3, apart: int = 5) -> Iterator[Outcome]:
    """Runs with these faults one after the other, the first of them at each step in turn.

    The seeds (when frames arrive, where keepalives come) share the steps between them.
    """
    for seed in range(seeds):
        whole = run_seed(seed, case)
        yield whole
        for step in range(1 + STEPS_APART * seed, whole.steps, STEPS_APART * seeds):
            planned = [(step + apart * n, fault) for n, fault in enumerate(faults)]
            yield run_seed(seed, replace(case, faults=planned))


def refused(outcomes: Iterator[Outcome]) -> list[str]:
    """What went wrong, seed and faults beside it."""
    return [f"seed {o.seed}, {o.faults}: {o.violation}" for o in outcomes if o.violation is not None]
