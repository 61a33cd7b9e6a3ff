"""Connections to Postgres with every setting pinned that changes bytes or ends sessions.

In: the DSN. Out: a SQL connection, or a walsender for the replication protocol. A walsender
applies role and database defaults (``ALTER ROLE .. SET datestyle``) to what pgoutput emits, so
the start-up ``options``, which win over those, pin them on both kinds: copy and stream must
print alike. Source: PostgreSQL ``libpqwalreceiver.c``, which pins them for the same reason.
"""

import select
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walbridge.producer.errors.remedies import BINARY_OFF
from walbridge.producer.postgres import certificates
from walbridge.producer.postgres.interruptible import hung_up_after
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.dsn import refuse_unclear_dsn, unreadable_dsn
from walbridge.schemas.errors import (
    KafkaRefuses,
    OperatorError,
    RetryableError,
    StreamLost,
    back_again,
)
from walbridge.schemas.told_ddl import DDL_PUBLICATION

T = TypeVar("T")
ANSWER_TIMEOUT_S = 60.0
_SLICE_S = 0.5
SqlConnection = psycopg.Connection[Any]


class TableLocked(RetryableError):
    """Another session has held a lock on the table for longer than we wait."""


class DdlPublicationMissing(RetryableError):
    """The publication that tells DDL was not there when a change was made, and sessions that ask for it end there."""


class NoAnswer(OperatorError):
    """At a start, for as long as was waited; any other OperatorError of a start is an answer."""


class BoundedConnection(SqlConnection):
    """A connection whose server must answer in time: keepalives only tell that its host lives."""

    answer_timeout_s: float | None = None
    """None: locks and large tables may take as long as they take."""
    should_stop: Callable[[], bool] | None = None
    """Once it is true, an answer is not waited for any more."""

    def execute(self, *arguments: Any, **named: Any) -> Any:
        """As psycopg's; ended by OperationalError when no answer comes."""
        with hung_up_after(self.pgconn.socket, self.answer_timeout_s, self.should_stop):
            return super().execute(*arguments, **named)


PINNED = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",  # then reg* types print their names qualified
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
PINNED_SINCE = {140000: {"idle_session_timeout": "0"}, 170000: {"transaction_timeout": "0"}}

# Retrying cannot mend these; the operator's remedy is the same for each of a class.
_DEFINITE = {
    "28": "check user and password in [postgres] dsn and the server's pg_hba.conf",
    "3D": "check the database name in [postgres] dsn",
    "42": "grant the role what it lacks: walbridge init --admin-dsn does, walbridge init --sql prints the SQL",
    "22": "a row filter of the publication fails on a row, or a value has no place in UTF-8: mend the filter or the "
    "row",
    "0A": "use a server with wal_level = logical that is not older than Postgres 12",
    "54": "a row, as text, is larger than the 1 GB that Postgres can send at a time (a bytea takes twice its size): "
    "take that row out of its table, or a large column out of what is published",
}
_NO_SUCH_NAME = "42704"
"""In a stream, of a publication: until Postgres 17 its name is looked up as of the change, whatever it is now."""
_PUBLICATIONS = "see that each publication is there under its name, renamed back or made again"
_MISSING = "start again: the start says what is missing from the publication or the database"
_BY_CODE = {
    _NO_SUCH_NAME: _MISSING,
    "42P01": _MISSING,
    "42703": _MISSING,
    "53400": "raise the limit that Postgres names; if it is max_replication_slots, raise that or drop one that nobody "
    "needs: walbridge check counts them",
}
"""Where the remedy of the class would be wrong."""
_TOO_LARGE = "invalid memory alloc request size"
"""Of a value, while a row becomes text; told as an internal error (XX000), which may be anything else, too."""
_OTHER_COLUMNS = "in different publications"
"""Of two errors of class 0A: publications of one table no longer agree, as after ADD COLUMN where one has a list."""
_START_POSTGRES = "start the server, or correct the address in [postgres] dsn; if it answered, its words above say why"
_NO_BINARY = "42883"
"""The server has no binary format for a type inside another. Told at start, unless a composite got it later."""
_LOCKED = "55P03"
_QUOTES_VALUES = ("22", "23")
"""Data and constraint errors: 'invalid input syntax for type integer: "..."' (I10)."""


