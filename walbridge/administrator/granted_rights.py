"""The rights of the pipeline's role on the database and on the tables that are published, as far as they are missing.

In: settings, a role, a transaction of the administrator. Out: the rights are granted, or the first one that may not be.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

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


def ensure_rights(connection: SqlConnection, settings: Settings, role: str, say: Callable[[str], None]) -> None:
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
