"""A connection to the source whose session prints values in one way only, and what its refusals mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from walbridge.schemas.dsn import refuse_unclear_dsn, unreadable_dsn
from walbridge.schemas.errors import LOCKED, WAIT_FOR_LOCK, OperatorError
from walbridge.verify.errors import TableNotCompared

Connection: TypeAlias = "psycopg.Connection[dict[str, Any]]"
LOCKED_S = 10
"""So long a table that is being altered is waited for, which may take hours."""
# What a value's text depends on; row_security would hide rows that the WAL shows.
_SESSION = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",
    "quote_all_identifiers": "off",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": f"{LOCKED_S}s",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
}
_SESSION_SINCE = {140000: {"idle_session_timeout": "0"}, 170000: {"transaction_timeout": "0"}}
_READABLE = (
    "verify needs the primary, and a role with SELECT on every published table (and BYPASSRLS where row security is"
    " on); if a table was just altered, or the server went away, run walbridge verify again"
)
_QUOTES_VALUES = ("22", "23")
"""Data and constraint errors."""


@contextmanager
def connected(dsn: str, timeout_s: int) -> Iterator[Connection]:
    """A connection whose session prints values in one way only.

    Raises:
        OperatorError: no connection, or a statement that the server refuses.
    """
    try:
        with _connect(dsn, timeout_s) as connection:
            _pin(connection)
            yield connection
    except psycopg.Error as error:
        raise OperatorError(_could_not_be_read(error), remedy=_remedy(error)) from error


@contextmanager
def blaming_table(connection: Connection) -> Iterator[None]:
    """A block in which an error of a server that still answers is blamed on the table that is read.

    Raises:
        TableNotCompared: there was such an error.
    """
    try:
        yield
    except psycopg.Error as error:
        if connection.closed:
            raise
        raise TableNotCompared(_could_not_be_read(error), remedy=_remedy(error)) from error


def _connect(dsn: str, timeout_s: int) -> Connection:
    refuse_unclear_dsn(dsn)
    try:
        return psycopg.connect(
            dsn, autocommit=True, row_factory=dict_row, client_encoding="UTF8", connect_timeout=timeout_s
        )
    except psycopg.OperationalError as error:
        raise OperatorError(
            f"no connection to Postgres: {_reason(error)}",
            remedy="see that [postgres] dsn names the source's primary and a role that may connect",
        ) from error
    except psycopg.Error:  # its message may quote the connection string (I10)
        raise unreadable_dsn() from None


def _pin(connection: Connection) -> None:
    """In one statement: between two the server may end a session that it lets idle for too short."""
    since = [pins for first, pins in _SESSION_SINCE.items() if connection.info.server_version >= first]
    pins = [pin for each in (_SESSION, *since) for pin in each.items()]
    call = sql.SQL("set_config(%s, %s, false)")
    connection.execute(
        sql.SQL("SELECT {}").format(sql.SQL(", ").join([call] * len(pins))), [part for pin in pins for part in pin]
    )


def _could_not_be_read(error: psycopg.Error) -> str:
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return f"{LOCKED}: waited for {LOCKED_S} s"
    return f"Postgres could not be read: {_reason(error)}"


def _remedy(error: psycopg.Error) -> str:
    is_locked = isinstance(error, psycopg.errors.LockNotAvailable)
    return f"{WAIT_FOR_LOCK}; then run walbridge verify again" if is_locked else _READABLE


def _reason(error: psycopg.Error) -> str:
    """The server's message but for what may hold row values (I10): its detail, and all that a data error says."""
    if error.sqlstate is not None and error.sqlstate[:2] in _QUOTES_VALUES:
        return type(error).__name__
    lines = (error.diag.message_primary or str(error)).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
