"""Long work in a terminal: a bar for each copy and plan, where logs elsewhere have lines.

In: the events of the log. Out: those that say how far a copy or a plan is move a bar; all others are written above the
bars. A bar goes with the event that ends its work, or when nothing was heard of it for a while, whatever the log says.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

GOES_ON = {"copy of a table goes on": "table", "a plan is in work": "to_cut"}
"""What tells how far some work is, and which of its values names that."""
ENDS = {"copied": "table", "table is copied": "table", "published": "to_cut", "applied": "to_cut"}
SILENT_S = 60.0
"""Work that ended in trouble has no event of its own here."""
Event = structlog.typing.EventDict


class _Shown(Progress):
    """Its own thread draws it again and again, so what is silent leaves the screen without an event."""

    clock_s: Callable[[], float] = staticmethod(time.monotonic)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Without a lock of ours: the thread that draws holds one of rich's."""
        now_s = self.clock_s()
        yield self.make_tasks_table([task for task in self.tasks if now_s - task.fields["heard_s"] <= SILENT_S])


class Bars:
    """A processor of structlog, and the file that the lines are written to."""

    def __init__(self, console: Console | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._clock_s = clock_s
        self._tasks: dict[object, tuple[TaskID, float]] = {}
        self._shown = self._new()
        self._lock = threading.Lock()

    def __call__(self, _logger: object, _method: str, event: Event) -> Event:
        """Take an event that moves a bar; pass on all others."""
        name = str(event.get("event"))
        with self._lock:
            if (key := GOES_ON.get(name)) is not None:
                self._move(event.get(key), event)
                raise structlog.DropEvent
            if self._tasks:
                self._end(event.get(ENDS[name]) if name in ENDS else None)
        return event

    def write(self, text: str) -> None:
        """A line of the log, perhaps in parts."""
        if not self._tasks:
            sys.stderr.write(text)
        elif line := text.rstrip("\n"):
            self._console.print(Text.from_ansi(line), soft_wrap=True)

    def flush(self) -> None:
        """As files have it."""
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._shown.stop()
        self._tasks.clear()

    def _new(self) -> Progress:
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[said]}")
        shown = _Shown(*columns, console=self._console, transient=True, refresh_per_second=4)
        shown.clock_s = self._clock_s
        return shown

    def _move(self, key: object, event: Event) -> None:
        if not self._tasks:
            self._shown = self._new()
            self._shown.start()
        shown = _of_plan(event) if "to_cut" in event else _of_copy(event)
        shown["heard_s"] = self._clock_s()
        if key in self._tasks:
            task, _ = self._tasks[key]
            self._shown.update(task, **shown)
        else:
            task = self._shown.add_task(**shown)
        self._tasks[key] = task, self._clock_s()

    def _end(self, ended: object) -> None:
        now_s = self._clock_s()
        for key, (task, heard_s) in list(self._tasks.items()):
            if key == ended or now_s - heard_s > SILENT_S:
                self._shown.remove_task(task)
                del self._tasks[key]
        self._shown.refresh()  # else a line that is written now shows what has gone
        if not self._tasks:
            self._shown.stop()


def _of_copy(event: Event) -> dict[str, Any]:
    percent, left_s = event["percent"], event["seconds_left"]
    said = f"{event['rows']:,} rows, {event['rows_per_s']:,}/s" + (f", {left_s:,} s left" if left_s is not None else "")
    return {
        "description": escape(f"copying {event['table']}"),
        "completed": percent or 0,
        "total": None if percent is None else 100,
        "said": said if percent is None else f"{percent} %, {said}",
    }


def _of_plan(event: Event) -> dict[str, Any]:
    at = f", at {event['at']}" if "at" in event else ""
    return {
        "description": f"applying cut {event['to_cut']}",
        "completed": event["tables_done"],
        "total": event["tables"],
        "said": escape(
            f"{event['tables_done']} of {event['tables']} tables, {event['rows']:,} rows, {event['seconds']} s{at}"
        ),
    }
