"""Waits for another job on this lake, as long as its record says that it runs.

In: the run records in the lake. Out: nothing once no other job is seen to run, or the error that names the other job.

Two jobs can never both write: the second to append to the manifest stops, whatever the records say. But chance would
decide which one that is, and a job that runs well could end because of a second start. So a job that starts waits while
the other's record is renewed, by its own clock, since the clocks of two machines may differ. If the other process was
on this machine and is gone, that is known at once. If it lives, it need not write here, since this lake may be a copy
of its lake. A host of the same name is taken for this machine after a restart.
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
            other = _seen_to_run(status, is_waited_for=last is not None)
        except RetryableError:
            other = last  # a read that fails does not show that the other job ended
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
    """The job that may be running on this lake; None if its record says that it is not, or cannot be read."""
    try:
        return _seen_to_run(status)
    except RetryableError:
        return None


def _seen_to_run(status: LakeStatus, *, is_waited_for: bool = False) -> Run | None:
    """``is_waited_for``: its record was new at the first look; whether it stands still then is told by our own waiting,
    as this machine's clock may be set meanwhile."""
    run, _ = status.read()
    if run is None or run.end is not None:
        return None
    alive = is_alive(run.process)
    if alive is None:
        is_late = not is_waited_for and datetime.now(UTC) - run.seen > timedelta(seconds=SILENT_S)
        return None if is_late or run.host == socket.gethostname() else run
    return run if alive else None


@contextmanager
def naming_other_job(status: LakeStatus, is_own: Callable[[Run], bool]) -> Iterator[None]:
    """A block in which ``Superseded`` names the other job, if it is known."""
    try:
        yield
    except Superseded as error:
        other = other_job(status)
        if other is None or is_own(other):
            raise
        raise Superseded(f"{error.what}; a job runs there: {_named(other)}", error.remedy) from error


def _named(run: Run) -> str:
    return f"{run.where}, since {run.since:%Y-%m-%d %H:%M:%S} UTC"
