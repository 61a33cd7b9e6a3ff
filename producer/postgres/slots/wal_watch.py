"""The server's WAL and our slot, asked every few seconds beside the stream, for metrics alone.

In: settings. Out: what the server said last, and when. A thread of its own with a connection of its own: the
pipeline's loop asks nobody while it waits for Kafka, which is when an operator wants to know how much waits. A server
that does not answer is no error here, since the pipeline itself tells of it.
"""

import threading
import time
from typing import Self

from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.slots.slot_row import Source, seen_by
from walbridge.producer.postgres.slots.wal_samples import WalSamples
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

LOOK_S = 5.0
ANSWER_S = 5.0
END_S = 0.5
"""How long an end waits for a look that goes on; the thread keeps no process alive."""


class WalWatch:
    """Looks from its start to its end. A context manager."""

    def __init__(self, settings: Settings, look_s: float = LOOK_S) -> None:
        self._settings, self._look_s = settings, look_s
        self._connection: SqlConnection | None = None
        self._over, self._is_left = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="wal watch", daemon=True)
        self.samples = WalSamples()
        self.seen: Source | None = None
        """What the last answer said; kept while the server is away."""
        self.seen_s = time.monotonic()
        """When that came; before it, when the watch was made."""
        self.settled = 0
        """Set by whoever knows up to where nothing waits any more."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(END_S)

    @property
    def is_answered(self) -> bool:
        """Whether what was seen is of now: a look may take its time, and come to nothing once."""
        return self.seen is not None and time.monotonic() - self.seen_s < 2 * self._look_s + ANSWER_S

    def begin_anew(self) -> None:
        """A session has begun, maybe on another server than before: the next look connects as that has."""
        self._is_left.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self._look()
            self._over.wait(self._look_s)
        self._close()

    def _look(self) -> None:
        if self._is_left.is_set():
            self._is_left.clear()
            self._close()
        try:
            if self._connection is None:
                self._connection = connect_sql(dsn_of(self._settings), "walbridge metrics", ANSWER_S)
            seen = seen_by(self._connection, self._settings.postgres.slot)
        except (OperatorError, RetryableError):
            self._close()
            return
        now_s = time.monotonic()
        self.samples.add(now_s, seen.wal_lsn)
        self.samples.forget(self.settled)
        self.seen, self.seen_s = seen, now_s

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
