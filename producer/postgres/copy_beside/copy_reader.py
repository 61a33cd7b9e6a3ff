"""Reads tables that are copied beside the stream, so that the stream never waits for a row.

In: questions. Out: answers, in the order of the questions (``copy_protocol.py``). The rows of a chunk are encoded and
go to disk (``row_spool.py``), so memory is bounded by a block of them. All rows of a table come in pieces, and no more
than READ_AHEAD_BYTES of them are held before they are given back.

A thread with a connection of its own. It shares nothing with the stream but two queues. Chunks of a copy that is large
are read and encoded by worker processes, which it waits for (``encoded_chunk.py``): threads share one core.
"""

import contextlib
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Answer,
    ChunkRead,
    ChunkShown,
    ChunkWanted,
    Failed,
    RowsRead,
    TableFound,
    TablesFound,
    TablesWanted,
    TableWanted,
    Wanted,
    WholeRead,
    WholeWanted,
)
from walbridge.producer.postgres.copy_beside.encoded_chunk import chunk_answers, shape_of, shown_to
from walbridge.producer.postgres.copy_workers.pool import CopyWorkers, worker_share
from walbridge.producer.postgres.copy_workers.protocol import Beginning
from walbridge.producer.postgres.publications.publication import publication_state
from walbridge.producer.postgres.table_reads.chunk_reader import ChunkReader, TableRead
from walbridge.producer.postgres.table_reads.table_size import table_sizes
from walbridge.schemas.errors import RetryableError, WalbridgeError

READ_AHEAD_BYTES = 4 * 2**20
SWITCH_S = 0.0005
"""So long this thread may go on encoding rows while that of the stream wants to go on: a tenth of Python's own."""
IDLE_S = 30.0
"""So long worker processes wait for the next chunk."""
WORTHWHILE_BYTES = 8 * 2**20
"""So much is read before there are worker processes, unless some were asked for."""
_PIECE_BYTES = 2**18
_ROW_BYTES = 64
"""What Python takes for a row beside its bytes."""
_END_S = 5.0
"""A read ends within this time after it was let go, unless the server does not answer at all."""


class _ReadAhead:
    """How much the rows take that were read and not given back, of one question."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0
        self._is_wanted = True

    def add(self, size_bytes: int) -> bool:
        """Wait until there is room; False if no row is wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < READ_AHEAD_BYTES or not self._is_wanted)
            self._bytes += size_bytes
            return self._is_wanted

    def give_back(self, size_bytes: int) -> None:
        """Make room."""
        with self._changed:
            self._bytes -= size_bytes
            self._changed.notify()

    def end(self) -> None:
        """No row is wanted any more."""
        with self._changed:
            self._is_wanted = False
            self._changed.notify()


