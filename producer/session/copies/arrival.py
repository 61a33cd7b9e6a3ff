"""Whether the stream has reached an LSN up to which rows were read.

In: an LSN of the server's WAL, and how far the stream has been received. Out: whether the stream has reached it. If
that takes long, a transaction of ours makes the server flush its WAL.
"""

import time

from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.schemas.position import Lsn

_WAIT_S = 0.5


class Arrival:
    """Watches the stream of one session."""

    def __init__(self, stream: ReplicationStream, watch: SourceWatch) -> None:
        self._stream, self._watch = stream, watch
        self._waits_s = 0.0

    def has_come(self, lsn: Lsn) -> bool:
        """Whether the stream has been received up to this LSN. A server without commits does not flush its last WAL,
        and so does not send it: after half a second, a transaction of ours makes it."""
        if self._stream.received >= lsn:
            self._waits_s = 0.0
            return True
        now_s = time.monotonic()
        self._waits_s = self._waits_s or now_s
        if now_s - self._waits_s > _WAIT_S:
            self._watch.now.next_xid()
            self._waits_s = now_s
        return False
