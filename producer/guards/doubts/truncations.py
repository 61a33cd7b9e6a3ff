"""New files of tables that a TRUNCATE may have made which the stream has not brought yet.

In: the TRUNCATEs of the stream, looks at the catalogue, new files that nothing explains. Out: which of these tables a
cut has to call stale, and whether the cut should rather wait for what the stream brings next.

The catalogue shows a TRUNCATE as soon as it has committed, the stream brings it later. Until then the new file may as
well come from a rewrite that changed rows (``rewrites.py``). Two positions bound the transaction that made it:

- It had not begun at an earlier look. So it committed after the position of that look, and cuts up to there are right.
- It had ended at the look that found the file. So the stream has brought it once it has passed that look's position.

A cut between the two positions calls the table stale, which may cost a copy and is never wrong. There rarely is one,
since the next cut waits a moment for the stream.

What becomes of a TRUNCATE in the topic is decided in ``session/changes.py``.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from walbridge.producer.copying.visibility import FIRST_NORMAL_XID, Snapshot, widen
from walbridge.producer.postgres.facts import TableFile
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn

WAIT_S = 5.0
"""How long a cut waits at most: the stream of an idle server may never reach its WAL insert position."""
_NOWHERE = Lsn(0)


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A table with new ``files`` that nothing explains yet. Cuts up to ``certain_until`` are right in any case. The
    transaction that made the files committed before ``committed_by``. ``since_s``: monotonic time.
    """

    files: frozenset[int]
    reason: OperatorError
    certain_until: Lsn
    committed_by: Lsn
    since_s: float


class Truncations:
    """Collects the TRUNCATEs and the unexplained files of one session."""

    def __init__(self) -> None:
        self._since_compared: set[int] = set()
        """Tables with a TRUNCATE since their files were last compared."""
        self._xids: dict[int, int] = {}
        """By table: the transaction of its last TRUNCATE."""
        self._unexplained: dict[int, Unexplained] = {}
        self._looked_at: Lsn | None = None
        self._bound: tuple[Lsn, int] | None = None
        """A position, and a 64-bit xid: no transaction with this xid or a later one committed before the position."""

    def __len__(self) -> int:
        """The number of tables with files that nothing explains."""
        return len(self._unexplained)

    def receive(self, relation_ids: Iterable[int], xid: int) -> bool:
        """The stream brings a TRUNCATE of these tables. Returns whether it may explain a file that nothing did."""
        tables = set(relation_ids)
        self._since_compared |= tables
        self._xids.update(dict.fromkeys(tables, xid))
        return not tables.isdisjoint(self._unexplained)

    def xid_of_last_truncate(self, relation_id: int) -> int:
        """The transaction of the last TRUNCATE that the stream brought of this table, or 0."""
        return self._xids.get(relation_id, 0)

    def is_truncated(self, relation_id: int) -> bool:
        """Whether the stream brought a TRUNCATE since the table's files were compared."""
        return relation_id in self._since_compared

    def note_look(self, lsn: Lsn, snapshot: Snapshot | None) -> None:
        """All tables were looked at. ``lsn``: the WAL position of the look; ``snapshot``: taken a moment before."""
        if self._looked_at is not None and snapshot is not None:
            self._bound = self._looked_at, snapshot.xmax
        self._looked_at = lsn

    def note_compared(
        self,
        relation_ids: Iterable[int],
        unexplained: Mapping[int, tuple[Iterable[TableFile], OperatorError]],
        snapshot: Snapshot | None,
        insert_lsn: Callable[[], Lsn],
    ) -> None:
        """Files of these tables were compared with what is known of them.

        Args:
            unexplained: by table, its new files that only a TRUNCATE would explain, and what to say without one.
            snapshot: taken a moment before.
            insert_lsn: asks the server for its WAL insert position.
        """
        for relation_id in relation_ids:
            # The files of a TRUNCATE that is received and not visible yet (``visibility.py``) are still to be compared.
            if snapshot is None or snapshot.contains_received(self._xids.get(relation_id, FIRST_NORMAL_XID)):
                self._since_compared.discard(relation_id)
            if relation_id not in unexplained:
                self._unexplained.pop(relation_id, None)
        for relation_id, (files, reason) in unexplained.items():
            self._note_unexplained(relation_id, list(files), reason, insert_lsn)

    def _note_unexplained(
        self, relation_id: int, new: list[TableFile], reason: OperatorError, insert_lsn: Callable[[], Lsn]
    ) -> None:
        files, known = frozenset(each.file for each in new), self._unexplained.get(relation_id)
        if known is not None and known.files == files:
            return
        committed_by = insert_lsn()
        if known is not None:  # there was another TRUNCATE, or another rewrite
            found = replace(known, files=files, committed_by=committed_by)
        else:
            certain_until = self._bound[0] if self._bound is not None and self._is_behind_bound(new) else _NOWHERE
            found = Unexplained(files, reason, certain_until, committed_by, time.monotonic())
        self._unexplained[relation_id] = found

    def _is_behind_bound(self, files: Iterable[TableFile]) -> bool:
        assert self._bound is not None
        xmax = self._bound[1]
        return all(
            each.written_by_xid >= FIRST_NORMAL_XID and widen(each.written_by_xid, xmax) >= xmax for each in files
        )

    def may_explain(self, end: Lsn, received: Lsn) -> bool:
        """Whether what the stream brings next may spare a cut that ends at ``end`` to call a table stale."""
        return any(
            each.certain_until < end and received < each.committed_by and time.monotonic() - each.since_s < WAIT_S
            for each in self._unexplained.values()
        )

    def take(self, end: Lsn) -> dict[int, OperatorError]:
        """Tables that a cut which ends at ``end`` has to call stale, each returned once."""
        told = {each: found.reason for each, found in self._unexplained.items() if found.certain_until < end}
        for relation_id in told:
            del self._unexplained[relation_id]
        return told
