"""``walbridge init --admin-dsn`` makes role, rights and publication, once, as whoever may; its remedies work."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.fix_postgres import Database
from walbridge.administrator import prepare
from walbridge.administrator.connection import administrators_dsn
from walbridge.role import RDS_MEMBERSHIP
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE hidden (id int); CREATE SCHEMA "Odd schema";
CREATE TABLE "Odd schema"."Line items" (id int PRIMARY KEY); INSERT INTO orders VALUES (1);"""
AWAY = "host=127.0.0.1 port=1 dbname=shop user=walbridge"


@pytest.fixture
def new_role(database: Database) -> Iterator[Callable[[str], str]]:
    """Names of roles that only one test knows; they go when it ends. Asked for with attributes, they are made."""
    named: list[str] = []

    def made(attributes: str = "") -> str:
        named.append(f"role_{uuid.uuid4().hex[:10]}")
        if attributes:
            database.execute(f"CREATE ROLE {named[-1]} {attributes}")
        return named[-1]

    yield made
    for name in reversed(named):
        if database.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)):
            database.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
def settings(database: Database, new_role: Callable[[str], str], tmp_path: Path) -> Settings:
    database.execute(TABLES)
    postgres = {
        "dsn": f"{database.dsn} user={new_role('')}",
        "password_file": str(tmp_path / "password"),
        "publication_tables": ["public.orders", "Odd schema.Line items"],
    }
    return Settings.model_validate({"name": "shop", "postgres": postgres})


def role_of(settings: Settings) -> str:
    (name,) = re.findall(r"user=(\w+)$", settings.postgres.dsn.get_secret_value())
    return str(name)


def said(settings: Settings, admin_dsn: str = "user=postgres") -> list[str]:
    lines: list[str] = []
    prepare(settings, admin_dsn, lines.append)
    return lines


def test_bare_database_gets_publication_role_password_and_rights_and_a_second_run_changes_nothing(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    role, file = role_of(settings), tmp_path / "password"

    assert said(settings) == [
        "publication walbridge: created",
        f"role {role}: created, with a new password, which is in {file} for this user alone",
        f"role {role}: may read 2 published tables, 2 of them from now on",
    ]

    password = file.read_text()
    assert (len(password.strip()), file.stat().st_mode & 0o077) == (32, 0)
    attributes = "SELECT rolpassword LIKE 'SCRAM-SHA-256$%%', rolreplication, rolcanlogin, rolsuper, rolcreatedb"
    stored = f"{attributes} FROM pg_authid WHERE rolname = %s"
    assert database.rows(stored, (role,)) == [(True, True, True, False, False)]
    with psycopg.connect(settings.postgres.dsn.get_secret_value(), autocommit=True) as connection:
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]
        assert connection.execute('SELECT id FROM "Odd schema"."Line items"').fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT id FROM hidden")

    assert said(settings) == [
        "publication walbridge: exists",
        f"role {role}: exists; its password is left as it is",
        f"role {role}: may read 2 published tables",
    ]
    assert file.read_text() == password


