"""Reads tables that are copied beside the stream, so that the stream never waits for a row.

In: questions. Out: answers, in the order of the questions (``copy_protocol.py``). The rows of a chunk are encoded and
go to disk (``row_spool.py``), so memory is bounded by a block of them. All rows of a table come in pieces, and no more
than READ_AHEAD_BYTES of them are held before they are given back.

A thread with a connection of its own. It shares nothing with the stream but two queues.
"""

import hashlib
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.encoding.copied_rows import RowEncoder
from walbridge.producer.errors import spool_unwritable
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import TableLocked, connect_sql
from walbridge.producer.postgres.publications.publication import publication_state
from walbridge.producer.postgres.table_reads.chunk_reader import ChunkReader, TableRead
from walbridge.producer.postgres.table_reads.copy_protocol import (
    Answer,
    ChunkAltered,
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
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.producer.postgres.table_reads.table_size import table_sizes
from walbridge.schemas.errors import RetryableError, WalbridgeError

READ_AHEAD_BYTES = 4 * 2**20
SWITCH_S = 0.0005
"""So long this thread may go on encoding rows while that of the stream wants to go on: a tenth of Python's own."""
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
    """

    def __init__(self, dsn: str, publications: catalog.Publications, folder: str) -> None:
        self._dsn, self._publications, self._folder = dsn, publications, folder
        self._wanted: queue.SimpleQueue[tuple[int, Wanted, _ReadAhead] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._number = 0
        self._ahead = _ReadAhead()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "CopyReader":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.let_go()
        self._wanted.put(None)
        if self._thread is not None:
            self._thread.join(_END_S)

    def ask(self, wanted: Wanted) -> None:
        """What was asked for before is let go. The thread begins with the first question."""
        self.let_go()
        self._ahead = _ReadAhead()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="copy reader", daemon=True)
            self._thread.start()
        self._wanted.put((self._number, wanted, self._ahead))

    def let_go(self) -> None:
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
        with ChunkReader(self._dsn) as reader:
            while (each := self._wanted.get()) is not None:
                number, wanted, ahead = each
                try:
                    for answer in self._answered(reader, number, wanted, ahead):
                        self._answers.put((number, answer))
                except BaseException as error:  # told to who asks
                    self._answers.put((number, Failed(error)))

    def _answered(self, reader: ChunkReader, number: int, wanted: Wanted, ahead: _ReadAhead) -> Iterator[Answer]:
        if number != self._number:
            return
        match wanted:
            case TablesWanted():
                with connect_sql(self._dsn, "walbridge copy") as connection:
                    found = catalog.published_tables_unless_locked(connection, self._publications)
                if found is None:
                    raise TableLocked("a published table is being altered")
                yield TablesFound(tuple(found))
            case TableWanted(table):
                with reader.read(table) as read:
                    yield self._described(read)
            case ChunkWanted(table):
                with reader.read(table) as read:
                    yield from self._chunk(read, number, wanted)
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
        return TableFound(table, facts, types, _shape(read), names, read.insert_lsn, size, member)

    def _whole(self, read: TableRead, number: int, wanted: WholeWanted, ahead: _ReadAhead) -> Iterator[Answer]:
        shown = _shown(read, wanted)
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
        yield WholeRead(read.insert_lsn)

    def _chunk(self, read: TableRead, number: int, wanted: ChunkWanted) -> Iterator[Answer]:
        shown = _shown(read, wanted)
        yield shown
        if not isinstance(shown, ChunkShown) or not shown.is_read:
            return
        key_range = read.range_after(wanted.after, wanted.rows_max, wanted.bytes_max) if wanted.asked is None else None
        blocks = read.listed_blocks(wanted.asked or ()) if key_range is None else key_range.blocks()
        row_count, size_bytes = 0, 0
        encoder = RowEncoder(wanted.row_format)
        try:
            spool = RowSpool(self._folder)
            for lines in blocks:
                if number != self._number:
                    spool.close()
                    return
                if lines:
                    spool.append(encoder.block(lines))
                    row_count, size_bytes = row_count + len(lines), size_bytes + sum(map(len, lines))
            spool.finish()
        except OSError as error:
            raise spool_unwritable(self._folder, error.strerror) from None
        bound = key_range.bound if key_range else None
        is_last = key_range is not None and key_range.is_end
        yield ChunkRead(spool, read.insert_lsn, row_count, size_bytes, bound, is_last)


def _shown(read: TableRead, wanted: ChunkWanted | WholeWanted) -> ChunkAltered | ChunkShown:
    """Whether the rows are those that were asked for."""
    if _shape(read) != wanted.shape:
        return ChunkAltered()
    snapshot, before = Snapshot.parse(read.snapshot), wanted.before
    return ChunkShown(snapshot, before.has_ended_in(snapshot) and before.is_contained_in(snapshot))


def _shape(read: TableRead) -> str:
    """What the copy of a table is of: its columns, its file and its key's order, whatever it is called."""
    storage = [(relation_id, *rest) for relation_id, _name, _schema, *rest in read.storage]
    return hashlib.blake2b(repr((storage, read.key)).encode(), digest_size=16).hexdigest()
