"""Wait for a condition, with a bound: tests never sleep for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0, poll_s: float = 0.02) -> None:
    """Return when the condition holds; fail the test, naming ``what``, when time is up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(poll_s)
