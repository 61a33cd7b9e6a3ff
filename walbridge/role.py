"""The SQL that an administrator runs before a pipeline starts: its role, what it may read, its publication.

In: settings, or the tables that a server publishes. Out: SQL for a person to read and to run. The
role may replicate and read the published tables, no more: it owns nothing and creates nothing.
"""

from collections.abc import Iterable, Sequence

from psycopg import sql

from walbridge.producer.postgres.connection import parsed_dsn
from walbridge.producer.postgres.publications.new_publication import publication_sql
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.table_names import split_name

DEFAULT_ROLE = "walbridge"
RDS_MEMBERSHIP = "rds_replication"
"""On Amazon RDS and Aurora nobody is a superuser, and this role stands for the attribute REPLICATION."""

_ROLE = """\
-- The least that walbridge produce needs. Run it as a superuser or the tables' owner, then give
-- the role a password (psql: \\password) and put it where docs/security.md says.
CREATE ROLE {role} LOGIN REPLICATION;
GRANT CONNECT ON DATABASE {database} TO {role};
{schemas}
{tables}
-- pg_hba.conf: the entry names the database; "replication" there means physical replication only.
--   hostssl  {hba_database}  {hba_role}  <address of the producer>  scram-sha-256"""

_WHOLE = """\
-- What a pipeline needs in database {database}: all of it is made, or nothing.
BEGIN;
-- Postgres 12 has no partition roots in publications: leave out WITH (...) there.
{publication};
{role}
COMMIT;"""


def role_sql(database: str, role: str, tables: Iterable[tuple[str, str]]) -> str:
    """SQL of a role that may replicate and read these tables (schema, name), and nothing else."""
    names = list(tables)
    grants = sql.SQL("GRANT SELECT ON TABLE {} TO {};")
    usages = sql.SQL("GRANT USAGE ON SCHEMA {} TO {};")
    of_role = sql.Identifier(role)
    return _ROLE.format(
        role=of_role.as_string(None),
        database=sql.Identifier(database).as_string(None),
        schemas=_lines(usages.format(sql.Identifier(name), of_role) for name in sorted({each[0] for each in names})),
        tables=_lines(grants.format(sql.Identifier(*each), of_role) for each in names),
        hba_database=_hba_word(database),
        hba_role=_hba_word(role),
    )


def administrator_sql(settings: Settings, role: str | None) -> str:
    """SQL of role and publication, from the settings alone: no server is asked.

    Args:
        role: its name; None for the user of the connection string.

    Raises:
        OperatorError: the settings do not name the database, or no tables.
    """
    tables, given = settings.postgres.publication_tables, parsed_dsn(dsn_of(settings))
    if not (database := given.get("dbname")):
        raise OperatorError(
            "[postgres] dsn names no database, so there is none to give rights on", remedy="add dbname=... to it"
        )
    return _whole(
        settings.postgres.publication_names[0], tables, str(database), role or str(given.get("user", DEFAULT_ROLE))
    )


def _whole(publication: str, tables: Sequence[str], database: str, role: str) -> str:
    if not tables:
        raise OperatorError(
            "[postgres] publication_tables is empty, so the tables are not known without asking the server",
            remedy="name them there; or create the publication yourself and run walbridge init as an administrator",
        )
    return _WHOLE.format(
        database=sql.Identifier(database).as_string(None),
        role=role_sql(database, role, map(split_name, tables)),
        publication=publication_sql(publication, tables, via_root=True).as_string(None),
    )


def _lines(statements: Iterable[sql.Composed]) -> str:
    return "\n".join(each.as_string(None) for each in statements)


def _hba_word(name: str) -> str:
    # In pg_hba.conf quotes also keep "all" and "replication" from meaning more than a name.
    return '"' + name.replace('"', '""') + '"'
