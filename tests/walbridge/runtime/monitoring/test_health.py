"""What /healthz answers, by state and by the time since the last progress."""

import pytest

from walbridge.runtime.monitoring.health import STARTING, STOPPED, WAITING, Pulse

STALLED_AFTER_S = 300.0


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(clock: Clock) -> Pulse:
    return Pulse(STALLED_AFTER_S, clock)


@pytest.mark.parametrize("state", [STARTING, STOPPED])
def test_a_program_that_has_not_started_or_has_ended_is_unhealthy(pulse: Pulse, state: str) -> None:
    pulse.enter(state)

    assert state in pulse.health().problem


def test_a_program_that_gets_on_is_healthy(pulse: Pulse, clock: Clock) -> None:
    pulse.enter("streaming")
    clock.now_s += STALLED_AFTER_S + 1
    pulse.beat()

    assert pulse.health().problem == ""


def test_a_program_without_progress_is_unhealthy_after_the_time_set(pulse: Pulse, clock: Clock) -> None:
    pulse.enter("streaming")
    clock.now_s += STALLED_AFTER_S
    assert pulse.health().problem == ""
    clock.now_s += 1

    assert pulse.health().problem == "no progress for 301 s"


def test_waiting_for_a_peer_is_healthy_at_first_and_no_progress(pulse: Pulse, clock: Clock) -> None:
    pulse.enter("streaming")
    clock.now_s += STALLED_AFTER_S
    pulse.enter(WAITING)
    assert pulse.health().problem == ""
    clock.now_s += 1

    assert pulse.health().problem


def test_a_session_after_a_pause_counts_as_progress(pulse: Pulse, clock: Clock) -> None:
    pulse.enter(WAITING)
    clock.now_s += STALLED_AFTER_S + 1
    pulse.enter("streaming")

    assert pulse.health().problem == ""
