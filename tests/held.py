"""A producer that is stopped at kill points instead of ended: the server ends meanwhile, and the producer goes on.

In: points, of a start (``environ=held_at(points)``). Out: at each in turn the process stands still, with all of its
threads, until it is let go. Only forked producers know of it (``forked_producer.py``).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.wait import wait_until
from walbridge.runtime import kill_points

if TYPE_CHECKING:
    from tests.fix_producer import Running

_VARIABLE = "WALBRIDGE_TEST_HELD_AT"


def held_at(points: Sequence[str]) -> dict[str, str]:
    """The environment of a start."""
    return {_VARIABLE: " ".join(points)}


def hold_if_asked() -> None:
    """In the process itself, as it begins."""
    left = iter(os.environ.pop(_VARIABLE, "").split())
    if (first := next(left, None)) is None:
        return

    def stand_still() -> None:
        kill_points.arm(next(left, ""))
        os.kill(os.getpid(), signal.SIGSTOP)

    kill_points.arm(first)
    kill_points.reached = stand_still


def wait_until_held(running: Running, point: str) -> None:
    """Until it stands still."""

    def is_held() -> bool:
        assert running.process.poll() is None, f"it ended before {point}:\n{running.log[-3000:]}"
        state = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    wait_until(is_held, f"the producer to be at {point}")


def let_go(running: Running) -> None:
    running.process.send_signal(signal.SIGCONT)
