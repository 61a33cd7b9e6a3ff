"""Tables whose changes would come in parts, or not be readable: refused before a copy, doubted at a session's start."""

from collections.abc import Sequence

from walbridge.producer.guards.unfit.replica_identity import refuse_unfit_identities
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.binary_support import refuse_unreadable
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


def refuse_unfit(connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]) -> None:
    """Refuse the first of them.

    Raises:
        OperatorError: a table could not be copied as it is.
    """
    refuse_unreadable(connection, settings, tables)
    refuse_unfit_identities(connection, settings, tables)


def unfit_tables(
    connection: SqlConnection, settings: Settings, tables: Sequence[PublishedTable]
) -> dict[int, OperatorError]:
    """The unfit tables with the reasons, by relation id. All are checked at once; if one is unfit, one by one."""
    reasons: dict[int, OperatorError] = {}
    try:
        refuse_unfit(connection, settings, tables)
    except OperatorError:
        for table in tables:
            try:
                refuse_unfit(connection, settings, [table])
            except OperatorError as reason:
                reasons[table.relation_id] = reason
    return reasons
