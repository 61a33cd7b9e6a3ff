"""The worker processes of a copy, as the producer sees them.

In: pieces of tables, in the order in which they are to be begun. Out: their rows, in the order in which they are read.
A piece is handed over whole or not at all, so that what a worker had read when it died is nowhere, and the piece is
read again. What a worker cannot read is left to the producer, whose own connection holds the locks and says why.

Bounded (I9): a worker has AHEAD pieces at most that were not taken from it, on disk.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import recv_handle
from pathlib import Path
from typing import Any

import structlog

import walbridge
from walbridge.producer.postgres.copy_workers.protocol import Beginning, PieceFailed, PieceRead, PieceWanted
from walbridge.producer.postgres.table_reads.pieces import Piece
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.postgres.table_reads.snapshot import SILENT_S

log = structlog.get_logger()

AHEAD = 2
"""One that is read, and one that is begun while the answer is on its way."""
DEATHS_MAX = 3
"""Of a copy's workers, by which another one is started: what kills each of them is not ended by more."""
WORKERS_MAX = 8
"""More than one producer can publish for."""
WORTHWHILE_BYTES = 64 * 2**20
_OURS = (signal.SIGINT, signal.SIGTERM)
"""A terminal and a service manager send these to all processes; only the producer knows what to end."""
_END_S = 5.0
_MODULE = "walbridge.producer.postgres.copy_workers.worker"


def worker_count(asked: int | None, pieces: list[Piece], size_bytes: int) -> int:
    """How many workers a copy has, at most one a piece.

    Args:
        asked: None: one for two cores, and none for what is copied before they are there.
    """
    if asked is None:
        asked = len(os.sched_getaffinity(0)) // 2 if size_bytes >= WORTHWHILE_BYTES else 0
    return min(asked, WORKERS_MAX, len(pieces))


@dataclass(frozen=True, slots=True)
class Answered:
    """``rows``: of the piece, to be closed by whoever takes them; None: no worker has read it."""

    wanted: PieceWanted
    rows: RowSpool | None


@dataclass(slots=True)
class _Process:
    """One worker; ``asked``: what it has not answered yet."""

    process: subprocess.Popen[bytes]
    socket: Connection
    asked: deque[PieceWanted] = field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        return len(self.asked) < AHEAD


class CopyWorkers:
    """Use as a context manager."""

    def __init__(self, count: int, beginning: Beginning) -> None:
        self._count, self._beginning = count, beginning
        self._workers: list[_Process] = []
        self._unread: deque[PieceWanted] = deque()
        """Those that no worker is asked for any more."""
        self._deaths = 0

    def __enter__(self) -> "CopyWorkers":
        self._workers = [self._started() for _ in range(self._count)]
        return self

    def __exit__(self, *exception: Any) -> None:
        for worker in self._workers:
            worker.socket.close()
        for worker in self._workers:
            _end(worker.process)
        self._workers = []

    def read(self, wanted: Iterator[PieceWanted]) -> Iterator[Answered | None]:
        """Every piece once; None whenever nothing has come for SILENT_S. One is asked for when a worker has room."""
        left = iter(wanted)
        while True:
            self._ask(left)
            while self._unread:
                yield Answered(self._unread.popleft(), None)
                self._ask(left)
            if not any(worker.asked for worker in self._workers):
                return
            ready = wait([worker.socket for worker in self._workers], SILENT_S)
            if not ready:
                yield None
            for worker in [each for each in self._workers if each.socket in ready]:
                if (answered := self._take(worker)) is not None:
                    yield answered
                    self._ask(left)

    def _ask(self, left: Iterator[PieceWanted]) -> None:
        """Give each worker something to do, the one with the least first."""
        while not self._unread:
            rooms = [worker for worker in self._workers if worker.has_room]
            if self._workers and not rooms:
                return
            each = next(left, None)
            if each is None:
                return
            if each.piece.is_large or not rooms:
                self._unread.append(each)
                return
            worker = min(rooms, key=lambda room: len(room.asked))
            worker.asked.append(each)
            with contextlib.suppress(OSError):  # it has died: its socket tells
                worker.socket.send(each)

    def _take(self, worker: _Process) -> Answered | None:
        """What a worker answers; None where it has died."""
        try:
            answer = worker.socket.recv()
            rows = RowSpool(None, recv_handle(worker.socket)) if isinstance(answer, PieceRead) else None
        except (EOFError, OSError, RuntimeError):
            self._bury(worker)
            return None
        wanted = worker.asked.popleft()
        if isinstance(answer, PieceFailed):
            log.warning(
                "a worker could not read a part of a table; the producer reads it itself",
                table=wanted.piece.table.qualified_name,
                reason=answer.reason,
            )
        return Answered(wanted, rows)

    def _bury(self, worker: _Process) -> None:
        """What it was asked for is read again, by the producer itself: what killed it may be in a row."""
        self._deaths += 1
        self._workers.remove(worker)
        worker.socket.close()
        _end(worker.process)
        log.warning(
            "a worker process of the copy died; what it was reading is read again",
            exit_code=worker.process.returncode,
            tables=sorted({each.piece.table.qualified_name for each in worker.asked}),
        )
        self._unread.extend(worker.asked)
        if self._deaths <= DEATHS_MAX:
            self._workers.append(self._started())

    def _started(self) -> _Process:
        ours, its = Pipe()
        # A process inherits its mask, so that no signal comes before the worker can say that it does not want any.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(its.fileno())],
                env=os.environ | {"PYTHONPATH": _import_path()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            its.close()
        with contextlib.suppress(OSError):  # it has died: its socket tells
            ours.send(self._beginning)
        return _Process(process, ours)


def _import_path() -> str:
    """Where the worker finds the same modules."""
    ours = str(Path(walbridge.__file__).parents[1])
    before = os.environ.get("PYTHONPATH")
    return f"{ours}{os.pathsep}{before}" if before else ours


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Its socket is closed: it ends at once, unless it is stopped or the server does not answer."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