class CopyReader:
    """Use as a context manager. One thing is wanted at a time.

    Args:
        folder: for rows.
        copy_workers: the setting: with more than one they read chunks in parts, once there are many.
    """

    def __init__(self, dsn: str, publications: catalog.Publications, folder: str, copy_workers: int | None = 0) -> None:
        self._dsn, self._publications, self._folder = dsn, publications, folder
        count = worker_share(copy_workers)
        self._workers = CopyWorkers(count, Beginning(dsn, folder)) if count > 1 else None
        self._workers_from_bytes = WORTHWHILE_BYTES if copy_workers is None else 0
        self._read_bytes = 0
        self._wanted: queue.SimpleQueue[tuple[int, Wanted, _ReadAhead] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._number = 0
        self._ahead = _ReadAhead()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "CopyReader":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cancel()
        self._wanted.put(None)
        if self._thread is not None:
            self._thread.join(_END_S)

    def ask(self, wanted: Wanted) -> None:
        """What was asked for before is let go. The thread begins with the first question."""
        self.cancel()
        self._ahead = _ReadAhead()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="copy reader", daemon=True)
            self._thread.start()
        self._wanted.put((self._number, wanted, self._ahead))

    def cancel(self) -> None:
        """No answer to what was asked for is wanted any more."""
        self._number += 1
        self._ahead.end()

    def give_back(self, size_bytes: int) -> None:
        """Of ``RowsRead``: more may be read."""
        self._ahead.give_back(size_bytes)

    def answer(self) -> Answer | None:
        """The next one that has come, None where none has.

        Raises:
            BaseException: the thread failed for a reason that is nobody's but its own.
        """
        while not self._answers.empty():
            number, answer = self._answers.get()
            if isinstance(answer, Failed) and not isinstance(answer.error, WalbridgeError):
                raise answer.error
            if number == self._number:
                return answer
            if isinstance(answer, ChunkRead):
                answer.rows.close()
        return None

    # In the thread.

    def _run(self) -> None:
        sys.setswitchinterval(SWITCH_S)
        with ChunkReader(self._dsn) as reader, contextlib.ExitStack() as ending:
            if self._workers is not None:
                ending.callback(self._workers.close)
            while (each := self._next_wanted()) is not None:
                number, wanted, ahead = each
                try:
                    for answer in self._answered(reader, number, wanted, ahead):
                        self._answers.put((number, answer))
                except BaseException as error:  # told to who asks
                    self._answers.put((number, Failed(error)))

    def _next_wanted(self) -> tuple[int, Wanted, _ReadAhead] | None:
        """Workers that nothing is asked of for a while are ended."""
        if self._workers is not None and self._workers.is_running:
            try:
                return self._wanted.get(timeout=IDLE_S)
            except queue.Empty:
                self._workers.close()
        return self._wanted.get()

    def _answered(self, reader: ChunkReader, number: int, wanted: Wanted, ahead: _ReadAhead) -> Iterator[Answer]:
        # It was let go while it waited in the queue.
        if number != self._number:
            return
        match wanted:
            case TablesWanted():
                with connect_sql(self._dsn, "walbridge copy") as connection:
                    found = catalog.published_tables(connection, self._publications)
                yield TablesFound(tuple(found))
            case TableWanted(table):
                with reader.read(table) as read:
                    yield self._described(read)
            case ChunkWanted():
                yield from self._chunk(reader, number, wanted)
            case WholeWanted(table):
                with reader.read(table) as read:
                    yield from self._whole(read, number, wanted, ahead)

    def _described(self, read: TableRead) -> TableFound:
        table, connection = read.table, read.connection
        # As of the lock: what was listed before it may have been altered since.
        if table not in catalog.published_tables(connection, self._publications):
            raise RetryableError(f"table {table.qualified_name} was altered meanwhile, or left the publication")
        facts = catalog.table_facts(connection, table.relation_id)
        if facts is None:
            raise RetryableError(f"table {table.qualified_name} is gone")
        types = catalog.type_facts(connection, {column.type_oid for column in facts.columns})
        names = None if read.key is None else read.key.names
        size = table_sizes(connection, [table.relation_id]).get(table.relation_id)
        member = publication_state(connection, self._publications, [table.relation_id]).members.get(table.relation_id)
        return TableFound(table, facts, types, shape_of(read), names, read.insert_lsn, size, member)

    def _whole(self, read: TableRead, number: int, wanted: WholeWanted, ahead: _ReadAhead) -> Iterator[Answer]:
        shown = shown_to(read, wanted)
        yield shown
        if not isinstance(shown, ChunkShown) or not shown.is_read:
            return
        rows: list[bytes] = []
        size_bytes = 0
        for row in read.whole():
            if number != self._number:
                return
            if row is not None:
                rows.append(row)
                size_bytes += _ROW_BYTES + len(row)
            if rows and (row is None or size_bytes >= _PIECE_BYTES):
                if not ahead.add(size_bytes):
                    return
                yield RowsRead(tuple(rows), size_bytes)
                rows, size_bytes = [], 0
        if rows and ahead.add(size_bytes):
            yield RowsRead(tuple(rows), size_bytes)
        # The rows are of one state only if the lock was held until the last of them.
        read.refuse_lost()
        yield WholeRead(read.insert_lsn)

    def _chunk(self, reader: ChunkReader, number: int, wanted: ChunkWanted) -> Iterator[Answer]:
        workers = self._workers if self._read_bytes >= self._workers_from_bytes else None
        with reader.read(wanted.table) as read:
            for answer in chunk_answers(read, wanted, self._folder, lambda: number == self._number, workers):
                if isinstance(answer, ChunkRead):
                    self._read_bytes += answer.size_bytes
                yield answer
