"""Whether the walsender publishes a table as the publications say now: before the fixes of 2025 it may not.

In: the membership of a table that each look finds, and the LSNs at which sessions begin. Out: whether the table may be
copied in this session, or the LSN from which on another session has to begin. Pure.

Once a walsender has decoded a change of a table, it remembers for life what it publishes of that table. ALTER
PUBLICATION makes it forget. But a transaction that was open then is decoded later, with the catalogue as it was at its
changes, and so the walsender remembers the older state again (PostgreSQL commit 4909b38af0; ``pgoutput.c``,
``get_rel_sync_entry``): it never sends changes of a table that was added. A session that begins after the end of all
transactions that were open at the alteration decodes none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from walbridge.schemas.position import Lsn

_FIRST_FIXED = {13: 21, 14: 18, 15: 13, 16: 9, 17: 5}
"""Major → the first minor with the fix. No version of 12 has it, all versions from 18 on have it."""


def remembers_what_was_published(server_version: int) -> bool:
    """Whether a walsender of this server may remember an older state. ``server_version``: as libpq tells it."""
    major, minor = divmod(server_version, 10_000)
    return major < min(_FIRST_FIXED) or minor < _FIRST_FIXED.get(major, 0)


@dataclass(slots=True)
class _Seen:
    """``xid``: above those of all transactions that had written when the membership was first seen; ``since``: an LSN
    at which all of them had ended, None before that."""

    membership: str
    xid: int
    since: Lsn | None = None


class PublicationSessions:
    """The memberships that were seen, and where the session began; one object for each process.

    Attributes:
        next_session_lsn: another session has to begin, at or after this LSN; None where this one will do.
    """

    def __init__(self) -> None:
        self.next_session_lsn: Lsn | None = None
        self._begun = Lsn(0)
        self._seen: dict[int, _Seen] = {}

    def begin(self, floor: Lsn) -> None:
        """Begin another session. It brings no transaction that committed below ``floor``."""
        self._begun, self.next_session_lsn = floor, None

    def knows(self, relation_id: int, membership: str, oldest_xid: int, lsn: Lsn, next_xid: Callable[[], int]) -> bool:
        """Whether all transactions that may have written before the table was such a member had ended when this session
        began.

        Args:
            oldest_xid: all transactions below it had ended at ``lsn``.
            next_xid: returns an xid above those of all transactions that have written until now.
        """
        seen = self._seen.get(relation_id)
        if seen is None or seen.membership != membership:
            self._seen[relation_id] = _Seen(membership, next_xid())
            return False
        if seen.since is None:
            if oldest_xid < seen.xid:
                return False
            seen.since = lsn
        if self._begun >= seen.since:
            return True
        self.next_session_lsn = max(self.next_session_lsn or seen.since, seen.since)
        return False
