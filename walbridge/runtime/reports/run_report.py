"""A program's run records: since when it runs, and how and why it ended.

In: a store for the records (Kafka or the lake), and the error that ended the program. Out: a record that is renewed
while the program runs, and another one with its end. A thread of its own writes both: a store that is away delays
nothing, and a failed write neither hides the error that ended the program nor delays it by more than ``END_S``. The end
is first written to a file on this machine, which is deleted once the store has it: so it is kept in any case.
"""

import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

import structlog

from walbridge.runtime.machine_limits import refused_by_machine
from walbridge.runtime.reports.crash_report import bug_place
from walbridge.runtime.reports.local_end import LocalEnd
from walbridge.runtime.reports.own_process import is_alive, own_process
from walbridge.schemas.control.run_record import END, RENEW_S, RUN, End, How, Run, last_words
from walbridge.schemas.errors import EXIT_BUG, EXIT_OPERATOR, OperatorError, Superseded, WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.version import VERSION

log = structlog.get_logger()

WRITE_S = 1.5
"""How long a store may take for one write."""
END_S = 2.0
_KILLED = "look for what killed it: the kernel's log (dmesg) where memory was short, or whoever restarts it"


class RunStore(Protocol):
    """Where a program's records are kept, beside the data it writes. Used by one thread only."""

    def read(self) -> tuple[Run | None, Run | None]:
        """The newest record of a run, and the newest record of an end."""

    def write(self, records: Mapping[str, Run]) -> None:
        """Write records by their kind. Takes ``WRITE_S`` at most, and raises if they are not durable then."""


class RunReport:
    """The records of this process. A context manager around all that may end the process; ``end`` may be called earlier
    inside it."""

    def __init__(self, settings: Settings, program: str, store: RunStore, state: Callable[[], str]) -> None:
        self._store, self._state, self._local = store, state, LocalEnd(settings, program)
        now = datetime.now(UTC)
        self._run = Run(
            program=program,
            pipeline=settings.name,
            run_id=uuid.uuid4().hex[:16],
            version=VERSION,
            host=socket.gethostname(),
            pid=os.getpid(),
            process=own_process(),
            since=now,
            seen=now,
            state=state(),
        )
        self._thread = threading.Thread(target=self._write_all, name="run report", daemon=True)
        self._has_begun = False
        self._ended: Run | None = None
        self._is_over, self._is_superseded, self._is_told, self._is_warned = threading.Event(), False, False, False

    def __enter__(self) -> Self:
        if (left := self._local.read()) is not None and not self._is_over.is_set():
            _log(left, "the last run here ended, and its peer could not be told")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """Record that the program ends now, by this error or normally; takes ``END_S`` at most. Further calls do
        nothing."""
        if self._is_over.is_set():
            return
        self._ended = self._run.ended(end_of(error, datetime.now(UTC)))
        self._is_superseded = isinstance(error, Superseded)
        self._is_over.set()
        self._keep_locally(self._ended)
        if not self._has_begun:
            self._thread.start()
        self._thread.join(END_S)
        if self._thread.is_alive():  # the result of that write comes too late to be logged
            self._warn(f"no answer within {END_S:g} s")
        if self._is_told:
            self._local.remove()

    @property
    def has_begun(self) -> bool:
        """Whether the record of this run is being written."""
        return self._has_begun

    def is_own(self, run: Run) -> bool:
        """Whether a record is of this process."""
        return run.run_id == self._run.run_id

    def begin(self) -> None:
        """Begin to record that this process runs: it holds the pipeline from now on."""
        if not self._has_begun:
            self._has_begun = True
            self._thread.start()

    def _keep_locally(self, ended: Run) -> None:
        try:
            self._local.write(ended)
        except OSError as error:
            log.warning(
                "the end cannot be left on this machine", folder=str(self._local.paths[0].parent), why=error.strerror
            )

    # In the thread.

    def _write_all(self) -> None:
        if self._has_begun:
            left = self._local.read()
            before = self._before(left)
            while not self._is_over.is_set():
                self._run = replace(self._run, seen=datetime.now(UTC), state=self._state())
                if self._write({RUN: self._run} | ({END: before} if before is not None else {})):
                    if left is not None and self._local.read() == left:  # else it is our own by now
                        self._local.remove()
                    before = left = None
                self._is_over.wait(RENEW_S)
        if self._ended is not None:
            holds = self._has_begun and not self._is_superseded
            self._is_told = self._write({END: self._ended} | ({RUN: self._ended} if holds else {}))

    def _before(self, left: Run | None) -> Run | None:
        """The end of the previous run, if the store does not have it yet."""
        try:
            run, end = self._store.read()
        except Exception as error:
            self._warn(_why(error))
            return left
        words = last_words(run, [end, left], datetime.now(UTC), False)
        if words.has_died and run is not None and is_alive(run.process) is not True:
            what = f"{run.where} was last heard of at {run.seen:%Y-%m-%d %H:%M:%S} UTC and ended without a word"
            ended = run.ended(End(run.seen, How.UNSAID, None, what, _KILLED))
            _log(ended, "the last run ended without a word")
            return ended
        return left if words.end is left else None

    def _write(self, records: Mapping[str, Run]) -> bool:
        try:
            self._store.write(records)
        except Exception as error:  # of any kind: the program itself goes on, or ends for its own reason
            self._warn(_why(error))
            return False
        self._is_warned = False
        return True

    def _warn(self, why: str) -> None:
        if not self._is_warned:
            self._is_warned = True
            what = "its end is not recorded but on this machine" if self._is_over.is_set() else "it goes on unrecorded"
            log.warning(f"what this program says of itself cannot be written: {what}", why=why)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, WalbridgeError) else type(error).__name__


def end_of(error: BaseException | None, at: datetime) -> End:
    """The end of a run by this error; None where it was asked to stop."""
    if error is None:
        return End(at, How.STOPPED, 0)
    error = refused_by_machine(error) or error
    if isinstance(error, OperatorError):
        return End(at, How.REFUSED, EXIT_OPERATOR, error.what, error.remedy)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 130
        return End(at, How.STOPPED, code)
    remedy = "start again, nothing is lost; report what stands in its log"
    return End(at, How.BUG, EXIT_BUG, f"a bug: {bug_place(error)}", remedy)


def _log(run: Run, event: str) -> None:
    end = run.end
    if end is not None:
        log.warning(event, at=end.at.isoformat(), how=end.how.value, who=run.where, why=end.what, remedy=end.remedy)