def test_owner_of_the_tables_that_is_no_superuser_is_administrator_enough(
    settings: Settings, database: Database, new_role: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("chosen by a person\n")
    owner = new_role("LOGIN CREATEROLE REPLICATION")
    given = sql.SQL("GRANT CREATE, CONNECT ON DATABASE {} TO {} WITH GRANT OPTION").format(
        sql.Identifier(database.name), sql.Identifier(owner)
    )
    owned = f'ALTER TABLE orders OWNER TO {owner}; ALTER SCHEMA "Odd schema" OWNER TO {owner};'
    database.execute(f'{given.as_string(None)}; {owned} ALTER TABLE "Odd schema"."Line items" OWNER TO {owner}')

    lines = said(settings, f"user={owner}")

    assert lines[1] == f"role {role_of(settings)}: created, with the password in {tmp_path / 'password'}"
    assert said(settings, f"user={owner}")[0] == "publication walbridge: exists"


@pytest.mark.parametrize("may_itself", [False, True])
def test_who_may_not_grant_changes_nothing_until_the_remedy_is_followed(
    settings: Settings, database: Database, new_role: Callable[[str], str], may_itself: bool
) -> None:
    """Postgres refuses who has no right, and only warns who has one that it may not pass on."""
    owner, other = new_role("NOLOGIN"), new_role("LOGIN CREATEROLE REPLICATION")
    tables = '"Odd schema"."Line items"'
    database.execute(
        f"ALTER TABLE orders OWNER TO {owner}; ALTER TABLE {tables} OWNER TO {owner}; "
        f'GRANT USAGE ON SCHEMA "Odd schema" TO {owner} WITH GRANT OPTION;'
        "CREATE PUBLICATION walbridge FOR TABLE orders, " + tables
    )
    if may_itself:
        database.execute(f'GRANT USAGE ON SCHEMA "Odd schema" TO {other}; GRANT SELECT ON orders, {tables} TO {other}')

    with pytest.raises(OperatorError, match="may not do this, so nothing was changed: GRANT ") as refusal:
        said(settings, f"user={other}")

    assert database.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (role_of(settings),)) == []
    (grant,) = re.findall(r"GRANT <owner> TO .+;$", refusal.value.remedy)
    database.execute(grant.replace("<owner>", owner))
    assert said(settings, f"user={other}")[-1].endswith("may read 2 published tables, 2 of them from now on")


def test_who_may_make_no_role_is_told_who_may(
    settings: Settings, database: Database, new_role: Callable[[str], str]
) -> None:
    database.execute('CREATE PUBLICATION walbridge FOR TABLE orders, "Odd schema"."Line items"')
    with pytest.raises(OperatorError, match="may not make what is missing, so nothing was changed: ") as refusal:
        said(settings, f"user={new_role('LOGIN')}")
    assert refusal.value.remedy.startswith("name a superuser in --admin-dsn, or ")

    assert said(settings, "user=postgres")[-1].endswith("2 of them from now on")


