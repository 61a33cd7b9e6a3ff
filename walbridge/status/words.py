"""A program's last words as ``walbridge status`` prints them. Pure.

In: what is known of one program. Out: lines, or an object.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from walbridge.quantities import moment_text, seconds_text
from walbridge.schemas.control.run_record import End, How, LastWords, Run

UNSAID = "ended without a word"
FAILED = "ended with an error"
BUG = "ended with a bug"
_LATELY = timedelta(days=1)
"""A program that runs is shown with its last end only if that is so young."""


def word_lines(words: LastWords, now: datetime) -> Iterator[str]:
    """Whether it runs, since when and where; how it ended, and what mends that. None where it never ran."""
    run, end = words.run, words.end
    told = words.recorded_end
    if words.is_running and run is not None:
        yield f"runs since {moment_text(run.since)}: {run.where}, version {run.version}, {run.state}"
        if end is not None and end.end is not None and end.end.how is not How.STOPPED and now - end.end.at < _LATELY:
            yield from _ended("the last one ", end, end.end, now)
    elif told is not None and told.end is not None:
        yield from _ended("", told, told.end, now)
    elif run is not None:
        yield f"{UNSAID}, last heard of {_ago(run.seen, now)}: {run.where}"


def _ended(who: str, run: Run, end: End, now: datetime) -> Iterator[str]:
    if end.how is How.STOPPED:
        yield f"{who}was stopped {_ago(end.at, now)}: {run.where}"
        return
    if end.how is How.UNSAID:
        yield f"{who}{UNSAID}, last heard of {_ago(end.at, now)}: {run.where}"
    else:
        told = BUG if end.how is How.BUG else FAILED
        yield f"{who}{told} {_ago(end.at, now)}: {run.where}: {_line(end.what)}"
    if end.remedy:
        yield f"remedy: {_line(end.remedy)}"


def _ago(moment: datetime, now: datetime) -> str:
    return f"at {moment_text(moment)} ({seconds_text(max(0.0, (now - moment).total_seconds()))} ago)"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def words_json(words: LastWords) -> dict[str, Any]:
    """``running`` null: it never ran, as far as is known."""
    return {
        "running": None if words.run is None and words.end is None else words.is_running,
        "run": None if words.run is None else _run_json(words.run),
        "last_end": None if words.end is None else _run_json(words.end),
    }


def _run_json(run: Run) -> dict[str, Any]:
    end = run.end
    return {
        "host": run.host,
        "pid": run.pid,
        "version": run.version,
        "state": run.state,
        "since": run.since.isoformat(),
        "seen": run.seen.isoformat(),
        "end": end
        and {
            "at": end.at.isoformat(),
            "how": end.how.value,
            "exit_code": end.exit_code,
            "what": end.what,
            "remedy": end.remedy,
        },
    }
