"""How often the catalogue is looked at: before each cut where that is quick, else once anything was altered.

In: when the last look began and ended, and whether the catalogue is the one that it found. Out: whether another one is
due.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.storage.catalog_digest import catalog_digest

INTERVAL_S = 10.0
"""Between looks, at most."""
_SHARE = 50
"""Looks that nothing asks for take no more than this part of the time: with few tables there is one before each cut."""


class LookPace:
    """Of one kind of looks."""

    def __init__(self) -> None:
        self.looked_s = self.took_s = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether the last look was a while ago."""
        return time.monotonic() - self.looked_s >= INTERVAL_S

    @property
    def is_due(self) -> bool:
        """Whether there may be one before a cut."""
        return time.monotonic() - self.looked_s >= min(self.took_s * _SHARE, INTERVAL_S)

    @contextmanager
    def look(self) -> Iterator[None]:
        """The block is a look."""
        begun_s = self.looked_s = time.monotonic()
        yield
        self.looked_s = time.monotonic()
        self.took_s = self.looked_s - begun_s


class CatalogPace(LookPace):
    """Of looks at all tables that are followed."""

    def __init__(self, connection: SqlConnection, relation_ids: Callable[[], Iterable[int]]) -> None:
        super().__init__()
        self._connection, self._relation_ids = connection, relation_ids
        self._digest: tuple[int, int] | None = None
        self.is_altered = True
        """Whether the look that is taken, or was last, may find what the one before did not."""

    def is_due_before_cut(self) -> bool:
        """Whether there is to be one, since time allows it or since what the last one found is not so any more.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        return self.is_due or catalog_digest(self._connection, self._relation_ids()) != self._digest

    @contextmanager
    def look(self) -> Iterator[None]:
        """As ``LookPace``. What is altered while it is taken is seen by the next."""
        with super().look():
            digest = catalog_digest(self._connection, self._relation_ids())
            self.is_altered, self._digest = digest != self._digest, digest
            yield
