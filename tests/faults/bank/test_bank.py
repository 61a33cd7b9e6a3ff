"""What the bank takes for a state of the source, and what not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.bank.bank import ACCOUNTS, BALANCE, LISTS, Bank, State, Transfer

TRANSFERS = [Transfer(2, 1, 2, 30, 5, 6), Transfer(1, 2, 3, -7, 6, 7), Transfer(4, 3, 1, 1, 5, 7)]
AFTER_TWO = State(
    dict.fromkeys(range(1, ACCOUNTS + 1), BALANCE) | {1: BALANCE - 30, 2: BALANCE + 37, 3: BALANCE - 7},
    dict.fromkeys(range(1, LISTS + 1), "") | {5: " 2", 6: " 2 1", 7: " 1"},
    [1, 2],
)


@pytest.fixture
def bank() -> Bank:
    bank = Bank()
    bank.book(TRANSFERS[:2])
    return bank


def test_state_after_these_transfers_has_no_fault(bank: Bank) -> None:
    assert bank.fault_of(AFTER_TWO) is None


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (replace(AFTER_TWO, balances=AFTER_TWO.balances | {1: BALANCE}), "100 accounts hold 100030 in all"),
        (replace(AFTER_TWO, balances={1: ACCOUNTS * BALANCE}), "1 accounts hold"),
        (replace(AFTER_TWO, balances=AFTER_TWO.balances | {8: 0, 9: 2 * BALANCE}), r"accounts \[8, 9\] are not"),
        (replace(AFTER_TWO, transfers=[1, 2, 2]), "twice"),
        (replace(AFTER_TWO, transfers=[1]), r"transfers \[2\] are not in their two lists"),
        (replace(AFTER_TWO, transfers=[1, 2, 3]), r"transfers \[3\] are not in their two lists"),
        (replace(AFTER_TWO, lists=AFTER_TWO.lists | {7: ""}), r"transfers \[1\] are not in their two lists"),
        (replace(AFTER_TWO, lists=AFTER_TWO.lists | {6: " 1 2"}), r"lists \[6\] are not"),
        (replace(AFTER_TWO, lists=AFTER_TWO.lists | {5: "", 8: " 2"}), r"lists \[5, 8\] are not"),
    ],
)
def test_state_of_no_moment_is_told(bank: Bank, state: State, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert bank.fault_of(state) is None, bank.fault_of(state)


@pytest.mark.parametrize(("booked", "why"), [(1, r"\[1\] were committed later"), (3, r"transfers \[4\] are missing")])
def test_state_of_another_moment_is_told(booked: int, why: str) -> None:
    bank = Bank()
    bank.book(TRANSFERS[:booked])
    with pytest.raises(AssertionError, match=why):
        assert bank.fault_of(AFTER_TWO) is None, bank.fault_of(AFTER_TWO)
