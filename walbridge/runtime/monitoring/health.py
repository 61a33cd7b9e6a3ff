"""The health of a program, which ``/healthz`` answers: whether its main loop makes progress.

In: ``beat()`` whenever the loop has finished some work, or has seen that there is none.
Out: healthy or not, and why. A peer that is away is waited for, and that is healthy for a while;
a loop that hangs, or a peer that stays away, is unhealthy after the same time: only a person or a
restart goes on from there. No setting, row value or error text is in it (I10).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

STARTING = "starting"
WAITING = "waiting"
WAITING_FOR_KAFKA = "waiting for Kafka"
WAITING_FOR_POSTGRES = "waiting for Postgres"
WAITING_FOR_REGISTRY = "waiting for the registry"
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Health:
    """The health at one moment. ``problem`` is empty for a healthy program."""

    state: str
    since_progress_s: float
    problem: str = ""


class Pulse:
    """The state of a program, and when it last made progress. Written by its main loop, read by any thread."""

    def __init__(self, stalled_after_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stalled_after_s = stalled_after_s
        self._clock = clock
        self._beat_s = clock()
        self.state = STARTING

    def beat(self) -> None:
        """Note that work was finished, or that there was none."""
        self._beat_s = self._clock()

    def enter(self, state: str) -> None:
        """Change to ``state``. Waiting for a peer is no progress; every other new state is."""
        if state != WAITING and state != self.state:
            self.beat()
        self.state = state

    @property
    def since_progress_s(self) -> float:
        """Seconds since the last beat."""
        return self._clock() - self._beat_s

    def health(self) -> Health:
        """The health now."""
        state, age_s = self.state, self.since_progress_s
        if state in (STARTING, STOPPED):
            return Health(state, age_s, f"the program is {state}")
        if age_s > self._stalled_after_s:
            return Health(state, age_s, f"no progress for {age_s:.0f} s")
        return Health(state, age_s)