def connect_sql(dsn: str, application: str = "walbridge", answer_timeout_s: float | None = None) -> BoundedConnection:
    """A connection for SQL, in autocommit mode.

    Raises:
        OperatorError: refused for a reason that stays (password, database, rights).
        RetryableError: the server is away.
    """
    try:
        connection = BoundedConnection.connect(_conninfo(dsn, application), autocommit=True)
        connection.answer_timeout_s = answer_timeout_s
        for name, value in _later_pins(connection.info.server_version).items():
            connection.execute(f"SET {name} = {value}".encode())
    except psycopg.Error as error:
        raise classified(error) from None
    return connection


def connect_walsender(dsn: str, application: str = "walbridge") -> pq.abc.PGconn:
    """A connection in replication mode: simple query protocol only.

    Raises:
        OperatorError, RetryableError: as ``connect_sql``.
    """
    try:
        pgconn = pq.PGconn.connect(_conninfo(dsn, application, replication="database").encode())
    except psycopg.Error as error:
        raise classified(error) from None
    if pgconn.status != pq.ConnStatus.OK:
        message = pgconn.get_error_message()
        pgconn.finish()
        raise _by_text(message)
    for name, value in _later_pins(pgconn.server_version).items():
        walsender_query(pgconn, f"SET {name} = {value}")
    return pgconn


def walsender_query(
    pgconn: pq.abc.PGconn, sql: str, should_stop: Callable[[], bool] | None = None
) -> list[dict[str, str | None]]:
    """Run one command on a walsender; its rows by column name.

    Args:
        should_stop: once it is true, the answer is not waited for any more.

    Raises:
        OperatorError, RetryableError: the server refused or went away.
    """
    with hung_up_after(pgconn.socket, ANSWER_TIMEOUT_S, should_stop):
        try:
            result = first_result(pgconn, sql)
            while pgconn.get_result() is not None:
                pass
        except psycopg.Error as error:  # no result at all: the connection is lost
            raise classified(error) from None
    raise_for_result(pgconn, result)
    assert result is not None
    return rows_of(result)


def first_result(pgconn: pq.abc.PGconn, sql: str) -> pq.abc.PGresult | None:
    """Of one command. While it is waited for, signals are received, which libpq's own wait would put off."""
    pgconn.send_query(sql.encode())
    while pgconn.is_busy():
        has_input(pgconn, _SLICE_S)
    return pgconn.get_result()


def rows_of(result: pq.abc.PGresult) -> list[dict[str, str | None]]:
    """A text result as dictionaries."""
    names = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
    return [
        {name: None if (value := result.get_value(row, i)) is None else value.decode() for i, name in enumerate(names)}
        for row in range(result.ntuples)
    ]


def has_input(pgconn: pq.abc.PGconn, timeout_s: float) -> bool:
    """Take in what the server has sent, after waiting for it so long; False if it has sent nothing."""
    if not select.select([pgconn.socket], [], [], timeout_s)[0]:
        return False
    pgconn.consume_input()
    return True


def raise_for_result(pgconn: pq.abc.PGconn, result: pq.abc.PGresult | None, *, is_stream: bool = False) -> None:
    """Raise what a failed result means.

    Args:
        is_stream: whether it ended a stream that had begun.
    """
    if result is None:
        raise RetryableError("Postgres closed the connection")
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
        error = by_sqlstate(sqlstate, message or pgconn.get_error_message())
        if is_stream and isinstance(error, OperatorError) and stays_in_wal(sqlstate, message):
            first = _PUBLICATIONS if sqlstate == _NO_SUCH_NAME else error.remedy
            raise StreamLost(f"a change in the WAL cannot be decoded: {error.what}", first=first)
        raise error


def classified(error: psycopg.Error) -> OperatorError | RetryableError:
    """What a psycopg error means for us."""
    if error.sqlstate is None:
        return _by_text(str(error))
    return by_sqlstate(error.sqlstate, error.diag.message_primary or str(error))


