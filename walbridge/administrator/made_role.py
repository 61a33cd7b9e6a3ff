"""The pipeline's role and its password, as far as they are missing.

In: settings, a transaction of the administrator. Out: a role that may log in and replicate. Its password goes to the
server as a SCRAM verifier, and is in no line that is said (I10).
"""

import os
import secrets
from collections.abc import Callable
from typing import Any

from psycopg import sql

from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, parsed_dsn
from walbridge.role import RDS_MEMBERSHIP
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of, secret_in

_PASSWORD_BYTES = 24
_ROLE = """
SELECT rolcanlogin, rolsuper OR rolreplication,
       EXISTS (SELECT 1 FROM pg_roles m WHERE m.rolname = %(membership)s AND pg_has_role(r.oid, m.oid, 'MEMBER'))
FROM pg_roles r WHERE rolname = %(role)s"""
_IS_RDS = """
SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)
       AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"""


def role_of(ours: dict[str, Any]) -> str:
    if not ours.get("user"):
        raise OperatorError(
            "[postgres] dsn names no user, so there is no role to make", remedy="add user=walbridge to [postgres] dsn"
        )
    return str(ours["user"])


def ensure_role(connection: SqlConnection, settings: Settings, role: str, say: Callable[[str], None]) -> None:
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
