"""How a session answers the server's keepalives.

In: a keepalive. Out: how far the WAL was received; a status message, after a cut if one may move the LSN on.
"""

import time

from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.pgoutput.frames import PrimaryKeepalive
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.session.batch_ends import BatchEnds
from walbridge.producer.session.transactions.transaction import TransactionTracker

REPLY_INTERVAL_S = 0.2
"""A server that shuts down asks for replies in a tight loop until all is confirmed: at most one answer in this time."""


class Keepalives:
    """Answers the keepalives of one session."""

    def __init__(
        self, stream: ReplicationStream, transactions: TransactionTracker, cuts: CutMaker, ends: BatchEnds
    ) -> None:
        self._stream, self._transactions, self._cuts, self._ends = stream, transactions, cuts, ends

    def receive(self, frame: PrimaryKeepalive) -> None:
        """Take one keepalive."""
        self._stream.note_received(frame.wal_end)
        is_outside = self._transactions.open is None
        # A server that shuts down waits until all that it sent is confirmed (PostgreSQL walsender.c, WalSndDone):
        # what is open is closed now, and not when it is full.
        if frame.reply_requested and is_outside:
            self._ends.close()
        if frame.reply_requested and time.monotonic() - self._cuts.last_cut_s >= REPLY_INTERVAL_S:
            if is_outside:
                self._cuts.idle_cut(is_requested=True)
            self._stream.send_status()
        else:
            # The server asks once and then waits: answer after this interval, not only when the next status is due.
            # Until 12 it also waits where it does not ask, before it tells more of what it decodes (WalSndWaitForWal).
            self._stream.owe_status(REPLY_INTERVAL_S)
        self._stream.keep_alive()
