"""Looks at one pipeline again and again, as ``walbridge status --watch`` does, and keeps its last day.

In: settings. Out: a ``View`` at any time. A thread of its own for each pipeline: one whose peers are away, which takes
a look its time limits, delays no other and no reader of the page.
"""

import threading
from datetime import UTC, datetime

import structlog

from walbridge.runtime.crash_report import bug_place
from walbridge.schemas.settings import Settings
from walbridge.status.look import look
from walbridge.ui.history import Event, History
from walbridge.ui.page import View

log = structlog.get_logger()


class Watcher:
    """Of one pipeline; ``view`` is replaced as a whole by each look."""

    def __init__(self, settings: Settings, interval_s: float, is_over: threading.Event) -> None:
        self._settings, self._interval_s, self._is_over = settings, interval_s, is_over
        self._history = History()
        self.view = View(settings.name)
        self._thread = threading.Thread(target=self._run, name=f"look {settings.name}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception as error:  # a bug of one look: the page goes on, says so, and grows old
                log.warning("a look failed", pipeline=self._settings.name, why=bug_place(error))
                self._history.note(Event(datetime.now(UTC), "this page", f"a look failed: a bug: {bug_place(error)}"))
            if self._is_over.wait(self._interval_s):
                return

    def _look(self) -> None:
        standing = look(self._settings)
        self._history.add(standing)
        history = self._history
        self.view = View(self._settings.name, standing, history.points(), history.events(), history.rates())
