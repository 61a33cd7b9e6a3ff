"""Named points at which a test may end the process as ``kill -9`` would.

``WALBRIDGE_KILL_POINT=name`` or ``name:3`` (the third time it is reached). In production the
variable is unset and a point costs one comparison.
"""

import os


def arm(asked: str) -> None:
    """Name the point of this process; empty for none."""
    global _wanted, _left
    name, _, nth = asked.rpartition(":")
    # Names have a colon of their own: only a number after the last one is a count.
    _wanted, _left = (name, int(nth)) if nth.isdecimal() else (asked, 1)


def kill_point(name: str) -> None:
    """End the process here, without clean-up, if the environment asks for it."""
    global _left
    if name != _wanted:
        return
    _left -= 1
    if _left == 0:
        reached()


def reached() -> None:
    """End the process; a test that only stops it puts its own in the place of this."""
    os._exit(137)


_wanted, _left = "", 0
arm(os.environ.get("WALBRIDGE_KILL_POINT", ""))
