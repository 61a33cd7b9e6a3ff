"""The changes of one table while all of its rows are read in one piece, set aside until the rows are in the topic.

In: the table's changes in the order of their commits, from a moment before the snapshot S of the rows was taken;
how S tells transactions apart. Out: the changes that S lacks, in their order; or why the rows are void.

OPEN --show--> READING --finish_reading--> READ, drained once nothing is left; each may become VOID.

Why rows and then these changes are the table: S sees every transaction that was received before this was opened
(else it is void), and of those received since exactly what ``Snapshot.contains`` says. So the rows are the table
without what is handed out here, and what is handed out are changes of that very table, each once and in the order of
their commits. No key is needed, and rows may be equal: which of several equal ones a change takes away is nothing
that anybody can tell.

The rows stand at the position at which the copy began, which is at or below the moment in which this was opened, and
every change has its own, which is above. So position order is the order in which they are in the topic. What S
contains is never published. It was in the WAL before the insert position that was asked for with S, and the copy ends
once the stream has been received up to there: nothing of it can come later.
"""

from typing import Generic, Protocol, TypeVar

from walbridge.producer.copying.visibility import Before, Snapshot
from walbridge.producer.copying.window import Void
from walbridge.schemas.position import Lsn

Record = TypeVar("Record")


class Queue(Protocol[Record]):
    """First in, first out, with the xid of each record's transaction; where it keeps them is its own affair."""

    def append(self, xid: int, record: Record) -> None:
        """Add one at the end."""

    def take(self) -> tuple[int, Record] | None:
        """The first one, which leaves; None where there is none."""

    def __len__(self) -> int:
        """How many there are."""


class SetAside(Generic[Record]):
    """The changes of one copy in one piece.

    Args:
        before: what was received until now (``ReceivedTransactions.before``).
        queue: an empty one.
    """

    def __init__(self, before: Before, queue: Queue[Record]) -> None:
        self.void: Void | None = None
        self.before = before
        self._queue = queue
        self._snapshot: Snapshot | None = None
        self._read_until: Lsn | None = None

    def __len__(self) -> int:
        """How many wait, at most: some of them the snapshot may contain."""
        return len(self._queue)

    def receive(self, xid: int, record: Record) -> None:
        """A change, of a committed transaction with this top-level xid of 32 bits."""
        if self.void is None and not self._is_contained(xid):
            self._queue.append(xid, record)

    def show(self, snapshot: Snapshot) -> None:
        """The snapshot with which the rows are read."""
        self._snapshot = snapshot
        if not self.before.has_ended_in(snapshot):
            self.spoil(Void.IN_PROGRESS)
        elif not self.before.is_contained_in(snapshot):
            self.spoil(Void.NOT_VISIBLE)

    @property
    def waits_for(self) -> int | None:
        """The xid, of 32 bits, of a transaction that the snapshot should contain and does not."""
        return None if self._snapshot is None else self.before.missing_from(self._snapshot)

    def finish_reading(self, insert_lsn: Lsn) -> None:
        """All rows are in the topic; ``insert_lsn`` is the WAL insert position, asked for with the snapshot."""
        self._read_until = insert_lsn

    @property
    def is_read(self) -> bool:
        """Whether changes may follow the rows."""
        return self.void is None and self._read_until is not None

    def is_drained(self, received: Lsn) -> bool:
        """Whether the topic holds the table at the LSN up to which the stream has been received: between
        transactions."""
        return self._read_until is not None and self.is_read and received >= self._read_until and not self._queue

    def spoil(self, why: Void) -> None:
        """Rows and changes are void. The first reason stays."""
        self.void = self.void or why

    def take(self) -> Record | None:
        """The next change to publish, after all rows; None where there is none now."""
        assert self.is_read, "a change before the rows that it is a change of"
        while (first := self._queue.take()) is not None:
            xid, record = first
            if not self._is_contained(xid):
                return record
        return None

    def _is_contained(self, xid: int) -> bool:
        return self._snapshot is not None and self._snapshot.contains_received(xid)
