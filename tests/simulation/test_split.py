"""Found by the simulation: what may not happen between a restart and the transaction half published."""

import pytest

from tests.simulation.cases import case_of, nothing, refused, with_fault_at_every_step
from tests.simulation.history import KEYED, Writer

pytestmark = pytest.mark.simulation


def _large(writer: Writer) -> None:
    for n in range(5):
        writer.insert(KEYED, n, "large")


def test_keepalive_before_a_split_transaction_comes_again_ends_no_cut() -> None:
    """I8, I4: a complete cut would hold its first half, and the progress with it forget how much to skip."""
    case = case_of(_large, _large, gap=128)

    assert refused(with_fault_at_every_step(case, "disconnect", seeds=4)) == []


def test_empty_transaction_before_a_split_one_comes_again_ends_no_cut() -> None:
    """I8, I4. Postgres 12 to 14 send transactions without published changes too."""
    case = case_of(nothing, nothing, _large, nothing, _large)

    assert refused(with_fault_at_every_step(case, "disconnect", seeds=4)) == []
