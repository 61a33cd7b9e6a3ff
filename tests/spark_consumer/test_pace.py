"""How often a state is published: by a clock that the test moves."""

import pytest

from walbridge.spark_consumer.pace import Pace


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_first_state_is_due_at_once(clock: Clock) -> None:
    pace = Pace(3_000, clock)

    assert (pace.wait_s, pace.is_idle_due) == (0, True)


def test_states_are_as_far_apart_as_the_interval_says_from_beginning_to_beginning(clock: Clock) -> None:
    """A plan that takes longer than the interval is followed by the next one at once."""
    pace = Pace(3_000, clock)
    pace.published(begun_s=clock.now_s)
    clock.now_s += 1

    assert pace.wait_s == 2
    clock.now_s += 9
    assert pace.wait_s == 0


def test_interval_of_nothing_makes_nobody_wait(clock: Clock) -> None:
    pace = Pace(0, clock)
    pace.published(begun_s=clock.now_s)

    assert pace.wait_s == 0


@pytest.mark.parametrize(("interval_ms", "due_s"), [(0, 10), (500, 10), (60_000, 60)])
def test_state_without_a_change_is_due_after_an_interval_and_ten_seconds_at_least(
    clock: Clock, interval_ms: int, due_s: float
) -> None:
    pace = Pace(interval_ms, clock)
    pace.published(begun_s=clock.now_s)
    clock.now_s += due_s - 0.5
    before = pace.is_idle_due
    clock.now_s += 0.5

    assert (before, pace.is_idle_due) == (False, True)


def test_state_without_a_change_holds_up_no_change(clock: Clock) -> None:
    pace = Pace(3_000, clock)
    pace.published_idle()

    assert (pace.wait_s, pace.is_idle_due) == (0, False)
