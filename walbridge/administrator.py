"""``walbridge init --admin-dsn``: role, rights and publication, made by an administrator's connection.

In: settings, an administrator's connection string. Out: the publication, the role of ``[postgres] dsn`` and its
rights, in one transaction, so all of it or nothing; and lines that say what was missing. A second run finds nothing
missing. The administrator need be no superuser: who owns the tables and may make roles with REPLICATION is enough, and
on Amazon RDS, where that attribute is a membership, who may grant ``rds_replication``.

The role's password is that of ``password_file``, which is written where it is missing, or the one in the dsn. It goes
to the server as a SCRAM verifier, so that no log of statements has it. No password is taken from an argument, which
every user of the machine sees, and none is ever printed (I10).
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from walbridge import ddl_trigger
from walbridge.init import ensure_publications
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql, parsed_dsn, retry_at_start
from walbridge.producer.postgres.server_errors import classified
from walbridge.role import RDS_MEMBERSHIP
from walbridge.schemas.dsn import SECRETS, with_password
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of, secret_in

Say = Callable[[str], None]
_PLACE = ("host", "hostaddr", "port")
_ALSO_THERE = (
    *("dbname", "target_session_attrs", "load_balance_hosts", "requirepeer", "require_auth", "channel_binding"),
    *("sslmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "sslcompression", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "min_protocol_version", "max_protocol_version"),
    *("gssencmode", "krbsrvname", "gsslib"),
)
"""What the server is, and what is asked of it; not who asks: user, password, client certificate, session."""
_PASSWORD_BYTES = 24
_ROLE = """
SELECT rolcanlogin, rolsuper OR rolreplication,
       EXISTS (SELECT 1 FROM pg_roles m WHERE m.rolname = %(membership)s AND pg_has_role(r.oid, m.oid, 'MEMBER'))
FROM pg_roles r WHERE rolname = %(role)s"""
_IS_RDS = """
SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)
       AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"""
_LACKING = """
SELECT n.nspname, c.relname, NOT has_schema_privilege(%(role)s::name, n.oid, 'USAGE'),
       NOT has_table_privilege(%(role)s::name, c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%(ids)s) ORDER BY 1, 2"""
_MAY_CONNECT = "SELECT has_database_privilege(%s::name, current_database(), 'CONNECT')"


@dataclass(frozen=True, slots=True)
class Lacking:
    """Rights that the role does not have yet."""

    connect: bool
    schemas: tuple[str, ...]
    tables: tuple[tuple[str, str], ...]

    def statements(self, database: str, role: str) -> Iterator[sql.Composed]:
        """The GRANT statements for them."""
        to = sql.Identifier(role)
        if self.connect:
            yield sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), to)
        for schema in self.schemas:
            yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), to)
        for table in self.tables:
            yield sql.SQL("GRANT SELECT ON TABLE {} TO {}").format(sql.Identifier(*table), to)


def prepare(
    settings: Settings,
    admin_dsn: str,
    say: Say,
    ask: Callable[[], str] | None = None,
    *,
    tells_ddl: bool = False,
    force: bool = False,
) -> dict[str, bool]:
    """Make the role, its rights and the publications, as far as they are missing. Returns for each publication whether
    it is new.

    Args:
        settings: with secrets that are not read yet: the file of the password may be missing.
        ask: asks a person for the administrator's password, where the server wants one and libpq finds none.
        tells_ddl: also make the event triggers that tell DDL in the stream.
        force: make them even if others replicate all tables.

    Raises:
        OperatorError: the administrator's role may not do it, or is of another database; then nothing was changed.
    """
    ours = parsed_dsn(dsn_of(settings))
    role, theirs = _role_of(ours), _administrators(admin_dsn, ours)
    with _changing(settings, theirs, ours, say, ask) as (connection, tell):
        publications = ensure_publications(connection, settings, tell)
        _ensure_role(connection, settings, role, tell)
        _ensure_rights(connection, settings, role, tell)
        if tells_ddl:
            if not force:
                ddl_trigger.refuse_other_subscribers(connection, settings.postgres.slot)
            ddl_trigger.make(connection, tell)
    return publications


def remove_ddl_trigger(settings: Settings, admin_dsn: str, say: Say, ask: Callable[[], str] | None = None) -> None:
    """Remove the event triggers that tell DDL in the stream. Raises as ``prepare``."""
    ours = parsed_dsn(dsn_of(settings))
    with _changing(settings, _administrators(admin_dsn, ours), ours, say, ask) as (connection, tell):
        ddl_trigger.remove(connection, tell)


@contextmanager
def _changing(
    settings: Settings, theirs: str, ours: dict[str, Any], say: Say, ask: Callable[[], str] | None
) -> Iterator[tuple[SqlConnection, Say]]:
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


def _role_of(ours: dict[str, Any]) -> str:
    if not ours.get("user"):
        raise OperatorError(
            "[postgres] dsn names no user, so there is no role to make", remedy="add user=walbridge to [postgres] dsn"
        )
    return str(ours["user"])


def _administrators(admin_dsn: str, ours: dict[str, Any]) -> str:
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


def _ensure_role(connection: SqlConnection, settings: Settings, role: str, say: Say) -> None:
    named = sql.Identifier(role)
    ((is_rds,),) = catalog.rows_of(connection, _IS_RDS, (RDS_MEMBERSHIP,))
    found = connection.execute(_ROLE.encode(), {"role": role, "membership": RDS_MEMBERSHIP}).fetchone()
    if found is None:
        password, told = _password(settings)
        verifier = _verifier(connection, role, password)
        statement = sql.SQL("CREATE ROLE {} LOGIN {}{}").format(
            named, sql.SQL("" if is_rds else "REPLICATION "), _password_clause(verifier)
        )
        connection.execute(statement)
        say(f"role {role}: created, {told}")
    else:
        say(f"role {role}: exists; its password is left as it is")
    logs_in, may_replicate, is_member = found or (True, not is_rds, False)
    if not logs_in:
        connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(named))
        say(f"role {role}: may log in now")
    if not may_replicate and not is_member:
        membership = sql.SQL("GRANT {} TO {}").format(sql.Identifier(RDS_MEMBERSHIP), named)
        connection.execute(membership if is_rds else sql.SQL("ALTER ROLE {} REPLICATION").format(named))
        say(f"role {role}: may replicate now" + (f", as a member of {RDS_MEMBERSHIP}" if is_rds else ""))


def _password_clause(verifier: str | None) -> sql.Composable:
    return sql.SQL("") if verifier is None else sql.SQL("PASSWORD {}").format(sql.Literal(verifier))


def _verifier(connection: SqlConnection, role: str, password: str | None) -> str | None:
    if password is None:
        return None
    made = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return made.decode()


def _password(settings: Settings) -> tuple[str | None, str]:
    """The new role's password, and a phrase for the operator that says where it is from."""
    path = settings.postgres.password_file
    if path is None:
        inside = parsed_dsn(dsn_of(settings)).get("password")
        if inside is not None:
            return str(inside), "with the password of [postgres] dsn"
        return None, "without a password: set one with psql's \\password, unless the server asks for none"
    if os.path.exists(path):  # noqa: PTH110 - Path's raises where a folder may not be looked into
        return _kept_password(path), f"with the password in {path}"
    _write_secret(path, made := secrets.token_urlsafe(_PASSWORD_BYTES))
    return made, f"with a new password, which is in {path} for this user alone"


