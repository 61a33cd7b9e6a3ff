"""What an error of the server means: who must act, and what mends it.

In: an SQLSTATE and the server's words, or words alone where an attempt to connect failed. Out: an ``OperatorError``
where another attempt would end alike, else a ``RetryableError``; without words that may quote a row (I10).
"""

import re

import psycopg
from psycopg import pq

from walbridge.producer.errors.remedies import BINARY_OFF
from walbridge.producer.postgres import certificates
from walbridge.schemas.ddl_row import DDL_PUBLICATION
from walbridge.schemas.errors import (
    NoConnectionLeft,
    OperatorError,
    RetryableError,
    ServerFault,
    StreamLost,
    TableLocked,
)


class DdlPublicationMissing(RetryableError):
    """The publication that tells DDL was not there when a change was made, and sessions that ask for it end there."""


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
_DAMAGED = (
    "the server's files are damaged: pg_amcheck says where; REINDEX mends an index, a backup the rows; until then the "
    "table may be taken out of the publication"
)
_BY_CODE = {
    _NO_SUCH_NAME: _MISSING,
    "42P01": _MISSING,
    "42703": _MISSING,
    "53400": "raise the limit that Postgres names; if it is max_replication_slots, raise that or drop one that nobody "
    "needs: walbridge check counts them",
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}
"""Where the remedy of the class would be wrong."""
_INTERNAL = "XX000"
_TOO_LARGE = "invalid memory alloc request size"
"""Of a value, while a row becomes text; told as an internal error (XX000), which may be anything else, too."""
_UNMAPPED = ("could not map filen", "unexpected duplicate for tablespace")
"""Of a change in the WAL whose file Postgres knows of no table as of then, or of two (XX000), by a fault of its own:
reorderbuffer.c, ReorderBufferProcessTXN, in 12 to 18, and relfilenumbermap.c, RelidByRelfilenumber: among others where
DDL follows DDL that was rolled back to a savepoint. Words of internal errors are in no language but this."""
_OF_FILES = ("58P01", "XX001")
_WAL_SEGMENT = re.compile(r"\b[0-9A-F]{24}\b")
_DAMAGED_WAL = "could not find record while sending logically-decoded data"
"""Of WAL that is there and holds no record where one must be (XX000): walsender.c, XLogSendLogical, from 15 on."""
_BRING_BACK = "bring it back into pg_wal as it was, such as from the archive, then start again"
_UNSUPPORTED = "0A"
"""In a stream, of two errors alone: publications of one table do not agree, as after ADD COLUMN where one has a list.
They are not told by their words, which are in the language of lc_messages, and that only a superuser may set."""
_SAME_COLUMNS = "have those publications publish the same columns of the table"
_NO_BINARY = "42883"
"""The server has no binary format for a type inside another. Told at start, unless a composite got it later."""
_LOCKED = "55P03"
_NO_LOGIN = re.compile(r'role (".*") is not permitted to log in')
_NO_CONNECTION = "53300"
_TOO_MANY = (
    "too many clients",
    "too many connections for",
    "remaining connection slots",
    "number of requested standby connections exceeds",
)
_NO_POOLER = (
    "name the server itself in [postgres] dsn, with its own port: a pooler such as PgBouncer stands between, and does "
    "not pass on what sessions are opened with"
)
_UNFIT_DSN = re.compile(
    r'(invalid integer value ".*" for connection option|invalid port number:|invalid \w+ value:|bad value for \w+:'
    r'|(definition of service|service file) ".*" not found|could not match \d+ (port numbers|host names)).*'
)
"""libpq's own words, and psycopg's, of a connection string with which no server is even asked."""
_QUOTES_VALUES = ("22", "23")
"""Data and constraint errors: 'invalid input syntax for type integer: "..."' (I10)."""


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
        error = by_sqlstate(sqlstate, message or pgconn.get_error_message(), is_stream=is_stream)
        if is_stream and isinstance(error, OperatorError) and stays_in_wal(sqlstate, message):
            first = _PUBLICATIONS if sqlstate == _NO_SUCH_NAME else error.remedy
            raise StreamLost(f"a change in the WAL cannot be decoded: {error.what}", first=first)
        if is_stream and sqlstate == _INTERNAL and message.startswith(_UNMAPPED):
            raise StreamLost(f"a change in the WAL cannot be decoded: {error}")
        if is_stream and _is_of_lost_wal(sqlstate, message):
            raise StreamLost(f"WAL that the slot needs is gone or damaged: {message}", instead=_BRING_BACK)
        raise error


