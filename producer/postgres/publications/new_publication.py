"""A publication that walbridge makes, of the tables that settings name."""

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_names import split_name


def create_publication(connection: psycopg.Connection[Any], publication: str, tables: Iterable[str]) -> None:
    """Create the publication for these tables (``schema.table``), through their partition roots.

    Raises:
        OperatorError: a table does not exist, or the role may not.
    """
    statement = publication_sql(publication, tables, via_root=connection.info.server_version >= 130000)
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise classified(error) from None
        raise OperatorError(
            f"publication {publication} could not be created: {error.diag.message_primary}",
            remedy="mend [postgres] publication_tables, or create it as the tables' owner",
        ) from None


def publication_sql(publication: str, tables: Iterable[str], *, via_root: bool) -> sql.Composed:
    """``CREATE PUBLICATION`` for these tables (``schema.table``)."""
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {}{}").format(
        sql.Identifier(publication),
        sql.SQL(", ").join(sql.Identifier(*split_name(table)) for table in tables),
        sql.SQL(" WITH (publish_via_partition_root = true)" if via_root else ""),
    )
