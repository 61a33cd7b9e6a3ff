"""The worker processes of a copy, as the producer sees them.

In: parts of tables, in the order in which they are to be begun. Out: their rows, in the order in which they are read.
A part is handed over whole or not at all, so that what a worker had read when it died is nowhere, and the part is
read again. What a worker cannot read is left to the producer, whose own connection holds the locks and says why.

Bounded (I9): a worker has AHEAD parts at most that were not taken from it, on disk.
"""

import math
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

import structlog

from walbridge.producer.postgres.copy_workers.process import DEATHS_MAX, WorkerDied, WorkerProcess
from walbridge.producer.postgres.copy_workers.protocol import Beginning, NotRead, PieceWanted, RowsHanded, Wanted
from walbridge.producer.postgres.table_reads.pieces import Piece
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.postgres.table_reads.snapshot import SILENT_S
from walbridge.runtime.cgroup_limits import CgroupLimits, cgroup_limits

log = structlog.get_logger()

AHEAD = 2
"""One that is read, and one that is begun while the answer is on its way."""
WORKERS_MAX = 8
"""More than one producer can publish for."""
WORTHWHILE_BYTES = 64 * 2**20
PRODUCER_BYTES = 128 * 2**20
"""What the producer takes while it copies, with room to spare: docs/memory.md."""
WORKER_BYTES = 64 * 2**20


def worker_share(asked: int | None, limits: CgroupLimits | None = None) -> int:
    """How many workers a copy may have; where nothing was asked for, one for two cores, and no more than the memory of
    this container or service has room for."""
    if asked is not None:
        return min(asked, WORKERS_MAX)
    limits = cgroup_limits() if limits is None else limits
    cores = min(len(os.sched_getaffinity(0)), math.inf if limits.cores is None else limits.cores)
    memory_bytes = math.inf if limits.memory_bytes is None else limits.memory_bytes
    return int(min(cores // 2, max(memory_bytes - PRODUCER_BYTES, 0) // WORKER_BYTES, WORKERS_MAX))


def worker_count(asked: int | None, pieces: list[Piece], size_bytes: int) -> int:
    """How many the first copy has, at most one a piece. Without being asked, none for what is copied before they are
    there."""
    if asked is None and size_bytes < WORTHWHILE_BYTES:
        return 0
    return min(worker_share(asked), len(pieces))


@dataclass(frozen=True, slots=True)
class Answered:
    """``rows``: of the part, to be closed by whoever takes them; None: no worker has read it."""

    wanted: Wanted
    rows: RowSpool | None
    handed: RowsHanded | None = None


@dataclass(slots=True)
class _Worker:
    """``asked``: what it has not answered yet."""

    process: WorkerProcess
    asked: deque[Wanted] = field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        return len(self.asked) < AHEAD


class CopyWorkers:
    """Use as a context manager."""

    def __init__(self, count: int, beginning: Beginning) -> None:
        self._count, self._beginning = count, beginning
        self._workers: list[_Worker] = []
        self._unread: deque[Wanted] = deque()
        """Those that no worker is asked for any more."""
        self._deaths = 0

    def __enter__(self) -> "CopyWorkers":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    @property
    def count(self) -> int:
        """How many there are, once something is wanted."""
        return self._count

    @property
    def is_running(self) -> bool:
        """They take memory."""
        return bool(self._workers)

    def close(self) -> None:
        """End them, whatever they do; who wants something starts others."""
        for worker in self._workers:
            worker.process.socket.close()
        for worker in self._workers:
            worker.process.end()
        self._workers = []
        self._unread.clear()

    def read(self, wanted: Iterator[Wanted]) -> Iterator[Answered | None]:
        """Every part once; None whenever nothing has come for SILENT_S. One is asked for when a worker has room."""
        left = iter(wanted)
        if self._unread or any(worker.asked for worker in self._workers):
            self.close()  # whoever read before has stopped on the way
        if not self._workers and self._deaths <= DEATHS_MAX:
            while len(self._workers) < self._count and self._start():
                pass
        while True:
            self._ask(left)
            while self._unread:
                yield Answered(self._unread.popleft(), None)
                self._ask(left)
            if not any(worker.asked for worker in self._workers):
                return
            ready = wait([worker.process.socket for worker in self._workers], SILENT_S)
            if not ready:
                yield None
            for worker in [each for each in self._workers if each.process.socket in ready]:
                if (answered := self._take(worker)) is not None:
                    yield answered
                    self._ask(left)

    def _ask(self, left: Iterator[Wanted]) -> None:
        """Give each worker something to do, the one with the least first."""
        while not self._unread:
            rooms = [worker for worker in self._workers if worker.has_room]
            if self._workers and not rooms:
                return
            each = next(left, None)
            if each is None:
                return
            if not rooms or (isinstance(each, PieceWanted) and each.piece.is_large):
                self._unread.append(each)
                return
            worker = min(rooms, key=lambda room: len(room.asked))
            worker.asked.append(each)
            worker.process.send(each)

    def _take(self, worker: _Worker) -> Answered | None:
        """What a worker answers; None where it has died."""
        try:
            answer = worker.process.receive()
            rows = worker.process.receive_rows() if isinstance(answer, RowsHanded) else None
        except WorkerDied:
            self._bury(worker)
            return None
        wanted = worker.asked.popleft()
        if isinstance(answer, NotRead):
            log.warning(
                "a worker could not read a part of a table; the producer reads it itself",
                table=wanted.table.qualified_name,
                reason=answer.reason,
            )
        return Answered(wanted, rows, answer if isinstance(answer, RowsHanded) else None)

    def _bury(self, worker: _Worker) -> None:
        """What it was asked for is read again, by the producer itself: what killed it may be in a row."""
        self._deaths += 1
        self._workers.remove(worker)
        worker.process.end()
        log.warning(
            "a worker process of the copy died; what it was reading is read again",
            exit_code=worker.process.exit_code,
            tables=sorted({each.table.qualified_name for each in worker.asked}),
        )
        self._unread.extend(worker.asked)
        if self._deaths <= DEATHS_MAX:
            self._start()

    def _start(self) -> bool:
        """Another one; False where the system gives none, so that the copy goes on with those that there are."""
        try:
            self._workers.append(_Worker(WorkerProcess(self._beginning)))
        except OSError as error:
            self._deaths += 1
            log.warning(
                "a worker process of the copy could not be started", reason=error.strerror, workers=len(self._workers)
            )
            return False
        return True
