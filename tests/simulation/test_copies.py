"""A table that comes is copied beside the stream, seed by seed: from then on each cut is the source (I1, I3, I4, I8).

A seed is a history of the table and of others, commits that are in the WAL and not visible yet, chunks of few rows
between whose snapshot and entry the application goes on, prepared and streamed transactions with savepoints that are
rolled back, and the faults of ``test_seeds.py``, kills at any step above all. What must be true is in
``copied_reader.py``.
"""

from collections import Counter

import pytest

from tests.mutants.mutant import Mutant, made
from tests.simulation.cases import refused
from tests.simulation.run import Case, Outcome, run_seed
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.window import Window, _LaidOver
from walbridge.producer.session.changes import Changes
from walbridge.producer.session.copies.answers import CopyAnswers
from walbridge.producer.session.copies.chunk_rows import rows_at_end
from walbridge.producer.session.copies.questions import CopyQuestions
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.left_out_tables import LeftOutTables
from walbridge.producer.session.loop import Session

COMES = Case(has_copy=True)
QUIET = Case(has_copy=True, faults=[])
QUICK, SHORT, SEED_COUNT, SOAK_SEED_COUNT = 8, 40, 50, 20_000
"""Seeds of ``make check``, of the rest of ``make test``, and of ``make soak``."""
CHUNK = 50
SEEDS_MAX = 300
"""In which a mistake must be found."""


def _outcomes(seeds: range, case: Case = COMES) -> list[Outcome]:
    return [run_seed(seed, case) for seed in seeds]


def test_table_that_comes_is_copied_in_the_first_seeds() -> None:
    """I1, I3, I4, I7, I8"""
    outcomes = _outcomes(range(QUICK))

    assert refused(iter(outcomes)) == []
    assert sum(outcome.copies for outcome in outcomes) > QUICK / 2


@pytest.mark.simulation
def test_table_that_comes_is_copied_through_faults_and_restarts() -> None:
    """I1, I3, I4, I7, I8. The runs must also have met what they are there for."""
    outcomes = _outcomes(range(SHORT))

    assert refused(iter(outcomes)) == []
    assert sum(outcome.copies for outcome in outcomes) > 0.8 * SHORT
    assert Counter(fault for outcome in outcomes for fault in outcome.faults)["crash"] > SHORT / 5


_CHUNKS = [
    pytest.param(first, marks=[pytest.mark.soak] if first >= SHORT + SEED_COUNT else [])
    for first in range(SHORT, SHORT + SOAK_SEED_COUNT, CHUNK)
]


@pytest.mark.simulation
@pytest.mark.parametrize("first", _CHUNKS)
def test_every_cut_after_a_copy_is_the_source(first: int) -> None:
    """I1, I3, I4, I7, I8"""
    assert refused(iter(_outcomes(range(first, first + CHUNK)))) == []


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("seed", "apart"),
    [
        (3, 53),
        pytest.param(3, 1, marks=pytest.mark.soak),
        pytest.param(5, 1, marks=pytest.mark.soak),
        pytest.param(8, 1, marks=pytest.mark.soak),
    ],
)
def test_kill_at_any_step_of_a_copy_leaves_it_whole(seed: int, apart: int) -> None:
    """I1, I4: and another one a little later, so that a copy is taken up from progress more than once."""
    steps = range(1, run_seed(seed, QUIET).steps, apart)
    outcomes = [run_seed(seed, Case(has_copy=True, faults=[(n, "crash"), (n + 60, "crash")])) for n in steps]

    assert refused(iter(outcomes)) == []


MUTANTS = {
    "a transaction is not told before its changes": Mutant(
        Session._begin, "if self._copies is not None:", "if False:", seed=38
    ),
    "changes of a table that is copied take the fast path": Mutant(
        Changes._begin, "self.copies.has_copy(relation_id)", "False", seed=17
    ),
    "a table that is copied is left out all the same": Mutant(
        LeftOutTables.follow, "self._followed.add(relation_id)", "pass"
    ),
    "a window is not told what was received before it": Mutant(
        CopyQuestions._ask_for_chunk,
        "self._reading.received.before()",
        "type(self._reading.received)(0).before()",
        seed=38,
    ),
    "a window is not shown a change": Mutant(CopiedTable.receive, "chunk.receive(xid, change)", "pass", seed=29),
    "only the chunk that enters next is shown changes": Mutant(
        CopiedTable.receive, "for chunk in self.chunks:", "for chunk in self.chunks[:1]:", seed=1541
    ),
    "only the chunk that was asked for last is shown changes": Mutant(
        CopiedTable.receive, "for chunk in self.chunks:", "for chunk in self.chunks[-1:]:", seed=134
    ),
    "a chunk behind one that is void enters": Mutant(
        CopyAnswers._reread, "copied.close_chunks(number)", "copied.chunks.pop(number).close()"
    ),
    "a row that a window touched enters as it was read": Mutant(rows_at_end, "row[0] not in touched", "True", seed=29),
    "what was received before the snapshot is known counts as contained, as its LSN has it": Mutant(
        Window.show, "if not snapshot.contains_received(xid)", "if False", seed=53
    ),
    "what is received while rows are read counts as contained, as its LSN has it": Mutant(
        Window.receive, "self._snapshot.contains_received(xid)", "True", seed=29
    ),
    "nothing of the window counts as contained": Mutant(
        Window.show, "if not snapshot.contains_received(xid)", "if True", seed=80
    ),
    "keys that came with unknown values are not read again": Mutant(
        TableState.list_moved, "{**self.copy.listed, **keys}", "{}", seed=45
    ),
    "an unknown value is not taken from the row that was read": Mutant(
        _LaidOver.take, "fill(step.row, base, None)", "step.row", seed=53
    ),
    "a cut of changes names no transaction": Mutant(
        CutMaker.end_transaction,
        "batch.commit_lsn, batch.commit_time_us = commit.commit_lsn, commit.commit_time_us",
        "pass",
    ),
    "a cut of a part of a transaction names none": Mutant(
        CutMaker.split, "batch.commit_lsn, batch.commit_time_us = begin.final_lsn, begin.commit_time_us", "pass"
    ),
    "an end has no record in the topic": Mutant(
        CopyRecords.end,
        "self._out.send_to_all_partitions(writer, writer.marker(LAST, source, self._out.ts_ms))",
        "pass",
    ),
}


@pytest.mark.simulation
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mistake_in_a_copy_is_found(mutant: Mutant) -> None:
    with made(mutant):
        seeds = (mutant.seed, *range(SEEDS_MAX))
        found = next((seed for seed in seeds if run_seed(seed, COMES).violation is not None), None)

    assert found is not None, f"not found in {SEEDS_MAX} seeds"