def _kept_password(path: str) -> str:
    if kept := secret_in(path, "[postgres] password_file"):
        return kept
    raise OperatorError(
        f"[postgres] password_file: {path} is empty, so there is no password for the role",
        remedy="write one into it, or delete it: then a new password is made and written to it",
    )


def _write_secret(path: str, secret: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secret}\n")
    except OSError as error:
        raise OperatorError(
            f"[postgres] password_file: {path} cannot be written: {error.strerror}",
            remedy="name a file there in a folder that this user may write to",
        ) from None


def _ensure_rights(connection: SqlConnection, settings: Settings, role: str, say: Say) -> None:
    ids = [table.relation_id for table in catalog.published_tables(connection, settings.postgres.publication_names)]
    lacking = _lacking(connection, role, ids)
    for statement in lacking.statements(connection.info.dbname, role):
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            raise _ungranted(connection, [statement]) from None
    # Who has a right and may not grant it is only warned by the server, which then grants nothing.
    left = _lacking(connection, role, ids)
    if ungranted := list(left.statements(connection.info.dbname, role)):
        raise _ungranted(connection, ungranted)
    new = f", {len(lacking.tables)} of them from now on" if lacking.tables else ""
    say(f"role {role}: may read {len(ids)} published tables{new}")


def _lacking(connection: SqlConnection, role: str, ids: Sequence[int]) -> Lacking:
    ((connects,),) = catalog.rows_of(connection, _MAY_CONNECT, (role,))
    rows = connection.execute(_LACKING.encode(), {"role": role, "ids": list(ids)}).fetchall()
    return Lacking(
        connect=not connects,
        schemas=tuple(sorted({schema for schema, _, usage, _ in rows if usage})),
        tables=tuple((schema, table) for schema, table, _, select in rows if select),
    )


def _ungranted(connection: SqlConnection, statements: Sequence[sql.Composed]) -> OperatorError:
    first, more = statements[0].as_string(connection), len(statements) - 1
    return OperatorError(
        f"{connection.info.user} may not do this, so nothing was changed: {first}"
        + (f" (and {more} more)" if more else ""),
        remedy=f"name an owner of the tables in --admin-dsn, or make {connection.info.user} one: "
        f"GRANT <owner> TO {sql.Identifier(connection.info.user).as_string(connection)};",
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
