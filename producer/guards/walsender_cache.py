"""Whether this session's walsender knows a table as the publications publish it now.

A walsender caches what it publishes of each table, and some versions keep that after the publication or the partitions
were altered. In: the catalogue, and what was seen when the session began. Out: whether a copy may begin in this
session.
"""

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards.doubts.rewrites import from_text
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.publication import insert_lsn, next_xid, publication_state
from walbridge.producer.relations.partition_sessions import SINCE_VERSION
from walbridge.producer.relations.publication_sessions import remembers_what_was_published
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import CURRENT, TableProgress
from walbridge.schemas.settings import Settings


class WalsenderCache:
    """Asks for the tables of one session."""

    def __init__(self, settings: Settings, connection: SqlConnection, tables: Tables, tracker: ProgressTracker) -> None:
        self._publications = settings.postgres.publication_names
        self._connection, self._tables, self._tracker = connection, tables, tracker

    def knows_partitions_of(self, table: TableProgress) -> bool:
        """Whether the walsender sends the changes of all partitions that ``table.storage`` lists under their root's
        name.

        Raises:
            RetryableError: Postgres is away.
        """
        below = [file for file in from_text(table.storage or "").files if file.relation_id != table.relation_id]
        if not below or self._connection.info.server_version >= SINCE_VERSION:
            return True
        tree = frozenset((file.relation_id, file.joined) for file in below)
        return self._tables.partition_sessions.knows(table.relation_id, tree, insert_lsn(self._connection))

    def knows_membership_of(self, table: TableProgress) -> bool:
        """Whether the walsender sends what the publications publish of the table by now, as ``table.membership`` says.

        Raises:
            RetryableError: Postgres is away.
        """
        known = self._tracker.progress.tables.get(table.relation_id)
        is_as_before = known is not None and (known.state, known.membership) == (CURRENT, table.membership)
        if is_as_before or not remembers_what_was_published(self._connection.info.server_version):
            return True
        now = publication_state(self._connection, self._publications, [])
        return self._tables.publication_sessions.knows(
            table.relation_id, str(table.membership), now.oldest_xid, now.lsn, lambda: next_xid(self._connection)
        )
