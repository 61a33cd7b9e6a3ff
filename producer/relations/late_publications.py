"""Which sessions may ask for publications that came while a pipeline runs, and when another one has to begin for them.

In: the publications, look after look, and where sessions begin. Out: whether to ask for them. Pure.

Before Postgres 18 a session ends with an error when it decodes a change from before a publication was made, or from
after it was dropped. A transaction is decoded as of its changes, wherever it commits. So a session asks for it when all
who were writing as it was found have ended below the LSN at which the session begins; or when the session before asked,
and it is the same publication still.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from walbridge.schemas.position import Lsn

Found = TypeVar("Found", bound=Hashable)
"""What tells publications from others that have their names: an id, or the ids of several."""


class LatePublications(Generic[Found]):
    """Those that a process may come to ask for together.

    Attributes:
        asked: what this session asks for; None where it does not.
        behind: another session has to begin, at this LSN or behind; None where this one will do.
    """

    def __init__(self) -> None:
        self.asked: Found | None = None
        self.behind: Lsn | None = None
        self._seen: tuple[Found, int] | None = None
        """Publications, and an xid above those of all who were writing when they were seen."""
        self._usable: tuple[Found, Lsn] | None = None
        self._doubted: Found | None = None
        """What the session before asked for in vain: it may have had another name, and has its own again."""

    def begin(self, found: Found | None, floor: Lsn, *, is_as_before: bool) -> Found | None:
        """Another session: what it asks for.

        Args:
            found: the publications that are there.
            floor: nothing comes that committed below it.
            is_as_before: whether the session before asked for these.
        """
        is_usable = self._usable is not None and self._usable[0] == found and floor >= self._usable[1]
        may_go_on = is_as_before and found != self._doubted
        self.asked = found if found is not None and (may_go_on or is_usable) else None
        self.behind = self._seen = None
        return self.asked

    def doubt(self) -> None:
        """The session ended at a change from when the publications were not there."""
        self._doubted, self._usable = self.asked, None

    def look(self, found: Found | None, oldest_xid: int, lsn: Lsn, next_xid: Callable[[], int]) -> None:
        """The publications that a look found.

        Args:
            oldest_xid: transactions below it have ended, and below ``lsn``.
            next_xid: gives an xid above those of all that have written until now.
        """
        if found is None or found == self.asked:
            self._seen = self.behind = None
        elif self._seen is None or self._seen[0] != found:
            self._seen, self.behind = (found, next_xid()), None
        elif self.behind is None and oldest_xid >= self._seen[1]:
            self._usable = found, lsn
            self.behind = lsn
