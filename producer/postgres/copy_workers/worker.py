"""``python -m walbridge.producer.postgres.copy_workers.worker DESCRIPTOR``: one worker process.

In: a socket of the producer that started it; on it the connection string and a snapshot, then pieces of tables. Out:
their rows, encoded, in files without names (``row_spool.py``).

It ends with the socket, so with the producer, however that dies: a thread does nothing but listen. What its connection
is sending then is cancelled, since a server that finds no row notices a lost client only when it sends one. Signals
that ask to end are the producer's: it begins with a mask that holds them back. Between two pieces it holds no lock and
no snapshot.
"""

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle

import psycopg

from walbridge.producer.encoding.copied_rows import CopiedBlock, RowEncoder, RowFormat
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.copy_workers.protocol import Beginning, PieceFailed, PieceRead, PieceWanted
from walbridge.producer.postgres.table_reads.chunk_reader import LOCK_WAIT_S
from walbridge.producer.postgres.table_reads.pieces import read_by_pages
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.postgres.table_reads.snapshot import begin_in, copied_blocks, copy_statement, lock
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.errors import WalbridgeError

CANCEL_S = 2.0


class Worker:
    """Reads one piece after another, on a connection of its own."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._connection: SqlConnection | None = None
        self._encoder: RowEncoder | None = None

    def read(self, wanted: PieceWanted) -> tuple[RowSpool, int]:
        """The rows of a piece, and how many they are.

        Raises:
            WalbridgeError: they cannot be read, or one of them is malformed.
            OSError: the folder cannot be written.
        """
        connection, piece = self._connected(), wanted.piece
        spool, row_count = RowSpool(self._beginning.folder), 0
        try:
            begin_in(connection, self._beginning.snapshot)
            # Whoever waits to alter the table waits for the producer, which holds it: to wait behind would be for ever.
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000:.0f}".encode())
            lock(connection, piece.table)
            if piece.condition is not None:
                read_by_pages(connection)
            encoder = self._encoder_of(wanted.row_format)
            for block in self._blocks(connection, wanted, encoder):
                spool.append(block)
                row_count += len(block.rows)
                kill_point("copy-worker:rows")
            connection.execute("COMMIT")
            spool.finish()
        except BaseException:
            spool.close()
            connection.close()
            raise
        return spool, row_count

    def _blocks(self, connection: SqlConnection, wanted: PieceWanted, encoder: RowEncoder) -> Iterator[CopiedBlock]:
        """Lines stay only where a row is still to be made of them."""
        piece = wanted.piece
        statement = copy_statement(piece.table, piece.condition)
        for lines in copied_blocks(connection, statement, piece.table, sys.maxsize):
            if lines:
                rows = encoder.block(lines).rows
                yield CopiedBlock(rows, [b"" if row else line for row, line in zip(rows, lines, strict=True)])

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
    socket = Connection(descriptor)
    worker = Worker(socket.recv())
    wanted: queue.SimpleQueue[PieceWanted] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(socket, wanted, worker), daemon=True).start()
    while True:
        _answer(socket, worker, wanted.get())


def _listen(socket: Connection, wanted: "queue.SimpleQueue[PieceWanted]", worker: Worker) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            wanted.put(socket.recv())
    worker.cancel()
    os._exit(0)


def _answer(socket: Connection, worker: Worker, wanted: PieceWanted) -> None:
    try:
        spool, row_count = worker.read(wanted)
    except Exception as error:  # told to the producer, which reads the piece itself
        socket.send(PieceFailed(_words(error)))
        return
    with contextlib.closing(spool):
        socket.send(PieceRead(row_count))
        send_handle(socket, spool.descriptor, 0)


def _words(error: Exception) -> str:
    """Without a value (I10): only our own words are known to have none."""
    if isinstance(error, WalbridgeError):
        return str(error)
    return f"{type(error).__name__}: {error.strerror}" if isinstance(error, OSError) else type(error).__name__


if __name__ == "__main__":
    main(int(sys.argv[1]))
