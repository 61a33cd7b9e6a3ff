"""A table that came after the copy is left out alike by every replay, and said to be so (I4, I7)."""

from dataclasses import replace

import pytest

from tests.in_soak import in_soak
from tests.simulation.cases import case_of, refused, with_fault_at_every_step
from tests.simulation.history import KEYED, KEYLESS, OTHER, Writer
from tests.simulation.left_out import without_copy
from tests.simulation.run import settings_of

pytestmark = [pytest.mark.simulation, pytest.mark.usefixtures("steps_apart")]


def _mixed(writer: Writer) -> None:
    """Larger than a batch, with changes of the table before, between and behind others."""
    writer.insert(OTHER, 1, "late")
    for n in range(3):
        writer.insert(KEYED, n, "copied")
        writer.insert(OTHER, 10 + n, "late")


def _emptied(writer: Writer) -> None:
    writer.truncate((KEYED, OTHER, KEYLESS))
    writer.insert(KEYED, 1, "copied")


def _only(writer: Writer) -> None:
    writer.insert(OTHER, 100, "late")


@pytest.mark.parametrize("fault", ["crash", in_soak("disconnect"), in_soak("commit done, answer lost")])
def test_left_out_changes_take_no_place_in_any_replay(fault: str) -> None:
    case = without_copy(case_of(_only, _mixed, _emptied, _only), OTHER)

    assert refused(with_fault_at_every_step(case, fault, seeds=2)) == []


@pytest.mark.variant(of="test_left_out_changes_take_no_place_in_any_replay")
def test_left_out_changes_take_no_place_in_streamed_and_prepared_transactions() -> None:
    case = without_copy(case_of(_mixed, _emptied, _mixed), OTHER)
    case = replace(case, settings=settings_of(2, 1, 10, two_phase=True), stream_share=0.8)

    assert refused(with_fault_at_every_step(case, "disconnect", "crash", seeds=2)) == []
