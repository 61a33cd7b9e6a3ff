"""Whether the server's session sends the partitions of a root as its own: before Postgres 15 it may not.

In: the partitions that a root has, look after look, and where sessions begin. Out: whether its rows may be read in this
one, or behind which LSN another session has to begin. Pure.

A walsender remembers for its life through which table it publishes one of which it has decoded a change. Before 15
ATTACH and DETACH do not make it forget (PostgreSQL ``pgoutput.c``, ``rel_sync_cache_relation_cb``): changes of what was
attached are never sent, those of what was detached come as its root's. A session that begins behind both knows.
"""

from walbridge.schemas.position import Lsn

SINCE_VERSION = 150000
"""Of servers that notice."""
Tree = frozenset[tuple[int, str]]
"""Each partition, and when it joined its parent."""


class PartitionSessions:
    """One for each process.

    Attributes:
        behind: another session has to begin, at this LSN or behind; None where this one will do.
    """

    def __init__(self) -> None:
        self.behind: Lsn | None = None
        self._begun = Lsn(0)
        self._seen: dict[int, tuple[Tree, Lsn]] = {}

    def begin(self, floor: Lsn) -> None:
        """Another session, of which nothing comes that committed below ``floor``."""
        self._begun, self.behind = floor, None

    def knows(self, root: int, tree: Tree, lsn: Lsn) -> bool:
        """Whether this session began when the root had these partitions already.

        Args:
            lsn: where the WAL stood after a look that showed them.
        """
        if root not in self._seen or self._seen[root][0] != tree:
            self._seen[root] = tree, lsn
        since = self._seen[root][1]
        if self._begun >= since:
            return True
        self.behind = max(self.behind or since, since)
        return False
