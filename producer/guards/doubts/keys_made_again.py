"""Primary keys that were dropped and made again, where the stream does not tell the key.

In: the key's constraint as progress remembers it and as the catalogue has it, look after look. Out: whether changes
that come now may be of a time without it.

Under FULL and NOTHING a table's key is the catalogue's primary key, which says *now*. While there was none rows may
have been equal in it, and a delete of one would take all. Altering a key locks the table, so a change that
commits behind the WAL position of a look which shows the key is of a time with it. Until the stream is there, the
key of before is what is remembered. That there was none is remembered too: the key that comes then may be one that the
table had before, which no announced version tells apart.
"""

from collections.abc import Callable

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.relations.table_description import IDENTITY_IN_STREAM
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.position import Lsn


class KeysMadeAgain:
    """Those of one session.

    Args:
        insert_lsn: asks where the server's WAL stands by now.
    """

    def __init__(self, tables: Tables, tracker: ProgressTracker, insert_lsn: Callable[[], Lsn]) -> None:
        self._tables, self._tracker, self._insert_lsn = tables, tracker, insert_lsn
        self._since: dict[int, tuple[int | None, Lsn]] = {}
        """By table whose key is another one than is remembered: which, and where the WAL stood behind the look."""

    def awaits(self, relation_id: int) -> bool:
        """Whether the stream may still bring changes from before the last look, under another key."""
        return relation_id in self._since

    def note_compared(self, relation_id: int, known: TableStorage, now: TableStorage) -> None:
        """The catalogue was looked at."""
        if known.key in (None, now.key):
            self._since.pop(relation_id, None)
        elif relation_id not in self._since or self._since[relation_id][0] != now.key:
            self._since[relation_id] = now.key, self._insert_lsn()

    def remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> int | None:
        """The key that progress is to tell."""
        return known.key if self._is_ahead(relation_id) else now.key

    def is_doubt(self, relation_id: int) -> bool:
        """Whether the table's next change may be of a time without the key that it would have."""
        version = self._tables.writers.announced_last(relation_id)
        if version is None or not self._is_ahead(relation_id):
            return False
        return bool(version.table.key_columns) and version.table.replica_identity not in IDENTITY_IN_STREAM

    def _is_ahead(self, relation_id: int) -> bool:
        """Of the stream: all that is published is from before the look."""
        return relation_id in self._since and self._tracker.end_lsn < self._since[relation_id][1]
