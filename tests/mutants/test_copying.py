"""Small mistakes in the copy of a table beside the stream: runs of the model must find every one of them.

Those of which a fast test is enough to notice them are in ``test_producer.py``.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.mutants.mutant import FAILURES, Mutant, made
from tests.producer.copying.copying_run import run_seed
from tests.producer.copying.test_set_aside import run_seed as run_in_one_piece
from walbridge.producer.copying import visibility
from walbridge.producer.copying.copy_state import Illegal, TableState
from walbridge.producer.copying.row_keys import RowKeys
from walbridge.producer.copying.set_aside import SetAside
from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot
from walbridge.producer.copying.window import Window, _LaidOver

SEEDS_MAX = 600

MUTANTS = {
    "what was received before the snapshot is known counts as contained, as its LSN has it": Mutant(
        Window.show, "if not snapshot.contains_received(xid)", "if False"
    ),
    "what is received while the rows are read counts as contained, as its LSN has it": Mutant(
        Window.receive, "self._snapshot.contains_received(xid)", "True"
    ),
    "nothing of the window counts as contained": Mutant(
        Window.show, "if not snapshot.contains_received(xid)", "if True"
    ),
    "what was received before the window counts as visible": Mutant(
        Window.show, "not self.before.is_contained_in(snapshot)", "False"
    ),
    "what was open when the session began counts as visible": Mutant(
        Window.show, "not self.before.has_ended_in(snapshot)", "False"
    ),
    "nothing above the xmax of a snapshot is running": Mutant(
        ReceivedTransactions.__init__, "self._begun = begun", "self._begun = 0"
    ),
    "a look forgets what it does not contain": Mutant(
        ReceivedTransactions.look, "if not snapshot.contains_received(xid)", "if False"
    ),
    "what runs above xmax counts as ended": Mutant(Snapshot.contains, "xid < self.xmax and ", ""),
    "what is in progress counts as ended": Mutant(Snapshot.contains, "xid not in self.in_progress", "True"),
    "an xid is of the epoch of the snapshot": Mutant(visibility.widen, "near + distance", "near >> 32 << 32 | xid"),
    "a chunk enters before the stream is where its rows are": Mutant(
        Window.is_read, "received >= self._read_until", "True"
    ),
    "a truncate is laid over as nothing": Mutant(Window._hold, "self.spoil(step)", "pass"),
    "rows with unknown values are not listed": Mutant(TableState.list_moved, "{**self.copy.listed, **keys}", "{}"),
    "an unknown value is not taken from the row that was read": Mutant(
        _LaidOver.take, "fill(step.row, base, None)", "step.row"
    ),
    "a changed key is not seen as one": Mutant(
        RowKeys.step, "self._step(self._key(key_tuple), ", "self._step(self._key(change.new), "
    ),
    "a listed key is settled before its rows are those of the end": Mutant(
        TableState.enter, "chunk.asked or ()", "copy.listed"
    ),
    "a copy ends with rows to read again": Mutant(TableState.enter, "is_last)", "is_last, listed={})"),
}

IN_ONE_PIECE = {
    "what the rows hold follows them": Mutant(SetAside.take, "not self._is_contained(xid)", "True"),
    "what is received while the rows are read counts as contained": Mutant(
        SetAside.receive, "not self._is_contained(xid)", "self._snapshot is None"
    ),
    "what was open when the session began counts as visible to all rows": Mutant(
        SetAside.show, "not self.before.has_ended_in(snapshot)", "False"
    ),
    "what was received before the snapshot of all rows counts as visible": Mutant(
        SetAside.show, "not self.before.is_contained_in(snapshot)", "False"
    ),
    "a copy ends before all that its rows hold is received": Mutant(
        SetAside.is_drained, "received >= self._read_until", "True"
    ),
    "a copy ends before its last change is published": Mutant(SetAside.is_drained, "not self._queue", "True"),
}


def first_failure(run_seed: Callable[[int], object] = run_seed) -> int | None:
    """The seed of the first run that does not end as it should."""
    for seed in range(SEEDS_MAX):
        try:
            run_seed(seed)
        except (*FAILURES, Illegal):
            return seed
    return None


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_runs_of_the_model_find_the_mistake(mutant: Mutant) -> None:
    with made(mutant):
        seed = first_failure()
    assert seed is not None
    with made(replace(mutant, mistake=mutant.text)):
        run_seed(seed)


@pytest.mark.parametrize("mutant", IN_ONE_PIECE.values(), ids=IN_ONE_PIECE)
def test_runs_of_copies_in_one_piece_find_the_mistake(mutant: Mutant) -> None:
    with made(mutant):
        seed = first_failure(run_in_one_piece)
    assert seed is not None
    with made(replace(mutant, mistake=mutant.text)):
        run_in_one_piece(seed)
