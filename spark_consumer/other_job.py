"""Waits for another job on this lake, as long as its record says that it runs.

In: the records in the lake. Out: nobody else is seen to run; or whose end was waited for in vain.

Right is what the manifest says: of two jobs the second to append stops, whatever their records tell. But which of the
two that is would be chance, and a job that runs well might end for a second start. So whoever starts waits while the
other's record is renewed. That is seen by this process's own clock, since those of two machines may differ; that a
process of this machine is gone is known at once, but that one lives does not say that it writes here: the lake may be a
copy of its own. A host of the same name is this one, started anew.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import structlog

from walbridge.runtime.reports.own_process import is_alive
from walbridge.schemas.control.run_record import SILENT_S, Run
from walbridge.schemas.errors import RetryableError, Superseded
from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus

log = structlog.get_logger()

LOOK_S = 1.0


def wait_for_other_job(status: LakeStatus, timeout_s: float, stop: threading.Event) -> None:
    """Return when no other job is seen to run, or ``stop`` is set.

    Raises:
        Superseded: one runs, and has not ended within ``timeout_s``.
    """
    began_s = changed_s = time.monotonic()
    last: Run | None = None
    while not stop.is_set():
        try:
            other = _seen_to_run(status)
        except RetryableError:
            other = last  # one look that fails does not say that it ended
        if other is None:
            return
        now_s = time.monotonic()
        if last is None:
            log.warning("waiting for another job on this lake to end", job=_named(other), at_most_s=timeout_s)
        elif other.seen != last.seen:
            changed_s = now_s
        last = other
        if now_s - changed_s > SILENT_S:
            return  # its record stands still: its machine is gone, or it writes to another lake
        if changed_s > began_s and now_s - began_s > timeout_s:
            raise Superseded(
                f"another job runs on this lake: {_named(other)}; this one has waited for its end and written nothing",
                remedy="do nothing if that one is to go on; else stop it, then start this one again: a lake has one",
            )
        stop.wait(LOOK_S)


def other_job(status: LakeStatus) -> Run | None:
    """The job that holds the lake and may be running; None where its record says no, or cannot be read."""
    try:
        return _seen_to_run(status)
    except RetryableError:
        return None


def _seen_to_run(status: LakeStatus) -> Run | None:
    run, _ = status.read()
    if run is None or run.end is not None:
        return None
    alive = is_alive(run.process)
    if alive is None:
        is_late = datetime.now(UTC) - run.seen > timedelta(seconds=SILENT_S)
        return None if is_late or run.host == socket.gethostname() else run
    return run if alive else None


@contextmanager
def naming_other_job(status: LakeStatus, is_own: Callable[[Run], bool]) -> Iterator[None]:
    """A block in which the error of a job that was overtaken says by whom, where that is known."""
    try:
        yield
    except Superseded as error:
        other = other_job(status)
        if other is None or is_own(other):
            raise
        raise Superseded(f"{error.what}; a job runs there: {_named(other)}", error.remedy) from error


def _named(run: Run) -> str:
    return f"{run.where}, since {run.since:%Y-%m-%d %H:%M:%S} UTC"
