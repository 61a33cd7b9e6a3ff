"""How often the lake publishes a state: at most once in an interval, the first one at once.

In: when plans begin. Out: how long the next plan waits, while cuts gather for it. Cuts that change
nothing are published more rarely: each row is a commit, and theirs only moves an LSN.
"""

import time
from collections.abc import Callable

IDLE_S = 10.0
"""A row for cuts that changed nothing is written so long after the last row, or after the interval if that is
longer."""


class Pace:
    """The publication interval of one job. ``clock`` must be monotonic."""

    def __init__(self, interval_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._changed_s = self._published_s = float("-inf")

    def now_s(self) -> float:
        """The time at which a plan begins, to be given to ``published``."""
        return self._clock()

    def published(self, begun_s: float) -> None:
        """Note that a changed state was published whose plan began at ``begun_s``."""
        self._changed_s = self._published_s = begun_s

    def published_idle(self) -> None:
        """Note that a state without a change was published. A change that comes now need not wait for that."""
        self._published_s = self._clock()

    @property
    def wait_s(self) -> float:
        """How long the next plan waits for more cuts; 0 if it is due."""
        return max(0.0, self._changed_s + self._interval_s - self._clock())

    @property
    def is_idle_due(self) -> bool:
        """Whether cuts that changed nothing are to be published now."""
        return self._clock() - self._published_s >= max(self._interval_s, IDLE_S)
