"""Primary keys that were dropped and created again, under replica identities that do not send the key.

In: the key's constraint as progress remembers it and as each look at the catalogue finds it. Out: whether the changes
that come now may have been made while the key did not exist.

Under FULL and NOTHING a table's key is the primary key that the catalogue has *now*. While there was none, several rows
may have been equal in it, and a delete of one of them would take all. Altering a key locks the table. So if a look
finds the key, changes that commit after the WAL position of that look were made with it. Until the stream gets there,
progress keeps the key of before, or that there was none: the key that comes then may be one that the table had earlier,
and no announced version would show the difference.
"""

from collections.abc import Callable

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.relations.table_description import IDENTITY_IN_STREAM
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.position import Lsn


class KeysMadeAgain:
    """Compares the keys of one session's tables.

    Args:
        insert_lsn: asks the server for its WAL insert position.
    """

    def __init__(self, tables: Tables, tracker: ProgressTracker, insert_lsn: Callable[[], Lsn]) -> None:
        self._tables, self._tracker, self._insert_lsn = tables, tracker, insert_lsn
        self._since: dict[int, tuple[int | None, Lsn]] = {}
        """By table whose key is not the remembered one: its constraint, and the WAL position after the look."""

    def has_pending_key(self, relation_id: int) -> bool:
        """Whether a look found another key, and the stream may still bring changes that were made before it."""
        return relation_id in self._since

    def note_compared(self, relation_id: int, known: TableStorage, now: TableStorage) -> None:
        """The catalogue was looked at."""
        if known.key in (None, now.key):
            self._since.pop(relation_id, None)
        elif relation_id not in self._since or self._since[relation_id][0] != now.key:
            self._since[relation_id] = now.key, self._insert_lsn()

    def remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> int | None:
        """The key that progress is to remember."""
        return known.key if self._is_ahead(relation_id) else now.key

    def is_doubt(self, relation_id: int) -> bool:
        """Whether the table's next change may have been made while the key did not exist."""
        version = self._tables.writers.current_version(relation_id)
        if version is None or not self._is_ahead(relation_id):
            return False
        return bool(version.table.key_columns) and version.table.replica_identity not in IDENTITY_IN_STREAM

    def _is_ahead(self, relation_id: int) -> bool:
        """Whether the look at the key is ahead of the stream: only changes from before it are published so far."""
        return relation_id in self._since and self._tracker.end_lsn < self._since[relation_id][1]
