"""Worker processes of a copy: how many there are, and what is done where the system gives none. Without a server."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.producer.avro_reader import record_of
from tests.producer.postgres.table_reads.test_snapshot import published
from tests.producer.written_record import ID, NAME
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.postgres.copy_workers import pool
from walbridge.producer.postgres.copy_workers.pool import PRODUCER_BYTES, WORKER_BYTES, CopyWorkers, worker_share
from walbridge.producer.postgres.copy_workers.process import DEATHS_MAX, WorkerProcess
from walbridge.producer.postgres.copy_workers.protocol import Beginning, PieceWanted
from walbridge.producer.postgres.table_reads.pieces import Piece
from walbridge.runtime.cgroup_limits import CgroupLimits

NOTHING = Beginning("host=127.0.0.1 port=1 dbname=d", "/nowhere")


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        (CgroupLimits(), 8),
        (CgroupLimits(cores=6.5), 3),
        (CgroupLimits(cores=1.5), 0),
        (CgroupLimits(cores=64), 8),
        (CgroupLimits(256 * 2**20), 2),
        (CgroupLimits(PRODUCER_BYTES + WORKER_BYTES - 1), 0),
        (CgroupLimits(64 * 2**20), 0),
        (CgroupLimits(2**40, 4), 2),
    ],
)
def test_count_that_nobody_set_fits_the_cores_and_the_memory_of_the_container(
    monkeypatch: pytest.MonkeyPatch, limits: CgroupLimits, count: int
) -> None:
    """I9: a producer that is killed for its memory would begin its copy for ever."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))

    assert worker_share(None, limits) == count
    assert worker_share(5, limits) == 5


def pieces(count: int) -> Iterator[PieceWanted]:
    return (PieceWanted("1", Piece(published()), RowFormat(record_of(ID, NAME), b"")) for _ in range(count))


def read_without_a_process(workers: CopyWorkers, count: int) -> list[object]:
    """What of so many pieces was read."""
    return [each.rows for each in workers.read(pieces(count)) if each is not None]


@pytest.mark.parametrize("reason", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_copy_goes_on_by_itself_where_no_worker_can_be_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reason: int
) -> None:
    """What the system has no room for is no bug, and no row."""
    asked: list[object] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        asked.append(arguments)
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with CopyWorkers(3, NOTHING) as workers:
        found = [read_without_a_process(workers, 4) for _ in range(DEATHS_MAX + 4)]

    assert found == [[None] * 4] * len(found)
    assert len(asked) == DEATHS_MAX + 1


def test_copy_goes_on_with_the_workers_that_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WorkerProcess] = []

    def start(beginning: Beginning) -> WorkerProcess:
        if made:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        made.append(WorkerProcess(beginning))
        return made[-1]

    monkeypatch.setattr(pool, "WorkerProcess", start)
    with CopyWorkers(3, NOTHING) as workers:
        assert read_without_a_process(workers, 3) == [None] * 3  # there is no server either
        assert len(made) == 1
        assert made[0].exit_code is None
