"""How often to look at the catalogue: before each cut if looks are quick, else when something was altered.

In: when the last look began and ended, and whether the catalogue has changed since. Out: whether another look is due.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.storage.catalog_digest import catalog_digest

INTERVAL_S = 10.0
"""The longest time between two looks."""
_SHARE = 50
"""Regular looks take at most one part in so many of the time. With few tables there is a look before each cut."""


class LookPace:
    """Decides when the next look of one kind is due."""

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
    """Decides when the next look at all followed tables is due."""

    def __init__(self, connection: SqlConnection, relation_ids: Callable[[], Iterable[int]]) -> None:
        super().__init__()
        self._connection, self._relation_ids = connection, relation_ids
        self._digest: tuple[int, int] | None = None
        self.is_altered = True
        """Whether the current or last look may find something that the one before did not."""

    def is_due_before_cut(self) -> bool:
        """Whether to look before a cut: since time allows it, or since the catalogue has changed since the last look.

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
