"""Which sessions may ask for publications that were made while a pipeline ran, and when another one has to begin.

In: the publications that each look finds, and the LSNs at which sessions begin. Out: whether to ask for them. Pure.

Before Postgres 18 a session ends with an error when it decodes a change that was made before the publication, or after
it was dropped; when the change was committed does not matter. So a session asks for a publication in two cases: all
transactions that were open when it was found have ended below the LSN at which the session begins; or the session
before asked for it, and it is still the same publication.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from walbridge.schemas.position import Lsn

Found = TypeVar("Found", bound=Hashable)
"""What identifies the publications, whatever they are called: an oid, or the names with their oids."""


class LatePublications(Generic[Found]):
    """Publications that are asked for together, followed through the sessions of one process.

    Attributes:
        asked: the publications that this session asks for; None where it does not ask for them.
        next_session_lsn: another session has to begin, at or after this LSN; None where this one will do.
    """

    def __init__(self) -> None:
        self.asked: Found | None = None
        self.next_session_lsn: Lsn | None = None
        self._seen: tuple[Found, int] | None = None
        """The publications of the last looks, and an xid above all transactions that had written when they were first
        seen."""
        self._usable: tuple[Found, Lsn] | None = None
        """The publications, and the LSN from which on a session may ask for them."""
        self._refused: Found | None = None
        """The publications that the server refused to the session before: they may have had another name for a
        while."""

    def begin(self, found: Found | None, floor: Lsn, *, is_as_before: bool) -> Found | None:
        """Begin another session, and return what it asks for.

        Args:
            found: the publications that exist.
            floor: the session brings no transaction that committed below this LSN.
            is_as_before: whether the session before asked for the same publications.
        """
        is_usable = self._usable is not None and self._usable[0] == found and floor >= self._usable[1]
        may_go_on = is_as_before and found != self._refused
        self.asked = found if found is not None and (may_go_on or is_usable) else None
        self.next_session_lsn = self._seen = None
        return self.asked

    def note_refused(self) -> None:
        """The session ended with an error, at a change that was made while the publications did not exist."""
        self._refused, self._usable = self.asked, None

    def look(self, found: Found | None, oldest_xid: int, lsn: Lsn, next_xid: Callable[[], int]) -> None:
        """A look found these publications.

        Args:
            oldest_xid: all transactions below it had ended at ``lsn``.
            next_xid: returns an xid above those of all transactions that have written until now.
        """
        if found is None or found == self.asked:
            self._seen = self.next_session_lsn = None
        elif self._seen is None or self._seen[0] != found:
            self._seen, self.next_session_lsn = (found, next_xid()), None
        elif self.next_session_lsn is None and oldest_xid >= self._seen[1]:
            self._usable = found, lsn
            self.next_session_lsn = lsn
