"""One read of a table while its changes go on: a snapshot, what the table is as of it, and rows.

    BEGIN ──▶ ACCESS SHARE lock ──▶ snapshot, WAL insert position, shape of the table ──▶ rows ──▶ COMMIT

In: a published table. Out: the snapshot's text, by which a transaction of the stream is told to be in the
rows or not; and rows as TupleData: those of a range of the key's order, those of listed keys, or all.

- The lock comes first. No snapshot hides TRUNCATE or a rewrite: one that ends before the lock leaves an
  empty table to an older snapshot, one that comes after it waits. The statements before the first query
  take no snapshot. The lock is waited for briefly: who stands in the queue behind an ALTER for long,
  stands there with everybody who comes after it.
- The WAL insert position is asked for by the statement that takes the snapshot. A commit record is in the
  WAL before any snapshot shows its transaction, so all that the rows show is below this position.
- A range is read through the key's index, from where the last one ended: rows are never sorted, and what was
  read before is not read again. A partitioned root is one range too: its leaves' indexes are merged, so
  the bound is a key and no leaf, and partitions may come and go between two reads.

Source: PostgreSQL manual, "Caveats" of "Concurrency Control", and LOCK, on locks before the first query.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import pq, sql

from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.storage.table_files import labels_within
from walbridge.producer.postgres.table_reads.key_order import Bound, KeyOrder, key_order, set_bound, set_listed
from walbridge.producer.postgres.table_reads.key_range import KeyRange, read_by_index
from walbridge.producer.postgres.table_reads.snapshot import (
    another_table,
    copied,
    copied_blocks,
    copy_statement,
    export_snapshot,
    lock,
    refuse_renamed,
    select_statement,
)
from walbridge.schemas.position import Lsn, parse_lsn

LOCK_WAIT_S = 1.0
LISTED_MAX = 1000
"""Keys of one statement."""

# With row security the copy would hold other rows than the stream, which ignores it.
_BEGIN = (
    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off; "
    f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000:.0f}"
)
_AS_OF = """
    SELECT txid_current_snapshot()::text, pg_current_wal_insert_lsn()::text,
           (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relname = %s)"""


class ChunkReader:
    """A connection on which one read follows another. Use as a context manager."""

    def __init__(self, dsn: str, application: str = "walbridge copy") -> None:
        self._dsn = dsn
        self._application = application
        self._connection: SqlConnection | None = None

    def __enter__(self) -> "ChunkReader":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a later read makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def read(self, table: PublishedTable) -> Iterator["TableRead"]:
        """One read. The transaction ends with the block; a connection that still sends rows then ends too.

        Raises:
            OperatorError: the role may not read the table, or not connect.
            TableLocked: somebody alters it: ask again later.
            RetryableError: the table is gone or another one by now, or the connection ended.
        """
        connection = self._connected()
        try:
            connection.execute(_BEGIN)
            lock(connection, table)
            yield TableRead(connection, table)
            if connection.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
                connection.execute("COMMIT")
        except psycopg.Error as error:
            raise classified(error) from None
        finally:
            self._end_transaction(connection)

    def _connected(self) -> SqlConnection:
        if self._connection is None or self._connection.closed:
            self._connection = connect_sql(self._dsn, self._application)
        return self._connection

    def _end_transaction(self, connection: SqlConnection) -> None:
        """What an error or a reader that went away has left behind."""
        status = connection.pgconn.transaction_status
        if status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            self.close()


class TableRead:
    """A table as one snapshot shows it. Reads follow one another, each to its end.

    Attributes:
        snapshot: ``xmin:xmax:xip,…`` with 64-bit ids of transactions.
        insert_lsn: all that the snapshot shows is below it.
        storage: ``catalog.storage_of``: compared with that of another read, it tells whether the table was altered,
            truncated or rewritten, or its primary key replaced.
        key: its order, to be compared too; None: no range of it can be read, nor listed keys.
    """

    def __init__(self, connection: SqlConnection, table: PublishedTable) -> None:
        self._connection, self.table = connection, table
        ((self.snapshot, insert_lsn, relation_id),) = connection.execute(
            _AS_OF.encode(), (table.namespace, table.name)
        ).fetchall()
        if relation_id != table.relation_id:
            raise another_table(table)
        self.insert_lsn: Lsn = parse_lsn(insert_lsn)
        self.storage: list[tuple[Any, ...]] = catalog.storage_of(connection, [table.relation_id])
        self.key: KeyOrder | None = key_order(connection, table.relation_id, table.column_names)

    @property
    def connection(self) -> SqlConnection:
        """For look-ups as of the snapshot, between two reads of rows."""
        return self._connection

    def labels(self) -> frozenset[str]:
        """``TableStorage.labels`` as of the snapshot."""
        return labels_within(self._connection, self.table.relation_id)

    def export(self) -> str:
        """The snapshot's name, by which other connections see the same for as long as this read has its lock."""
        return export_snapshot(self._connection)

    def refuse_lost(self) -> None:
        """Raises RetryableError where the connection ended, and with it the lock; or where what was read by the table's
        name may be another one's. To be asked after the last row that counts."""
        if self._connection.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            refuse_renamed(self._connection, self.table)

    def range_after(self, after: Bound | None, rows_max: int, bytes_max: int) -> KeyRange:
        """The next rows in the key's order; from the first one where ``after`` is None."""
        return KeyRange(self._connection, self.table, self._key(), after, rows_max, bytes_max)

    def bounds_after(self, after: Bound | None, counts: Sequence[int]) -> list[Bound]:
        """The keys of the rows that are so many after a key, in the key's order; of those that the table has."""
        key, bounds = self._key(), list[Bound]()
        read_by_index(self._connection)
        if after is not None:
            set_bound(self._connection, self.table, key, after)
        conditions: list[sql.Composed | None] = [None] if after is None else list(key.ranges_after())
        before = 0
        for condition in conditions:
            while len(bounds) < len(counts):
                found = self._key_at(condition, counts[len(bounds)] - before)
                if found is None:
                    break
                bounds.append(found)
            if len(bounds) == len(counts) or condition is conditions[-1]:
                break
            before += self._count(condition, counts[len(bounds)] - before)
        return bounds

    def _key_at(self, condition: sql.Composed | None, number: int) -> Bound | None:
        """Of the row of this number, from 1 on."""
        key = self._key()
        keys = replace(self.table, column_names=key.names)
        statement = copy_statement(keys, condition, key.order_by, 1, number - 1)
        rows = [row for row in copied(self._connection, statement, keys) if row is not None]
        return Bound.of(decode_tuple(rows[0])) if rows else None

    def _count(self, condition: sql.Composed | None, rows_max: int) -> int:
        rows = select_statement(replace(self.table, column_names=()), condition, None, rows_max)
        counted = sql.SQL("SELECT count(*) FROM ({}) rows").format(rows)
        try:
            ((count,),) = self._connection.execute(counted).fetchall()
        except psycopg.Error as error:
            raise classified(error) from None
        return int(count)

    def listed(self, keys: Sequence[Bound]) -> Iterator[bytes | None]:
        """``listed_blocks`` as TupleData; None after each silence."""
        column_count = len(self.table.column_names)
        for block in self.listed_blocks(keys):
            yield from [tuple_of_line(line, column_count) for line in block] if block else [None]

    def listed_blocks(self, keys: Sequence[Bound]) -> Iterator[list[bytes]]:
        """The rows of these keys, in no order; of keys that the table lacks none. Lines, none after each silence.

        Keys are equal as the index compares them. Of several that are equal, in that sense, the row may come twice.
        """
        condition = self._key().is_listed()
        read_by_index(self._connection)
        for first in range(0, len(keys), LISTED_MAX):
            set_listed(self._connection, keys[first : first + LISTED_MAX])
            yield from copied_blocks(self._connection, copy_statement(self.table, condition), self.table, sys.maxsize)

    def whole(self) -> Iterator[bytes | None]:
        """Every row, in no order; None after each silence. The snapshot holds vacuum back until it is read."""
        return copied(self._connection, copy_statement(self.table), self.table)

    def _key(self) -> KeyOrder:
        if self.key is None:
            raise ValueError(f"table {self.table.qualified_name} has no key to read it by")
        return self.key
