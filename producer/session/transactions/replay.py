"""Streamed and prepared transactions, shown again at their commit as if they had come whole.

In: the messages of a session that speak of such transactions, and their frames while they come. Out: at a
commit, the Begin of the transaction, then its frames one by one, then its Commit. Whoever reads the stream
reads them from here by the same loop, so the limits, splits and stops of any transaction hold for them too.

Each change is shown with the relation version that it was made under (``session_relations.py``), whatever
the stream announced since. No Kafka and no Postgres: tests use this very class.
"""

from collections.abc import Callable, Iterator

from walbridge.producer.pgoutput.messages import Begin, Commit, Message, Relation
from walbridge.producer.session.transactions.pending_transactions import Committed, PendingTransactions
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.position import Lsn


class Replay:
    """Replays the transactions of one session.

    Args:
        keep_alive: called for each piece that is read from disk, since the stream is not read meanwhile.
    """

    def __init__(
        self, pending: PendingTransactions, relations: SessionRelations, keep_alive: Callable[[], None]
    ) -> None:
        self._pending = pending
        self._relations = relations
        self._keep_alive = keep_alive
        self._committed: Committed | None = None
        self._frames: Iterator[bytes] = iter(())
        self._arrivals: Iterator[int] = iter(())
        """Numbers of the Relations of the transaction that is replayed."""

    @property
    def is_open(self) -> bool:
        """A transaction is being replayed."""
        return self._committed is not None

    @property
    def first_lsn(self) -> Lsn:
        """No change of the transaction that is replayed stands before this WAL position."""
        spooled = self._committed.spooled if self._committed is not None else None
        return Lsn(spooled.first_lsn if spooled is not None else 0)

    def receive(self, message: Message) -> Begin | None:
        """Take a message about pending transactions; returns the Begin of the transaction that it commits, if it does.

        Raises:
            ProtocolError: no such transaction or block is open.
            OperatorError: the changes of a committed transaction did not come.
        """
        committed = self._pending.receive(message)
        if committed is None:
            return None
        self._committed = committed
        self._relations.show_all(committed.relations)
        spooled = committed.spooled
        if spooled is not None:
            self._arrivals = spooled.arrivals_left() if committed.adds_relations else iter(())
            self._frames = spooled.frames(self._keep_alive)
            kill_point("spool:replaying")
        return Begin(committed.commit_lsn, committed.commit_time_us, committed.xid)

    def relation(self, message: Relation) -> None:
        """Take a Relation of the stream, or of the transaction that is replayed."""
        if self._committed is None:
            self._relations.receive(message)
        else:
            self._relations.show(message, next(self._arrivals, None))

    def read(self) -> bytes | None:
        """The next frame of the transaction; None at its end."""
        return next(self._frames, None)

    def end(self) -> Commit:
        """The Commit of the transaction, once all of it was read. Its place on disk is freed."""
        committed, self._committed = self._committed, None
        assert committed is not None
        self._frames, self._arrivals = iter(()), iter(())
        self._relations.end_replay()
        if committed.spooled is not None:
            committed.spooled.remove()
        return Commit(committed.commit_lsn, committed.end_lsn, committed.commit_time_us)
