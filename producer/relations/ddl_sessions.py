"""Which sessions may ask for the publication that tells DDL, and when another one has to begin for it.

In: the publication, look after look, and where sessions begin. Out: whether to ask for it. Pure.

Before Postgres 18 a session ends with an error when it decodes a change from before the publication was made, or from
after it was dropped. A transaction is decoded as of its changes, wherever it commits. So a session asks for it when all
who were writing as it was found have ended below the LSN at which the session begins; or when the session before asked,
and it is the same publication still.
"""

from collections.abc import Callable

from walbridge.schemas.position import Lsn


class DdlSessions:
    """Those of one process.

    Attributes:
        publication: that this session asks for; None where it asks for none.
        behind: another session has to begin, at this LSN or behind; None where this one will do.
    """

    def __init__(self) -> None:
        self.publication: int | None = None
        self.behind: Lsn | None = None
        self._seen: tuple[int, int] | None = None
        """A publication, and an xid above those of all who were writing when it was seen."""
        self._usable: tuple[int, Lsn] | None = None
        self._doubted: int | None = None
        """One that the session before asked for in vain: it may have had another name, and has its own again."""

    def begin(self, asked_before: str | None, found: int | None, floor: Lsn) -> int | None:
        """Another session: what it asks for.

        Args:
            asked_before: what the session before asked for, as progress has it.
            found: the publication that is there.
            floor: nothing comes that committed below it.
        """
        is_usable = self._usable is not None and self._usable[0] == found and floor >= self._usable[1]
        is_as_before = asked_before == str(found) and found != self._doubted
        self.publication = found if found is not None and (is_as_before or is_usable) else None
        self.behind = self._seen = None
        return self.publication

    def doubt(self) -> None:
        """The session ended at a change from when the publication was not there."""
        self._doubted, self._usable = self.publication, None

    def look(self, found: int | None, oldest_xid: int, lsn: Lsn, next_xid: Callable[[], int]) -> None:
        """The publication that a look found.

        Args:
            oldest_xid: transactions below it have ended, and below ``lsn``.
            next_xid: gives an xid above those of all that have written until now.
        """
        if found is None or found == self.publication:
            self._seen = self.behind = None
        elif self._seen is None or self._seen[0] != found:
            self._seen, self.behind = (found, next_xid()), None
        elif self.behind is None and oldest_xid >= self._seen[1]:
            self._usable = found, lsn
            self.behind = lsn
