"""Whether the source tells DDL as rows: the publication of ours that has them."""

from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.schemas.ddl_row import DDL_PUBLICATION


def ddl_publication(connection: SqlConnection) -> int | None:
    """Its oid; None where there is none.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found = rows_of(connection, "SELECT oid FROM pg_publication WHERE pubname = %s", (DDL_PUBLICATION,))
    return int(found[0][0]) if found else None
