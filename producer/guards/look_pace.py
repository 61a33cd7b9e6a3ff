"""How often the catalogue is looked at: before each cut where that is quick, else now and then.

In: when the last look began and ended. Out: whether another one is due.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

INTERVAL_S = 10.0
"""Between looks, at most."""
_SHARE = 50
"""Looks before cuts take no more than this part of the time: with few tables there is one before each cut."""


class LookPace:
    """Of one kind of looks."""

    def __init__(self) -> None:
        self.looked_s = self.took_s = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether the last look was a while ago."""
        return time.monotonic() - self.looked_s >= INTERVAL_S

    @property
    def is_due(self) -> bool:
        """Whether there may be one before a cut."""
        return time.monotonic() - self.looked_s >= min(self.took_s * _SHARE, INTERVAL_S)

    @contextmanager
    def look(self) -> Iterator[None]:
        """The block is a look."""
        begun_s = self.looked_s = time.monotonic()
        yield
        self.looked_s = time.monotonic()
        self.took_s = self.looked_s - begun_s
