"""A wall clock that a program moves for itself and for delta-rs (``moved_clock.c``).

In: a folder for the library and its file. Out: the environment of a program that is started with it, and there the
clock.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from walbridge.spark_consumer.delta.maintenance.clock import Clock

COMPILER = "cc"
_FILE = "MOVED_CLOCK"
_NANOSECONDS = struct.Struct("q")


def environ_with_clock(folder: Path) -> dict[str, str]:
    """Compile the library; a program that has these variables can make a ``MovedClock``."""
    library, file = folder / "moved_clock.so", folder / "moved_clock"
    compiler = shutil.which(COMPILER)
    assert compiler is not None, f"{COMPILER} is missing"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(source)], check=True)
    file.write_bytes(_NANOSECONDS.pack(0))
    return {"LD_PRELOAD": str(library), _FILE: str(file)}


class MovedClock(Clock):
    """The wall clock of this program. Nobody sets it back, so turns go by it, too."""

    def __init__(self) -> None:
        super().__init__()
        with Path(os.environ[_FILE]).open("r+b") as file:
            self._ahead = mmap.mmap(file.fileno(), _NANOSECONDS.size)

    def steady(self) -> datetime:
        return self()

    def move_to(self, moment: datetime) -> None:
        """Set it ahead, unless it is that late already."""
        ahead_ns = int(moment.timestamp() * 1e9) - time.time_ns()
        if ahead_ns > 0:
            _NANOSECONDS.pack_into(self._ahead, 0, _NANOSECONDS.unpack_from(self._ahead)[0] + ahead_ns)
        assert datetime.now(UTC) >= moment, "the clock is not moved: the library is not loaded"
