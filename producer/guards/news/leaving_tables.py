"""Tables that left the publication: the LSN after which the stream can bring no more changes of each. Pure.

In: the tables that left, the transactions that may still hold changes of them, and the LSN of each look. Out: the
tables of which no change comes after a given LSN.
"""

from collections.abc import Collection, Iterable

from walbridge.schemas.position import Lsn

_BEGINNING = Lsn(0)


class LeavingTables:
    """Tracks the tables that leave during one session."""

    def __init__(self) -> None:
        self._writers_end: dict[int, int] = {}
        """By table: an xid above those of all transactions that may still hold changes of it."""
        self._last_lsn: dict[int, Lsn] = {}
        """By table: no change of it comes, or is to be published, after this LSN."""

    def is_dated(self, relation_id: int) -> bool:
        """Whether it is known after which LSN no change of the table comes."""
        return relation_id in self._last_lsn

    def note_members(self, members: Collection[int]) -> None:
        """The publication holds these tables now: those of them that had left are back."""
        for relation_id in members & self._writers_end.keys():
            del self._writers_end[relation_id]
            self._last_lsn.pop(relation_id, None)

    def not_noted(self, left: Iterable[int]) -> set[int]:
        """Those of these tables that ``note_left`` has not been told of."""
        return set(left) - self._writers_end.keys()

    def note_left(self, relation_ids: Iterable[int], next_xid: int) -> None:
        """These tables left the publication. Transactions below ``next_xid`` may still hold changes of them, since the
        server decodes each change with the publication as it was when the change was made."""
        self._writers_end |= dict.fromkeys(relation_ids, next_xid)

    def note_look(self, relation_ids: Iterable[int], oldest_xid: int, lsn: Lsn) -> None:
        """These tables were still missing at ``lsn``, where every transaction below ``oldest_xid`` had ended."""
        for relation_id in relation_ids:
            if oldest_xid >= self._writers_end[relation_id]:
                self._last_lsn[relation_id] = lsn

    def leave_with_next_cut(self, relation_ids: Iterable[int]) -> None:
        """Let these tables leave with the next cut, even if changes of them are still to come."""
        self._last_lsn |= dict.fromkeys(relation_ids, _BEGINNING)

    def take(self, lsn: Lsn) -> set[int]:
        """The tables of which no change comes after ``lsn``. Each is returned only once."""
        left = {relation_id for relation_id, last in self._last_lsn.items() if last <= lsn}
        for relation_id in left:
            del self._last_lsn[relation_id]
        return left
