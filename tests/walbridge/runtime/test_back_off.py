"""Pauses that double up to a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.runtime.back_off import BackOff


def pauses(back_off: BackOff, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(back_off.pause_s)
        back_off.grow()
    return found


@pytest.mark.parametrize(
    ("back_off", "expected"),
    [
        (BackOff(first_s=0.5, max_s=3), [0.5, 1, 2, 3, 3]),
        (BackOff(first_s=0, max_s=1), [0, 0.25, 0.5, 1, 1]),
    ],
)
def test_pauses_double_up_to_the_longest(back_off: BackOff, expected: list[float]) -> None:
    assert pauses(back_off, 5) == expected


@given(st.floats(0, 10), st.floats(10, 100), st.integers(1, 50))
def test_no_pause_is_longer_than_the_longest(first_s: float, max_s: float, count: int) -> None:
    assert all(pause_s <= max_s for pause_s in pauses(BackOff(first_s, max_s), count))


def test_after_a_success_the_first_pause_comes_again() -> None:
    back_off = BackOff(first_s=0.5)
    pauses(back_off, 5)
    back_off.reset()

    assert back_off.pause_s == 0.5
