"""Tables at whose rows the server meets a fault of its own while all tables are copied in one snapshot.

In: faults as they come, each of which ends the attempt for all tables. Out: the tables that later attempts leave to the
copies beside the stream, where such a fault is that of one table. It may pass by itself, so the first ones do not count
as one that comes each time.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from walbridge.producer.errors.tables import Unreadable, cannot_be_read
from walbridge.schemas.errors import ServerFault

FAULTS_MAX = 2
"""So often the copy of all tables begins again for one of them: it may have read the others for hours."""


class ReadFaults:
    """Those of one process."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._unreadable: dict[int, Unreadable] = {}

    @property
    def unreadable(self) -> dict[int, Unreadable]:
        """By relation id, why a copy of all tables cannot have this one."""
        return dict(self._unreadable)

    @contextmanager
    def of(self, relation_id: int, name: str) -> Iterator[None]:
        """A block that reads the rows of this table."""
        try:
            yield
        except ServerFault as fault:
            self._counts[relation_id] += 1
            if self._counts[relation_id] > FAULTS_MAX:
                self._unreadable[relation_id] = cannot_be_read(name, fault)
            raise
