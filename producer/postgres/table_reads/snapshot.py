"""Rows of a table as an exported snapshot shows them.

In: a snapshot name and a published table. Out: lines of COPY's text format, many at a time; or the tuples that pgoutput
would send for them. COPY's text format is used because it prints with the types' own output functions, as the stream
does; casts to text do not (bool, char(n), inet).
Source: PostgreSQL manual, COPY, "Text Format"; tablesync.c for which rows and columns.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from psycopg import pq, sql

from walbridge.producer.pgoutput.copy_text import line_size, tuple_of_line
from walbridge.producer.postgres.connection import connect_sql, has_input
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.server_errors import classified, raise_for_result
from walbridge.schemas.errors import OperatorError, RetryableError

SILENT_S = 0.2
"""So long nothing comes before the reader is told."""
BLOCK_BYTES = 2**19


class Snapshot:
    """A read-only transaction on an exported snapshot. Use as a context manager."""

    def __init__(self, dsn: str, snapshot: str) -> None:
        self._connection: psycopg.Connection[Any] = connect_sql(dsn, "walbridge copy")
        try:
            begin_in(self._connection, snapshot)
        except RetryableError:
            self._connection.close()
            raise

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._connection.close()

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """For catalogue look-ups as of the snapshot."""
        return self._connection

    def lock(self, tables: Iterable[PublishedTable]) -> None:
        """Hold off ALTER, TRUNCATE and rewrites, which no snapshot hides, until the copy is done.

        Raises:
            OperatorError: the role may not read a table.
            RetryableError: one of them changed before the lock: only a newer snapshot will do.
        """
        for table in tables:
            lock(self._connection, table)
            refuse_renamed(self._connection, table)

    def export(self) -> str:
        """Its name, by which other connections see the same for as long as this one has its locks."""
        return export_snapshot(self._connection)

    def refuse_lost(self) -> None:
        """See that the connection, and with it every lock, is still there.

        Raises:
            RetryableError: it ended.
        """
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise classified(error) from None

    def blocks(self, table: PublishedTable, among: sql.Composable | None = None) -> Iterator[list[bytes]]:
        """Every published row of the table, as ``copied_blocks``.

        The server sends nothing, not even that the copy has begun, before it has filled a buffer with rows.

        Args:
            among: of those, the rows for which this holds; it calls the table ``t``.

        Raises:
            OperatorError: the role may not read it.
            RetryableError: the connection ended, or the rows may be another table's: none of them counts.
        """
        refuse_renamed(self._connection, table)
        yield from copied_blocks(self._connection, copy_statement(table, among), table, sys.maxsize)
        refuse_renamed(self._connection, table)


def export_snapshot(connection: psycopg.Connection[Any]) -> str:
    """The name of the snapshot of the transaction that is open, by which ``begin_in`` sees the same."""
    try:
        ((name,),) = connection.execute("SELECT pg_export_snapshot()").fetchall()
    except psycopg.Error as error:
        raise classified(error) from None
    return str(name)


def begin_in(connection: psycopg.Connection[Any], snapshot: str) -> None:
    """Begin a read-only transaction that sees what the exported snapshot shows.

    Raises:
        RetryableError: the connection that exported it ended, or this one.
    """
    try:
        connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        # With row security the copy would hold other rows than the stream, which ignores it.
        connection.execute("SET LOCAL row_security = off")
    except psycopg.Error:
        raise RetryableError("the slot's snapshot is gone: the connection that made it ended") from None


def lock(connection: psycopg.Connection[Any], table: PublishedTable) -> None:
    """ACCESS SHARE, of a partitioned root and of all below it, until the transaction ends.

    Raises:
        OperatorError: the role may not read it.
        RetryableError: it is gone since it was looked up; or ``TableLocked``.
    """
    name = sql.Identifier(table.namespace, table.name)
    only = sql.SQL("" if table.is_partitioned else "ONLY ")
    try:
        connection.execute(sql.SQL("LOCK TABLE {}{} IN ACCESS SHARE MODE").format(only, name))
    except psycopg.errors.InsufficientPrivilege:
        raise _unreadable(table) from None
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        raise RetryableError(f"table {table.qualified_name} is gone") from None
    except psycopg.Error as error:
        raise classified(error) from None


def refuse_renamed(connection: psycopg.Connection[Any], table: PublishedTable) -> None:
    """See that the table's name is still its own.

    LOCK and COPY find a table by its name, and renaming a schema waits for no lock of its tables. So this is asked
    before and after what was found by a name, on the same connection: to_regclass goes by the names of now, not by the
    snapshot's, and what a connection knows of them only grows newer.

    Source: PostgreSQL ``namespace.c``, ``RangeVarGetRelidExtended``.

    Raises:
        RetryableError: it is another table's, or nobody's; or the connection ended.
    """
    try:
        ((found,),) = connection.execute("SELECT to_regclass(%s)::oid", (table.quoted_name,)).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        found = None  # of the schema that has the name now
    except psycopg.Error as error:
        raise classified(error) from None
    if found != table.relation_id:
        raise another_table(table)


def another_table(table: PublishedTable) -> RetryableError:
    """Only a new look at the publication will do."""
    return RetryableError(f"table {table.qualified_name} is another one by now")


def copied(
    connection: psycopg.Connection[Any], statement: sql.Composed, table: PublishedTable
) -> Iterator[bytes | None]:
    """What this COPY of the table sends, as TupleData; None whenever nothing has come for SILENT_S."""
    column_count = len(table.column_names)
    for block in copied_blocks(connection, statement, table, sys.maxsize):
        yield from [tuple_of_line(line, column_count) for line in block] if block else [None]


def copied_blocks(
    connection: psycopg.Connection[Any], statement: sql.Composed, table: PublishedTable, bytes_max: int
) -> Iterator[list[bytes]]:
    """The same as lines of COPY's text format, many at a time: a call for each would cost as much as reading it.

    A block holds ``BLOCK_BYTES``, or what has come before a silence, which may be nothing. One ends where ``bytes_max``
    is reached: sizes are ``line_size``.
    """
    pgconn, head = connection.pgconn, line_size(b"", len(table.column_names))
    block, size, left = list[bytes](), 0, bytes_max
    try:
        for _ in _until_begun(connection, statement, table):
            yield []
        next_line, limit = pgconn.get_copy_data, min(BLOCK_BYTES, left)
        while True:
            count, line = next_line(1)
            if count > 0:
                block.append(bytes(line))
                size += head + count
                if size < limit:
                    continue
            elif count < 0:
                break
            elif has_input(pgconn, SILENT_S):
                continue
            yield block
            left -= size
            block, size, limit = [], 0, min(BLOCK_BYTES, left)
        while _refuse_failed(pgconn, table):
            pass
    except psycopg.Error as error:
        raise classified(error) from None
    if block:
        yield block


def _until_begun(connection: psycopg.Connection[Any], statement: sql.Composed, table: PublishedTable) -> Iterator[None]:
    """Ask for the copy; None after each silence, until rows may come."""
    pgconn = connection.pgconn
    pgconn.send_query(statement.as_bytes(connection))
    while pgconn.is_busy():
        if not has_input(pgconn, SILENT_S):
            yield None
    _refuse_failed(pgconn, table)


def _refuse_failed(pgconn: pq.abc.PGconn, table: PublishedTable) -> bool:
    """False where there is no result any more."""
    result = pgconn.get_result()
    if result is None:
        return False
    if result.error_field(pq.DiagnosticField.SQLSTATE) == b"42501":
        raise _unreadable(table)
    raise_for_result(pgconn, result)
    return True


def _unreadable(table: PublishedTable) -> OperatorError:
    name, schema = (
        sql.Identifier(*each).as_string(None) for each in ((table.namespace, table.name), (table.namespace,))
    )
    return OperatorError(
        f"the role may not read {table.qualified_name}",
        remedy=f"GRANT USAGE ON SCHEMA {schema} TO <role>; GRANT SELECT ON {name} TO <role>; (with row security also "
        "BYPASSRLS); walbridge init --admin-dsn grants both",
    )


def copy_statement(
    table: PublishedTable,
    among: sql.Composable | None = None,
    order_by: sql.Composable | None = None,
    rows_max: int | None = None,
    skipped: int = 0,
) -> sql.Composed:
    """``select_statement`` as COPY."""
    select = select_statement(table, among, order_by, rows_max, skipped)
    return sql.SQL("COPY ({}) TO STDOUT").format(select)


def select_statement(
    table: PublishedTable,
    among: sql.Composable | None = None,
    order_by: sql.Composable | None = None,
    rows_max: int | None = None,
    skipped: int = 0,
) -> sql.Composed:
    """What the publication publishes: ONLY for ordinary tables, whose children are members
    of their own; the whole tree for partitioned roots; row filter and column list applied.

    Args:
        among: a condition on the rows; it and ``order_by`` call the table ``t``.
    """
    conditions: list[sql.Composable] = [sql.SQL("({})").format(among)] if among else []
    if table.row_filter:
        conditions.append(sql.SQL(f"({table.row_filter})" if among else table.row_filter))  # the server's own text
    return sql.SQL("SELECT {} FROM {}{}{}{}{}{}{}").format(
        sql.SQL(", ").join(map(sql.Identifier, table.column_names)),
        sql.SQL("" if table.is_partitioned else "ONLY "),
        sql.Identifier(table.namespace, table.name),
        sql.SQL(" AS t" if among or order_by else ""),
        sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL(""),
        sql.SQL(" ORDER BY {}").format(order_by) if order_by else sql.SQL(""),
        sql.SQL("" if rows_max is None else f" LIMIT {rows_max:d}"),
        sql.SQL(f" OFFSET {skipped:d}" if skipped else ""),
    )
