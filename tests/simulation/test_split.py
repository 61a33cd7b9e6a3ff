"""Found by the simulation: what may not happen between a restart and the transaction half published."""

from dataclasses import replace

import pytest

from tests.simulation.broker import COMMITTED
from tests.simulation.cases import case_of, nothing, refused, with_fault_at_every_step
from tests.simulation.history import KEYED, OTHER, Writer
from tests.simulation.run import Run
from walbridge.schemas.control.progress_record import encode_progress, read_back
from walbridge.schemas.control.table_progress import STALE, TableProgress, encode_table, table_key
from walbridge.schemas.topics import progress_topic

pytestmark = [pytest.mark.simulation, pytest.mark.usefixtures("steps_apart")]


def _large(writer: Writer) -> None:
    for n in range(5):
        writer.insert(KEYED, n, "large")


def test_keepalive_before_a_split_transaction_comes_again_ends_no_cut() -> None:
    """I8, I4: a complete cut would hold its first half, and the progress with it forget how much to skip."""
    case = case_of(_large, _large, gap=128)

    assert refused(with_fault_at_every_step(case, "disconnect", seeds=4)) == []


@pytest.mark.variant(of="test_keepalive_before_a_split_transaction_comes_again_ends_no_cut")
def test_empty_transaction_before_a_split_one_comes_again_ends_no_cut() -> None:
    """I8, I4. Postgres 12 to 14 send transactions without published changes too."""
    case = case_of(nothing, nothing, _large, nothing, _large)

    assert refused(with_fault_at_every_step(case, "disconnect", seeds=4)) == []


def _of_the_table_that_was_left(writer: Writer) -> None:
    writer.insert(OTHER, 1, "left")


def _leave_the_other(run: Run) -> None:
    log = run.broker.log(progress_topic(run.settings.name), 0)
    log.append(table_key(run.settings.postgres.slot, OTHER), encode_table(TableProgress(OTHER, STALE)), None, COMMITTED)
    before = read_back(run.settings.postgres.slot, [(entry.key, entry.value) for entry in reversed(log.entries)])
    assert before is not None
    log.append(before.key, encode_progress(before), None, COMMITTED)


@pytest.mark.variant(of="test_keepalive_before_a_split_transaction_comes_again_ends_no_cut")
def test_transaction_of_a_table_that_was_left_before_a_split_one_comes_again() -> None:
    """I4, I7: nothing of it is published, so no batch ends with it; it is no reason to stop when it comes again."""
    case = case_of(_of_the_table_that_was_left, _large, _of_the_table_that_was_left, _large)
    assert case.history is not None
    for transaction in case.history:
        transaction.events = [event for event in transaction.events if event.relation_id != OTHER]

    faulty = with_fault_at_every_step(replace(case, prepare=_leave_the_other), "disconnect", seeds=4)

    assert refused(faulty) == []