def classified(error: psycopg.Error) -> OperatorError | RetryableError:
    """What a psycopg error means for us."""
    if error.sqlstate is None:
        return by_text(str(error))
    return by_sqlstate(error.sqlstate, error.diag.message_primary or str(error))


def by_sqlstate(sqlstate: str, message: str, *, is_stream: bool = False) -> OperatorError | RetryableError:
    """Sort a server error by who must act. ``is_stream``: it ended a stream that had begun."""
    if sqlstate[:2] in _QUOTES_VALUES:
        message = _name_of(sqlstate)
    if sqlstate == _NO_CONNECTION:
        return NoConnectionLeft(f"Postgres takes no more connections ({sqlstate}): {message}")
    if sqlstate == _LOCKED:
        return TableLocked(f"Postgres ({sqlstate}): {message}")
    if sqlstate == _NO_SUCH_NAME and DDL_PUBLICATION in message:
        # It was taken away: the next session does not ask for it. Each language has quotation marks of its own.
        return DdlPublicationMissing(f"Postgres ({sqlstate}): {message}")
    remedy = _BY_CODE.get(sqlstate) or _DEFINITE.get(sqlstate[:2])
    if sqlstate == _NO_BINARY:
        remedy = f"start again, which names table and column if [postgres] binary = true is the cause; or {BINARY_OFF}"
    if is_stream and sqlstate[:2] == _UNSUPPORTED:
        remedy = _SAME_COLUMNS
    if _is_too_large(sqlstate, message):
        remedy = _DEFINITE["54"]
    if remedy is not None:
        return OperatorError(f"Postgres refused ({sqlstate}): {message}", remedy)
    if sqlstate == _INTERNAL:
        return ServerFault(f"Postgres ({sqlstate}): {message}")
    return RetryableError(f"Postgres ({sqlstate or 'no SQLSTATE'}): {message}")


def stays_in_wal(sqlstate: str, message: str) -> bool:
    """Whether each session on this slot would end with this error: rows and publications are read as of the change."""
    return sqlstate[:2] in ("22", _UNSUPPORTED) or sqlstate == _NO_SUCH_NAME or _is_too_large(sqlstate, message)


def _is_of_lost_wal(sqlstate: str, message: str) -> bool:
    """Whether somebody removed or damaged WAL: a slot keeps it from the server alone, and does not tell that it is
    gone. Words are in any language, so a segment is known by its name."""
    if sqlstate == _INTERNAL:
        return message.startswith(_DAMAGED_WAL)
    return sqlstate in _OF_FILES and _WAL_SEGMENT.search(message) is not None


def _is_too_large(sqlstate: str, message: str) -> bool:
    return sqlstate[:2] == "54" or (sqlstate == _INTERNAL and _TOO_LARGE in message)


def _name_of(sqlstate: str) -> str:
    try:
        return psycopg.errors.lookup(sqlstate).__name__
    except KeyError:
        return "its words may quote a row"


def by_text(message: str) -> OperatorError | RetryableError:
    """Sort the error of a failed attempt to connect, for which libpq has no SQLSTATE, by its words."""
    first = message.strip().splitlines()[0] if message.strip() else "connection failed"
    if unfit := _UNFIT_DSN.search(first):
        return OperatorError(
            f"[postgres] dsn cannot be used: {unfit[0]}",
            "correct that in [postgres] dsn, in the service that it names, or in a variable PG… of this environment",
        )
    if "unsupported startup parameter" in message:
        return OperatorError(f"no replication through what answers there: {first}", _NO_POOLER)
    if barred := _NO_LOGIN.search(message):
        return OperatorError(f"Postgres refused (28000): {first}", f"ALTER ROLE {barred[1]} LOGIN; as an administrator")
    if certificates.is_certificates(message):
        return OperatorError(f"Postgres and walbridge do not trust each other: {first}", certificates.REMEDY)
    for words, sqlstate in (
        ("password authentication failed", "28P01"),
        ("Ident authentication failed", "28000"),  # others, such as LDAP, fail also where their own server is away
        ("Peer authentication failed", "28000"),
        ("certificate authentication failed", "28000"),
        ("no password supplied", "28P01"),
        ("no pg_hba.conf entry", "28000"),
        ("permission denied", "42501"),
        ("must be superuser or replication role", "42501"),
    ):
        if words in message:
            return by_sqlstate(sqlstate, first)
    if any(words in message for words in _TOO_MANY):
        return NoConnectionLeft(f"Postgres takes no more connections: {first}")
    if "does not exist" in message and ("database" in message or "role" in message):
        return by_sqlstate("3D000" if "database" in message.split("FATAL")[-1] else "28000", first)
    return RetryableError(f"Postgres cannot be reached: {first}")
