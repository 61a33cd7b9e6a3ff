"""What processes show to everybody on the machine, and where Spark's properties lie for a moment.

In: a scratch folder and a secret. Out: every command line that was there, and of each properties
file whether it held the secret and who may read it.
"""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Self


class CommandLines(threading.Thread):
    """What every process of the machine shows to everybody, looked at until the block ends."""

    def __init__(self, scratch: Path, secret: str) -> None:
        super().__init__(name="command lines")
        self.seen: set[bytes] = set()
        self.properties_files: set[tuple[bool, int]] = set()
        self._scratch, self._secret = scratch, secret.encode()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.05):
            # Not glob("*/cmdline"), which asks whether each is there and fails where its process ends meanwhile.
            for process in Path("/proc").iterdir():
                if process.name.isdigit():
                    self._look(process / "cmdline")
            for path in self._scratch.glob("*/spark.properties"):
                self._look_at_properties(path)

    def _look(self, path: Path) -> None:
        try:
            self.seen.add(path.read_bytes())
        except OSError:  # it ended
            return

    def _look_at_properties(self, path: Path) -> None:
        try:
            found = self._secret in path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
        except OSError:
            return
        self.properties_files.add(found)
