"""Connections to Postgres with every setting pinned that changes bytes or ends sessions.

In: the DSN. Out: a SQL connection, or a walsender for the replication protocol. A walsender
applies role and database defaults (``ALTER ROLE .. SET datestyle``) to what pgoutput emits, so
the start-up ``options``, which win over those, pin them on both kinds: copy and stream must
print alike. They are set once more as soon as there is a session: libpq sends ``PGDATESTYLE`` and
``PGTZ`` beside the options, and the server takes these instead; and a login trigger, which a walsender
runs as well, sets what it likes. Source: PostgreSQL ``libpqwalreceiver.c``, which pins them for the same
reason, ``postgres.c``, PostgresMain.
"""

import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walbridge.producer.postgres.interruptible import hung_up_after
from walbridge.producer.postgres.server_errors import by_text, classified, raise_for_result
from walbridge.runtime.back_off import BackOff
from walbridge.schemas.dsn import refuse_unclear_dsn, unreadable_dsn
from walbridge.schemas.errors import (
    KafkaRefuses,
    OperatorError,
    RetryableError,
    back_again,
)

T = TypeVar("T")
ANSWER_TIMEOUT_S = 60.0
_SLICE_S = 0.5
_CRASH = "57P02"
_CRASH_TOLD_S = 1.0
"""Told within milliseconds, to sessions that are idle; one that works, or a walsender, may just be closed."""
SqlConnection = psycopg.Connection[Any]


class NoAnswer(OperatorError):
    """No answer within the time limit of a start. Any other OperatorError of a start is an answer of the server."""


class BoundedConnection(SqlConnection):
    """A connection whose server must answer in time: keepalives only tell that its host lives."""

    answer_timeout_s: float | None = None
    """None: locks and large tables may take as long as they take."""
    should_stop: Callable[[], bool] | None = None
    """Once it is true, an answer is not waited for any more."""
    _is_told_of_crash = False

    def execute(self, *arguments: Any, **named: Any) -> Any:
        """As psycopg's; ended by OperationalError when no answer comes."""
        with hung_up_after(self.pgconn.socket, self.answer_timeout_s, self.should_stop):
            return super().execute(*arguments, **named)

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """What the server says beside its answers."""
        self._is_told_of_crash = self._is_told_of_crash or notice.sqlstate == _CRASH

    def is_told_of_crash(self, within_s: float = _CRASH_TOLD_S) -> bool:
        """Whether the server has ended this session since a process of its own crashed: told to each that is idle."""
        if self.pgconn.status == pq.ConnStatus.OK:
            with suppress(psycopg.Error):
                has_input(self.pgconn, within_s)
        self.pgconn.is_busy()  # looks through what came
        return self._is_told_of_crash


PINNED = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",  # then reg* types print their names qualified
    "quote_all_identifiers": "off",
    "client_min_messages": "warning",  # which is how the server tells of a crash
    "array_nulls": "on",  # a key is read back as it was printed
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",  # a standby refuses whatever is asked as serializable
}
PINNED_SINCE = {140000: {"idle_session_timeout": "0"}, 170000: {"transaction_timeout": "0"}}

_START_POSTGRES = "start the server, or correct the address in [postgres] dsn; if it answered, its words above say why"


def connect_sql(dsn: str, application: str = "walbridge", answer_timeout_s: float | None = None) -> BoundedConnection:
    """A connection for SQL, in autocommit mode.

    Raises:
        OperatorError: refused for a reason that stays (password, database, rights).
        RetryableError: the server is away.
    """
    try:
        connection = BoundedConnection.connect(_conninfo(dsn, application), autocommit=True)
        connection.answer_timeout_s = answer_timeout_s
        connection.add_notice_handler(connection.note)
        connection.execute(_pinning(connection.info.server_version).encode())
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
        raise by_text(message)
    walsender_query(pgconn, _pinning(pgconn.server_version))
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
    """The first result of a command. Signals are handled while it waits; libpq's own wait would delay them."""
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


def parsed_dsn(dsn: str, named: str = "[postgres] dsn") -> dict[str, Any]:
    """Name → value, as libpq reads them. ``named``: the setting or option that holds it.

    Raises:
        OperatorError: it is not a connection string.
    """
    # libpq's own words may quote a part of the password: that after a blank, or before an @ (I10).
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise unreadable_dsn(named) from None
    refuse_unclear_dsn(dsn, named)
    return dict(given)


def _conninfo(dsn: str, application: str, **extra: str) -> str:
    given, escaped = parsed_dsn(dsn), r"\ "
    pins = " ".join(f"-c {name}={value.replace(' ', escaped)}" for name, value in PINNED.items())
    given["options"] = f"{given.get('options') or ''} {pins}".strip()
    defaults = {
        "connect_timeout": "10",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "tcp_user_timeout": "30000",
        "application_name": application,
    }
    return make_conninfo("", **(defaults | given | {"client_encoding": "UTF8"} | extra))


def _pinning(server_version: int) -> str:
    """SQL that pins all in one statement, since an older walsender takes no second one in a query."""
    since = {
        name: value for first, pins in PINNED_SINCE.items() if server_version >= first for name, value in pins.items()
    }
    pins = PINNED | since | {"client_encoding": "UTF8"}
    return "SELECT " + ", ".join(f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in pins.items())


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
