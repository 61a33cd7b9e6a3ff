"""How often the lake publishes a state: at most once in an interval, the first one at once.

In: when plans begin. Out: how long the next one is to wait, while cuts gather for it. Cuts that change
nothing are published more seldom: each row is a commit, and this one only moves an LSN.
"""

import time
from collections.abc import Callable

IDLE_S = 10.0
"""A row that says only that nothing changed comes this long after the last one, if the interval is no longer."""


class Pace:
    """One for each job. The clock is one that never goes back."""

    def __init__(self, interval_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._changed_s = self._published_s = float("-inf")

    def now_s(self) -> float:
        """When a plan begins, for ``published``."""
        return self._clock()

    def published(self, begun_s: float) -> None:
        """A changed state was published; its plan began then."""
        self._changed_s = self._published_s = begun_s

    def published_idle(self) -> None:
        """A state without a change was published, which holds up no change that comes now."""
        self._published_s = self._clock()

    @property
    def wait_s(self) -> float:
        """How long the next plan waits for more cuts; 0 if it is due."""
        return max(0.0, self._changed_s + self._interval_s - self._clock())

    @property
    def is_idle_due(self) -> bool:
        """Whether a state without a change is worth a row by now."""
        return self._clock() - self._published_s >= max(self._interval_s, IDLE_S)
