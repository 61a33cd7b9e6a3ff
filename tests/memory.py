"""How much memory a program took at its most."""

from __future__ import annotations

import threading

import psutil


class Watched:
    """The most memory that a process held, with its children if wanted, sampled."""

    def __init__(self, pid: int | None = None, *, children: bool = True) -> None:
        """``pid``: None for this program."""
        self._process, self._children = psutil.Process(pid), children
        self.peak_mb = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            try:
                family = [self._process, *(self._process.children(recursive=True) if self._children else ())]
                self.peak_mb = max(self.peak_mb, sum(each.memory_info().rss for each in family) / 2**20)
            except psutil.Error:
                return

    def stop(self) -> float:
        self._end.set()
        self._thread.join()
        return self.peak_mb
