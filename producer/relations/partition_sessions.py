"""Whether the walsender publishes all partitions of a root under the root's name: before Postgres 15 it may not.

In: the partitions of a root that each look finds, and the LSNs at which sessions begin. Out: whether the root may be
copied in this session, or the LSN from which on another session has to begin. Pure.

Once a walsender has decoded a change of a table, it remembers for life under which name it publishes that table. Before
15, ATTACH and DETACH do not make it forget (PostgreSQL ``pgoutput.c``, ``rel_sync_cache_relation_cb``): it never sends
changes of an attached partition, and sends those of a detached one under its root's name. A session that begins after
the ATTACH or DETACH does it right.
"""

from walbridge.schemas.position import Lsn

SINCE_VERSION = 150000
"""The first server version whose walsender notices ATTACH and DETACH."""
Tree = frozenset[tuple[int, str]]
"""Each partition, and when it joined its parent."""


class PartitionSessions:
    """The partitions that were seen, and where the session began; one object for each process.

    Attributes:
        next_session_lsn: another session has to begin, at or after this LSN; None where this one will do.
    """

    def __init__(self) -> None:
        self.next_session_lsn: Lsn | None = None
        self._begun = Lsn(0)
        self._seen: dict[int, tuple[Tree, Lsn]] = {}

    def begin(self, floor: Lsn) -> None:
        """Begin another session. It brings no transaction that committed below ``floor``."""
        self._begun, self.next_session_lsn = floor, None

    def knows(self, root: int, tree: Tree, lsn: Lsn) -> bool:
        """Whether the root already had these partitions when this session began.

        Args:
            lsn: where the WAL stood after a look that showed them.
        """
        if root not in self._seen or self._seen[root][0] != tree:
            self._seen[root] = tree, lsn
        since = self._seen[root][1]
        if self._begun >= since:
            return True
        self.next_session_lsn = max(self.next_session_lsn or since, since)
        return False
