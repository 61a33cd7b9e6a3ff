"""The administrator's connection: to the pipeline's server and database, with one transaction for all that is changed.

In: two connection strings, and who asks a person for a password. Out: a connection, or why it may not be.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from walbridge.producer.postgres.connection import SqlConnection, connect_sql, parsed_dsn, retry_at_start
from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.dsn import SECRETS, with_password
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

_PLACE = ("host", "hostaddr", "port")
_ALSO_THERE = (
    *("dbname", "target_session_attrs", "load_balance_hosts", "requirepeer", "require_auth", "channel_binding"),
    *("sslmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "sslcompression", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "min_protocol_version", "max_protocol_version"),
    *("gssencmode", "krbsrvname", "gsslib"),
)
"""What the server is, and what is asked of it; not who asks: user, password, client certificate, session."""


@contextmanager
def changing(
    settings: Settings, theirs: str, ours: dict[str, Any], say: Callable[[str], None], ask: Callable[[], str] | None
) -> Iterator[tuple[SqlConnection, Callable[[str], None]]]:
    """One transaction of the administrator. Lines told inside it are printed once it has committed."""
    lines = list[str]()
    with _connected(theirs, settings.postgres.start_timeout_s, ask) as connection:
        _refuse_other_database(connection.info.dbname, ours)
        try:
            with connection.transaction():
                yield connection, lines.append
        except psycopg.Error as error:
            raise _refused(connection, error) from None
    for line in lines:
        say(line)


def administrators_dsn(admin_dsn: str, ours: dict[str, Any]) -> str:
    """Server, database and certificates are the pipeline's, where it does not say otherwise."""
    given = parsed_dsn(admin_dsn, "--admin-dsn")
    if SECRETS & given.keys():
        raise OperatorError(
            "--admin-dsn holds a password, which every user of this machine can see among the arguments",
            remedy="leave it out of --admin-dsn: walbridge init asks for it in a terminal, and elsewhere takes it from "
            "PGPASSWORD or ~/.pgpass",
        )
    taken = _ALSO_THERE if {*_PLACE, "service"} & given.keys() else (*_PLACE, *_ALSO_THERE)
    return make_conninfo("", **({name: ours[name] for name in taken if name in ours} | given))


def _connected(dsn: str, timeout_s: float, ask: Callable[[], str] | None) -> SqlConnection:
    def connect(with_it: str) -> SqlConnection:
        return retry_at_start(lambda: connect_sql(with_it, "walbridge init"), timeout_s)

    try:
        try:
            return connect(dsn)
        except OperatorError as error:
            if ask is None or "no password supplied" not in error.what:
                raise
        return connect(with_password(dsn, ask()))
    except OperatorError as error:
        what, remedy = (text.replace("[postgres] dsn", "--admin-dsn") for text in (error.what, error.remedy))
        raise OperatorError(what, remedy) from None


def _refuse_other_database(database: str, ours: dict[str, Any]) -> None:
    if (followed := ours.get("dbname", ours["user"])) != database:
        raise OperatorError(
            f"--admin-dsn leads to database {database}, but the pipeline follows {followed}",
            remedy=f"say dbname={followed} in --admin-dsn, or leave dbname out",
        )


def _refused(connection: SqlConnection, error: psycopg.Error) -> OperatorError:
    if error.sqlstate is None:
        raise classified(error)
    words = ": ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
    return OperatorError(
        f"{connection.info.user} may not make what is missing, so nothing was changed: {words}",
        remedy="name a superuser in --admin-dsn, or on a managed server its administrator; docs/commands.md, Managed "
        "Postgres, says what that one needs; or run what walbridge init --sql prints",
    )
