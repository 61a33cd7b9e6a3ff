"""Tables that left the publication, from the LSN on where the stream can hold no more changes of them. Pure.

In: which tables are gone, the transactions that may still bring changes of them, the LSN of a look. Out: tables of
which nothing comes after an LSN.
"""

from collections.abc import Collection, Iterable

from walbridge.schemas.position import Lsn

_BEGINNING = Lsn(0)


class LeavingTables:
    """One for each session."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        """By table: transactions below this xid may still bring changes of it."""
        self._leaving: dict[int, Lsn] = {}
        """By table: nothing of it comes, or is to be published, after this LSN."""

    def __contains__(self, relation_id: int) -> bool:
        """Whether it is known from where on nothing of the table comes."""
        return relation_id in self._leaving

    def come_back(self, members: Collection[int]) -> None:
        """The publication has these tables now."""
        for relation_id in members & self._left.keys():
            del self._left[relation_id]
            self._leaving.pop(relation_id, None)

    def unknown(self, gone: Iterable[int]) -> set[int]:
        """Which of these were not told with ``leave``."""
        return set(gone) - self._left.keys()

    def leave(self, relation_ids: Iterable[int], next_xid: int) -> None:
        """Changes count as of when they were made: an open or prepared transaction may hold some."""
        self._left |= dict.fromkeys(relation_ids, next_xid)

    def look(self, relation_ids: Iterable[int], oldest_xid: int, lsn: Lsn) -> None:
        """Where the WAL stands at ``lsn``, no transaction older than ``oldest_xid`` is open or prepared."""
        for relation_id in relation_ids:
            if oldest_xid >= self._left[relation_id]:
                self._leaving[relation_id] = lsn

    def leave_at_once(self, relation_ids: Iterable[int]) -> None:
        """With the next cut, whatever comes of them."""
        self._leaving |= dict.fromkeys(relation_ids, _BEGINNING)

    def take(self, lsn: Lsn) -> set[int]:
        """Tables of which nothing comes after ``lsn``. Each is returned only once."""
        gone = {relation_id for relation_id, since in self._leaving.items() if since <= lsn}
        for relation_id in gone:
            del self._leaving[relation_id]
        return gone
