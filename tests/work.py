"""How much the interpreter has to do for something: counted, since machines are noisy.

What C does inside of one call is not seen here; memory often tells of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def counted(run: Callable[[], object]) -> int:
    """Lines of Python and calls of C."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    def profiled(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    before = sys.gettrace()
    sys.settrace(traced)
    sys.setprofile(profiled)
    try:
        run()
    finally:
        sys.setprofile(None)
        sys.settrace(before)
    return count