def by_sqlstate(sqlstate: str, message: str) -> OperatorError | RetryableError:
    """Sort a server error by who must act."""
    if sqlstate[:2] in _QUOTES_VALUES:
        message = _name_of(sqlstate)
    if sqlstate == _LOCKED:
        return TableLocked(f"Postgres ({sqlstate}): {message}")
    if sqlstate == _NO_SUCH_NAME and DDL_PUBLICATION in message:
        # It was taken away: the next session does not ask for it. Each language has quotation marks of its own.
        return DdlPublicationMissing(f"Postgres ({sqlstate}): {message}")
    remedy = _BY_CODE.get(sqlstate) or _DEFINITE.get(sqlstate[:2])
    if sqlstate == _NO_BINARY:
        remedy = f"start again, which names table and column if [postgres] binary = true is the cause; or {BINARY_OFF}"
    if sqlstate[:2] == "0A" and _OTHER_COLUMNS in message:
        remedy = "have those publications publish the same columns of the table"
    if _is_too_large(sqlstate, message):
        remedy = _DEFINITE["54"]
    if remedy is not None:
        return OperatorError(f"Postgres refused ({sqlstate}): {message}", remedy)
    return RetryableError(f"Postgres ({sqlstate or 'no SQLSTATE'}): {message}")


def stays_in_wal(sqlstate: str, message: str) -> bool:
    """Whether each session on this slot would end with this error: rows and publications are read as of the change."""
    is_other = sqlstate[:2] == "0A" and _OTHER_COLUMNS in message
    return sqlstate[:2] == "22" or sqlstate == _NO_SUCH_NAME or is_other or _is_too_large(sqlstate, message)


def _is_too_large(sqlstate: str, message: str) -> bool:
    return sqlstate[:2] == "54" or (sqlstate == "XX000" and _TOO_LARGE in message)


def _name_of(sqlstate: str) -> str:
    try:
        return psycopg.errors.lookup(sqlstate).__name__
    except KeyError:
        return "its words may quote a row"


def _by_text(message: str) -> OperatorError | RetryableError:
    # A failed connection attempt carries no SQLSTATE through libpq.
    first = message.strip().splitlines()[0] if message.strip() else "connection failed"
    if certificates.is_certificates(message):
        return OperatorError(f"Postgres and walbridge do not trust each other: {first}", certificates.REMEDY)
    for words, sqlstate in (
        ("password authentication failed", "28P01"),
        ("Ident authentication failed", "28000"),  # others, such as LDAP, fail also where their own server is away
        ("Peer authentication failed", "28000"),
        ("certificate authentication failed", "28000"),
        ("no password supplied", "28P01"),
        ("no pg_hba.conf entry", "28000"),
        ("is not permitted to log in", "28000"),
        ("permission denied", "42501"),
        ("must be superuser or replication role", "42501"),
    ):
        if words in message:
            return by_sqlstate(sqlstate, first)
    if "does not exist" in message and ("database" in message or "role" in message):
        return by_sqlstate("3D000" if "database" in message.split("FATAL")[-1] else "28000", first)
    return RetryableError(f"Postgres cannot be reached: {first}")


def parsed_dsn(dsn: str) -> dict[str, Any]:
    """Name → value, as libpq reads them.

    Raises:
        OperatorError: it is not a connection string.
    """
    # libpq's own words may quote a part of the password: that behind a blank, or before an @ (I10).
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise unreadable_dsn() from None
    refuse_unclear_dsn(dsn)
    return dict(given)


def _conninfo(dsn: str, application: str, **extra: str) -> str:
    given = parsed_dsn(dsn)
    pins = " ".join(f"-c {name}={value}" for name, value in PINNED.items())
    given["options"] = f"{given.get('options') or ''} {pins}".strip()
    defaults = {
        "connect_timeout": "10",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "tcp_user_timeout": "30000",
        "application_name": application,
    }
    return make_conninfo("", **(defaults | given | {"client_encoding": "UTF8"} | extra))


def _later_pins(server_version: int) -> dict[str, str]:
    return {n: v for since, pins in PINNED_SINCE.items() if server_version >= since for n, v in pins.items()}


def retry_at_start(
    attempt: Callable[[], T],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Try until it works; no answer within ``timeout_s`` at start is the operator's.

    Args:
        pause: sleeps between attempts; may raise to give up.

    Raises:
        NoAnswer: still unreachable.
        OperatorError: Kafka answers, but does not let us in.
    """
    deadline, due = clock() + timeout_s, BackOff(first_s=0.1, max_s=2.0)
    while True:
        try:
            return attempt()
        except RetryableError as error:
            if clock() + due.pause_s > deadline:
                remedy = back_again(error, _START_POSTGRES)
                if isinstance(error, KafkaRefuses):
                    raise OperatorError(str(error), remedy) from None
                raise NoAnswer(f"no answer within {timeout_s:g} s: {error}", remedy) from None
            pause(due.pause_s)
            due.grow()
