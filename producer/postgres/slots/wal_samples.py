"""How old the WAL is that was not dealt with yet, and how fast WAL grows, from what the server said now and then.

In: samples, each a time and the LSN up to which the server had written WAL by then. Out: an age, a rate. Pure.

A sample above an LSN says that WAL after that LSN was there at its time: it is at least as old. So the age is too
low by at most the time between two samples, and never too high. Memory is bounded however long a peer is away: of
too many samples every other one is dropped, never the first of those that tell the age.
"""

from collections import deque

SAMPLES_MAX = 256
RATE_WINDOW_S = 600.0


class WalSamples:
    """Samples in the order of time. One thread adds and forgets, any other may ask."""

    def __init__(self) -> None:
        self._above: list[tuple[float, int]] = []
        self._apart_s = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def add(self, at_s: float, wal_lsn: int) -> None:
        """The server had written so far."""
        if self._recent and wal_lsn < self._recent[-1][1]:  # another server, or an older state of it
            self._above.clear()
            self._recent.clear()
        if not self._above or (wal_lsn > self._above[-1][1] and at_s - self._above[-1][0] >= self._apart_s):
            self._above.append((at_s, wal_lsn))
        self._recent.append((at_s, wal_lsn))
        if len(self._above) > SAMPLES_MAX:
            del self._above[1::2]
            self._apart_s = 2 * (self._above[-1][0] - self._above[0][0]) / SAMPLES_MAX

    def age_s(self, settled: int, now_s: float) -> float:
        """Of the oldest WAL after ``settled``, at least; 0 where the server had none at the last sample."""
        samples = (*self._above, *tuple(self._recent)[-1:])
        first_s = next((at_s for at_s, lsn in samples if lsn > settled), now_s)
        return max(now_s - first_s, 0.0)

    def forget(self, settled: int) -> None:
        """Nobody will ask for the age of WAL before ``settled`` again."""
        while self._above and self._above[0][1] <= settled:
            del self._above[0]
        if not self._above:
            self._apart_s = 0.0

    @property
    def bytes_per_s(self) -> float | None:
        """WAL a second over the last minutes; None before there are two samples."""
        recent = tuple(self._recent)
        if len(recent) < 2:
            return None
        end_s, end_lsn = recent[-1]
        start_s, start_lsn = next(sample for sample in recent if end_s - sample[0] <= RATE_WINDOW_S)
        return (end_lsn - start_lsn) / (end_s - start_s) if end_s > start_s else None
