"""Reads the status of one pipeline again and again, as ``walbridge status --watch`` does, and keeps its last day.

In: settings. Out: a ``View`` at any time. Each pipeline has a thread of its own: one whose peers are away, and whose
status takes long to read, delays neither the others nor readers of the page.
"""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from walbridge.runtime.reports.crash_report import bug_place
from walbridge.schemas.settings import Settings
from walbridge.status.read_status import read_status
from walbridge.ui.history import Event, History
from walbridge.ui.kept_points import KeptPoints
from walbridge.ui.page import View

log = structlog.get_logger()


class Watcher:
    """Watches one pipeline. Each status replaces ``view`` as a whole.

    ``kept``: the file that keeps the last day for the next start.
    """

    def __init__(
        self, settings: Settings, interval_s: float, stop: threading.Event, kept: KeptPoints | None = None
    ) -> None:
        self._settings, self._interval_s, self._stop, self._kept = settings, interval_s, stop, kept
        self._history = History(kept.read(datetime.now(UTC)) if kept is not None else ())
        self._bug = ""
        self.view = View(settings.name)
        self._thread = threading.Thread(target=self._run, name=f"look {settings.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception as error:  # a bug: the page stays, says so, and shows its age
                self._note_bug(bug_place(error))
            if self._stop.wait(self._interval_s):
                return

    def _note_bug(self, place: str) -> None:
        """Log a bug and show it on the page; the same bug only once."""
        if place != self._bug:
            self._bug = place
            log.warning("a look failed", pipeline=self._settings.name, why=place)
            self._history.note(Event(datetime.now(UTC), "this page", f"a look failed: a bug: {place}"))
        self.view = replace(self.view, events=self._history.events())

    def _look(self) -> None:
        status = read_status(self._settings)
        history = self._history
        if history.add(status) and self._kept is not None:
            self._kept.write(history.points())
        self.view = View(self._settings.name, status, history.points(), history.events(), history.rates())
