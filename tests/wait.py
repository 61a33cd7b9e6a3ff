"""Wait for a condition, with a bound: tests never sleep for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable

REST = 2
"""How many times as long as a look took nobody looks: what is waited for needs the processor too."""
REST_S_MAX = 1.0


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0, poll_s: float = 0.02) -> None:
    """Return when the condition holds; fail the test, naming ``what``, when time is up."""
    began = time.monotonic()
    deadline = began + timeout_s
    while not condition():
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(max(poll_s, min(REST * (now - began), REST_S_MAX)))
        began = time.monotonic()
