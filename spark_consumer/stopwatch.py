"""How long the stages of one plan took."""

import time


class Stopwatch:
    """Laps of consecutive stages, in milliseconds, by name."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self.laps_ms: dict[str, int] = {}

    def lap(self, name: str) -> None:
        """End the stage ``name``; the next one begins."""
        now = time.perf_counter()
        self.laps_ms[name] = round((now - self._since) * 1000)
        self._since = now
