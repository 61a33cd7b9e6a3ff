"""One worker process, which ``process.py`` starts.

In: a socket of the producer that started it; on it the connection string, then parts of tables in exported snapshots.
Out: their rows, encoded, in files without names (``row_spool.py``).

It ends with the socket, so with the producer, however that dies: a thread does nothing but listen. What its connection
is sending then is cancelled, since a server that finds no row notices a lost client only when it sends one. Between
two parts it holds no lock and no snapshot.
"""

import contextlib
import os
import queue
import sys
import threading
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle

import psycopg
from psycopg import pq

from walbridge.producer.encoding.copied_rows import CopiedBlock, RowEncoder, RowFormat
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.copy_workers.protocol import (
    Beginning,
    NotRead,
    PieceWanted,
    RangeWanted,
    RowsHanded,
    Wanted,
)
from walbridge.producer.postgres.table_reads.chunk_reader import LOCK_WAIT_S
from walbridge.producer.postgres.table_reads.key_range import KeyRange
from walbridge.producer.postgres.table_reads.pieces import WHOLE_BYTES_MAX, read_by_pages
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.postgres.table_reads.snapshot import (
    begin_in,
    copied_blocks,
    copy_statement,
    lock,
    refuse_renamed,
)
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.errors import RetryableError

CANCEL_S = 2.0
SPOOL_BYTES_MAX = 4 * WHOLE_BYTES_MAX
"""Of the rows of one piece, which may take more than its pages: TOAST is compressed, and not spread evenly."""


class Worker:
    """Reads one part after another, on a connection of its own."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._connection: SqlConnection | None = None
        self._encoder: RowEncoder | None = None

    def read(self, wanted: Wanted) -> tuple[RowSpool, RowsHanded]:
        """The rows of a part, and what is told of them.

        Raises:
            WalbridgeError: they cannot be read, or one of them is malformed.
            OSError: the folder cannot be written.
        """
        connection = self._connected()
        spool = RowSpool(self._beginning.folder)
        try:
            begin_in(connection, wanted.snapshot)
            # Whoever waits to alter the table waits for the producer, which holds it: to wait behind would be for ever.
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000:.0f}".encode())
            lock(connection, wanted.table)
            refuse_renamed(connection, wanted.table)
            if isinstance(wanted, PieceWanted):
                handed = self._piece(connection, wanted, spool)
            else:
                handed = self._range(connection, wanted, spool)
            if connection.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
                connection.execute("COMMIT")
            else:
                connection.close()
            refuse_renamed(self._connected(), wanted.table)
            spool.finish()
        except BaseException:
            spool.close()
            connection.close()
            raise
        return spool, handed

    def _piece(self, connection: SqlConnection, wanted: PieceWanted, spool: RowSpool) -> RowsHanded:
        """Lines stay only where a row is still to be made of them.

        Raises:
            RetryableError: they are too much to wait on disk.
        """
        piece, encoder = wanted.piece, self._encoder_of(wanted.row_format)
        if piece.condition is not None:
            read_by_pages(connection)
        row_count = size_bytes = 0
        statement = copy_statement(piece.table, piece.condition)
        for lines in copied_blocks(connection, statement, piece.table, sys.maxsize):
            if lines:
                rows = encoder.block(lines).rows
                spool.append(CopiedBlock(rows, [b"" if row else line for row, line in zip(rows, lines, strict=True)]))
                row_count, size_bytes = row_count + len(lines), size_bytes + sum(map(len, lines))
                if spool.size_bytes > SPOOL_BYTES_MAX:
                    raise RetryableError(f"its rows take more than {SPOOL_BYTES_MAX >> 20} MiB on disk")
                kill_point("copy-worker:rows")
        return RowsHanded(row_count, size_bytes)

    def _range(self, connection: SqlConnection, wanted: RangeWanted, spool: RowSpool) -> RowsHanded:
        encoder = self._encoder_of(wanted.row_format)
        rows = KeyRange(connection, wanted.table, wanted.key, wanted.after, wanted.rows_max, wanted.bytes_max)
        row_count = size_bytes = 0
        for lines in rows.blocks():
            if lines:
                spool.append(encoder.block(lines))
                row_count, size_bytes = row_count + len(lines), size_bytes + sum(map(len, lines))
                kill_point("copy-worker:range")
        return RowsHanded(row_count, size_bytes, rows.bound, rows.is_end)

    def _connected(self) -> SqlConnection:
        if self._connection is None or self._connection.closed:
            self._connection = connect_sql(self._beginning.dsn, "walbridge copy worker")
        return self._connection

    def _encoder_of(self, row_format: RowFormat) -> RowEncoder:
        if self._encoder is None or self._encoder.row_format != row_format:
            self._encoder = RowEncoder(row_format)
        return self._encoder

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()

    def cancel(self) -> None:
        """End what the server does for us; another thread may ask."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=CANCEL_S)


def main(descriptor: int) -> None:
    """Until the socket ends."""
    wanted: queue.SimpleQueue[Wanted] = queue.SimpleQueue()
    with contextlib.suppress(EOFError, OSError):  # nobody hears the answer any more
        socket = Connection(descriptor)
        worker = Worker(socket.recv())
        threading.Thread(target=_listen, args=(socket, wanted, worker), daemon=True).start()
        while True:
            _answer(socket, worker, wanted.get())


def _listen(socket: Connection, wanted: "queue.SimpleQueue[Wanted]", worker: Worker) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            wanted.put(socket.recv())
    worker.cancel()
    os._exit(0)


def _answer(socket: Connection, worker: Worker, wanted: Wanted) -> None:
    try:
        spool, handed = worker.read(wanted)
    except Exception as error:  # told to the producer, which reads the part itself
        socket.send(NotRead.because(error))
        return
    with contextlib.closing(spool):
        socket.send(handed)
        send_handle(socket, spool.descriptor, 0)
