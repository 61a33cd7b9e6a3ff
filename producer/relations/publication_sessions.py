"""Whether the server's session sends what publications publish of a table by now: until 2025 it may not.

In: how a table is a member, look after look, and where sessions begin. Out: whether its rows may be read in this one,
or behind which LSN another session has to begin. Pure.

A walsender remembers for its life what it publishes of a table of which it has decoded a change. A publication that is
altered makes it forget; but a transaction that was open then is decoded afterwards, as of its changes, and what held
before is remembered anew (PostgreSQL commit 4909b38af0; ``pgoutput.c``, ``get_rel_sync_entry``): changes of a table
that came are never sent. A session that begins behind the end of all who were writing then decodes none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from walbridge.schemas.position import Lsn

_FIRST_FIXED = {13: 21, 14: 18, 15: 13, 16: 9, 17: 5}
"""Major → the first minor that forgets once more behind such transactions; all of 12 do not, all from 18 on do."""


def remembers_what_was_published(server_version: int) -> bool:
    """Whether a session of this server may go on so. ``server_version``: as libpq tells it."""
    major, minor = divmod(server_version, 10_000)
    return major < min(_FIRST_FIXED) or minor < _FIRST_FIXED.get(major, 0)


@dataclass(slots=True)
class _Seen:
    """``xid``: above those of all who were writing then; ``since``: where they had ended, None while some have not."""

    membership: str
    xid: int
    since: Lsn | None = None


class PublicationSessions:
    """One for each process.

    Attributes:
        behind: another session has to begin, at this LSN or behind; None where this one will do.
    """

    def __init__(self) -> None:
        self.behind: Lsn | None = None
        self._begun = Lsn(0)
        self._seen: dict[int, _Seen] = {}

    def begin(self, floor: Lsn) -> None:
        """Another session, of which nothing comes that committed below ``floor``."""
        self._begun, self.behind = floor, None

    def knows(self, relation_id: int, membership: str, oldest_xid: int, lsn: Lsn, next_xid: Callable[[], int]) -> bool:
        """Whether all who may have written before the table was such a member had ended when this session began.

        Args:
            oldest_xid: transactions below it have ended, and below ``lsn``.
            next_xid: gives an xid above those of all that have written until now.
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
        self.behind = max(self.behind or seen.since, seen.since)
        return False