def test_role_that_is_there_gets_what_it_lacks_and_keeps_its_password(settings: Settings, database: Database) -> None:
    role = role_of(settings)
    database.execute(f"CREATE ROLE {role} NOLOGIN PASSWORD 'of before'; GRANT SELECT ON orders TO {role}")
    before = database.value("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,))

    assert said(settings)[1:] == [
        f"role {role}: exists; its password is left as it is",
        f"role {role}: may log in now",
        f"role {role}: may replicate now",
        f"role {role}: may read 2 published tables, 1 of them from now on",
    ]
    assert database.value("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)) == before


def test_membership_stands_for_the_attribute_on_amazon_rds(
    settings: Settings, database: Database, new_role: Callable[[str], str]
) -> None:
    """What RDS itself makes of the membership no other server can tell."""
    owner = new_role("LOGIN CREATEROLE")
    database.execute(f'ALTER TABLE orders OWNER TO {owner}; ALTER TABLE "Odd schema"."Line items" OWNER TO {owner}')
    database.execute(f'ALTER SCHEMA "Odd schema" OWNER TO {owner}; GRANT CREATE ON DATABASE {database.name} TO {owner}')
    database.execute(f"CREATE ROLE {RDS_MEMBERSHIP}; GRANT {RDS_MEMBERSHIP} TO {owner} WITH ADMIN OPTION")
    with contextlib.ExitStack() as stack:
        stack.callback(database.execute, f"DROP ROLE {RDS_MEMBERSHIP}")
        role = role_of(settings)
        assert f"role {role}: may replicate now, as a member of {RDS_MEMBERSHIP}" in said(settings, f"user={owner}")
        assert database.rows("SELECT rolreplication FROM pg_roles WHERE rolname = %s", (role,)) == [(False,)]
        assert len(said(settings, f"user={owner}")) == 3


def test_password_among_the_arguments_is_refused_unread(settings: Settings) -> None:
    with pytest.raises(OperatorError, match="every user of this machine can see") as refusal:
        said(settings, "user=postgres password=hunter2")
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.remedy.startswith("leave it out of --admin-dsn")

    assert said(settings, "user=postgres")


def test_administrators_connection_that_fails_is_corrected_in_the_option(
    settings: Settings, database: Database
) -> None:
    with pytest.raises(OperatorError, match="cannot be used: invalid port number") as refused:
        prepare(settings, "host=127.0.0.1 user=postgres port=99999", lambda line: None)
    assert refused.value.remedy.startswith("correct that in --admin-dsn")
    prepare(settings, f"host=127.0.0.1 user=postgres port={database.server.port}", lambda line: None)


def test_other_database_than_the_pipelines_is_refused(settings: Settings) -> None:
    with pytest.raises(OperatorError, match="leads to database postgres, but the pipeline follows") as refusal:
        said(settings, "user=postgres dbname=postgres")
    (told,) = re.findall(r"say (dbname=\S+) in --admin-dsn, or leave dbname out", refusal.value.remedy)

    assert said(settings, f"user=postgres {told}")


def test_role_is_named_in_the_dsn(settings: Settings, database: Database) -> None:
    def of(dsn: str) -> Settings:
        return Settings.model_validate({"postgres": {"dsn": dsn, "publication_tables": ["public.orders"]}})

    nameless = re.sub(r" user=\S+", "", database.dsn)
    with pytest.raises(OperatorError, match="names no user") as refusal:
        said(of(nameless))
    assert refusal.value.remedy == "add user=walbridge to [postgres] dsn"

    lines = said(of(f"{nameless} user={role_of(settings)}"))
    assert lines[1].endswith(
        ": created, without a password: set one with psql's \\password, unless the server asks for none"
    )


def test_file_that_cannot_be_written_leaves_the_database_as_it_was(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    missing = settings.postgres.model_copy(update={"password_file": str(tmp_path / "nowhere" / "password")})
    with pytest.raises(OperatorError, match="cannot be written: No such file") as refusal:
        said(settings.model_copy(update={"postgres": missing}))
    assert refusal.value.remedy == "name a file there in a folder that this user may write to"
    assert database.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (role_of(settings),)) == []

    assert said(settings)


def test_password_file_that_holds_no_password_is_refused_until_it_does(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("\n")
    with pytest.raises(OperatorError, match="password is empty, so there is no password for the role") as refusal:
        said(settings)
    assert "or delete it" in refusal.value.remedy
    file.write_bytes(b"\xff")
    with pytest.raises(OperatorError, match="it is not UTF-8"):
        said(settings)
    file.unlink()
    file.mkdir()
    with pytest.raises(OperatorError, match="Is a directory"):
        said(settings)

    file.rmdir()
    assert "with a new password" in said(settings)[1]


def test_administrator_asks_the_same_of_the_same_server_and_is_somebody_else() -> None:
    of_the_server = {
        "host": "a,b",
        "port": "5433",
        "dbname": "shop",
        "target_session_attrs": "read-write",
        "require_auth": "scram-sha-256",
        "sslmode": "verify-full",
        "sslcrl": "/crl",
        "sslcrldir": "/crls",
        "ssl_min_protocol_version": "TLSv1.3",
        "ssl_max_protocol_version": "TLSv1.3",
        "gssencmode": "disable",
        "channel_binding": "require",
    }
    of_the_user = {"user": "walbridge", "password": "p", "sslcert": "/c", "sslkey": "/k", "application_name": "w"}

    taken = conninfo_to_dict(administrators_dsn("user=postgres require_auth=password", of_the_server | of_the_user))

    assert taken == of_the_server | {"user": "postgres", "require_auth": "password"}
