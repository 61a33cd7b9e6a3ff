"""A publication that walbridge makes, of the tables that settings name."""

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_names import split_name

READ_ONLY_TRANSACTION = "25006"
"""Of a role whose transactions are read only unless they say otherwise, or of a standby."""
_READ_ONLY = (
    "create it as somebody who may write there: walbridge init --admin-dsn does; where the server is a standby, on its "
    "primary"
)
_OTHERWISE = "mend [postgres] publication_tables, or create it as the tables' owner"


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
        remedy = _READ_ONLY if error.sqlstate == READ_ONLY_TRANSACTION else _OTHERWISE
        raise OperatorError(
            f"publication {publication} could not be created: {error.diag.message_primary}", remedy
        ) from None


def publication_sql(publication: str, tables: Iterable[str], *, via_root: bool) -> sql.Composed:
    """``CREATE PUBLICATION`` for these tables (``schema.table``)."""
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {}{}").format(
        sql.Identifier(publication),
        sql.SQL(", ").join(sql.Identifier(*split_name(table)) for table in tables),
        sql.SQL(" WITH (publish_via_partition_root = true)" if via_root else ""),
    )
