"""The rows of a table that come next in the order of its key, as many as are wanted.

In: a connection in a transaction that has the table's lock, and where to begin. Out: lines of COPY, and the key of the
last row, from which the next range goes on.
"""

import contextlib
import time
from collections.abc import Iterator

import psycopg
from psycopg import pq, sql

from walbridge.producer.pgoutput.copy_text import line_size, tuple_of_line
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.postgres.connection import SqlConnection, has_input
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.table_reads.key_order import Bound, KeyOrder, set_bound
from walbridge.producer.postgres.table_reads.snapshot import SILENT_S, copied_blocks, copy_statement

CANCEL_S = 5.0
# Statistics may be old, or none: a plan that sorts would read all that is left of the table for every range.
_BY_INDEX = "; ".join(
    f"SET LOCAL {name} = {value}"
    for name, value in {
        "enable_sort": "off",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
    }.items()
)
_RANGE = "range_of_rows"
"""The savepoint before a range: one that ends by its bytes is cancelled, and its transaction goes on."""


def read_by_index(connection: SqlConnection) -> None:
    """What this transaction selects from here on it reads in the order of an index, without a sort."""
    _execute(connection, _BY_INDEX)


class KeyRange:
    """Rows in the key's order, to be iterated once: TupleData, and None after each silence; or ``blocks`` of lines.

    It ends after ``rows_max`` rows, after the row with which ``bytes_max`` is reached, or with the table. Who
    stops before that has read everything up to ``bound`` too.

    Attributes:
        is_end: no row of the table follows.
    """

    def __init__(
        self,
        connection: SqlConnection,
        table: PublishedTable,
        key: KeyOrder,
        after: Bound | None,
        rows_max: int,
        bytes_max: int,
    ) -> None:
        self._connection, self._table, self._key, self._after = connection, table, key, after
        self._rows_left, self._bytes_left = rows_max, bytes_max
        self._last: bytes | None = None
        self.is_end = False

    def __iter__(self) -> Iterator[bytes | None]:
        column_count = len(self._table.column_names)
        for block in self.blocks():
            if not block:
                yield None
            for line in block:
                self._last = line
                yield tuple_of_line(line, column_count)

    def blocks(self) -> Iterator[list[bytes]]:
        """Lines of COPY's text format, none after a silence. The transaction has its lock and its snapshot behind them,
        unless the server takes longer than ``CANCEL_S`` to end what is cancelled."""
        if self._after is not None:
            set_bound(self._connection, self._table, self._key, self._after)
        _execute(self._connection, f"{_BY_INDEX}; SAVEPOINT {_RANGE}")
        for condition in [None] if self._after is None else self._key.ranges_after():
            yield from self._blocks_of(condition)
            if self._is_full:
                break
        else:
            self.is_end = True
        if self._connection.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            _execute(self._connection, f"ROLLBACK TO SAVEPOINT {_RANGE}; RELEASE SAVEPOINT {_RANGE}")

    @property
    def bound(self) -> Bound | None:
        """The key of the last row: where the next range goes on. None where there was no row at all."""
        if self._last is None:
            return self._after
        names = self._table.column_names
        values = dict(zip(names, decode_tuple(tuple_of_line(self._last, len(names))), strict=True))
        return Bound.of(values[name] for name in self._key.names)

    @property
    def _is_full(self) -> bool:
        return self._rows_left <= 0 or self._bytes_left <= 0

    def _blocks_of(self, condition: sql.Composed | None) -> Iterator[list[bytes]]:
        statement = copy_statement(self._table, condition, self._key.order_by, self._rows_left)
        head = line_size(b"", len(self._table.column_names))
        for block in copied_blocks(self._connection, statement, self._table, self._bytes_left):
            if block:
                self._last = block[-1]
                self._rows_left -= len(block)
                self._bytes_left -= head * len(block) + sum(map(len, block))
            yield block
            if self._bytes_left <= 0 < self._rows_left:
                _cancel(self._connection)
                return


def _execute(connection: SqlConnection, statement: str) -> None:
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        raise classified(error) from None


def _cancel(connection: SqlConnection) -> None:
    """End the COPY that runs, and with it what came since the savepoint. What the server sends after ``CANCEL_S``
    nobody reads: a connection that is not idle then is closed by ``ChunkReader.read``."""
    pgconn, deadline = connection.pgconn, time.monotonic() + CANCEL_S
    with contextlib.suppress(psycopg.Error):
        connection.cancel_safe(timeout=CANCEL_S)
        while (count := pgconn.get_copy_data(1)[0]) >= 0 and time.monotonic() < deadline:
            if count == 0:
                has_input(pgconn, SILENT_S)
        while count < 0 and pgconn.get_result() is not None:
            pass  # it says that it was cancelled
