"""START_REPLICATION and what follows: CopyData in, standby status out.

In: a walsender and the LSN to begin at. Out: frames as bytes, one at a time, without ever
blocking in libpq, so that status updates flow while Kafka makes us wait: feedback alone keeps a
walsender alive whose data nobody reads.

A server that fell silent is asked, and given up if it does not answer: an idle one says nothing by
itself as long as it hears from us, and a dead path between two living hosts looks the same.
"""

import select
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq, sql

from walbridge.producer.pgoutput.frames import encode_standby_status
from walbridge.producer.postgres.connection import walsender_query
from walbridge.producer.postgres.interruptible import hung_up_after
from walbridge.producer.postgres.server_errors import classified, raise_for_result
from walbridge.schemas.control.progress_record import OWN_OPTIONS
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.position import Lsn, format_lsn

# A third of wal_sender_timeout, where 0 means none: the server's own keepalive queues behind a large
# transaction, so we may not wait to be asked.
_TIMEOUT_SHARE = 3
_QUOTE = "'"


class ReplicationStream:
    """One session of logical replication. Use as a context manager: closing ends the session."""

    def __init__(
        self, pgconn: pq.abc.PGconn, slot: str, status_interval_ms: int, silence_timeout_ms: int = 60_000
    ) -> None:
        self._pgconn = pgconn
        self.pid = pgconn.backend_pid
        self._slot = slot
        self._interval_s = status_interval_ms / 1000
        self._next_status_s = 0.0
        self._patience_s = silence_timeout_ms / 2000
        """Half of it until we ask, half for the answer."""
        self._heard_s = time.monotonic()
        self._asked_s: float | None = None
        self.received = Lsn(0)
        """The highest LSN that the server has reported; all that committed before it has been read. Kept only here."""
        self.confirmed = Lsn(0)
        self.on_drained: Callable[[], None] = lambda: None
        """Called when all that has arrived was read."""

    def __enter__(self) -> "ReplicationStream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._pgconn.finish()

    def start(self, start_lsn: Lsn, options: dict[str, str], confirmed: Lsn | None = None) -> None:
        """Begin to stream at ``start_lsn``. Options of our own (``walbridge.``) are not sent to the server.

        Args:
            confirmed: what the server is told until ``confirm`` is called; not given: ``start_lsn``.

        Raises:
            OperatorError: the slot is lost or an option is refused.
            RetryableError: the slot is still held by a session that ended a moment ago.
        """
        timeout = walsender_query(self._pgconn, "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")
        timeout_ms = int(timeout[0]["setting"] or 0)
        if timeout_ms:
            self._interval_s = min(self._interval_s, timeout_ms / 1000 / _TIMEOUT_SHARE)
        asked = {name: value for name, value in options.items() if not name.startswith(OWN_OPTIONS)}
        # Of a backslash SQL's literals make E'…', which this grammar does not know: to it a backslash is a sign as any.
        pairs = ", ".join(f"{name} '{value.replace(_QUOTE, 2 * _QUOTE)}'" for name, value in asked.items())
        name = sql.Identifier(self._slot).as_string(None)
        command = f"START_REPLICATION SLOT {name} LOGICAL {format_lsn(start_lsn)} ({pairs})"
        with hung_up_after(self._pgconn.socket, 2 * self._patience_s):
            result = self._pgconn.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise_for_result(self._pgconn, result)
            raise OperatorError(f"START_REPLICATION on slot {self._slot} was not accepted", "see the server's log")
        self._pgconn.nonblocking = 1
        self._heard_s = time.monotonic()
        self.confirmed = start_lsn if confirmed is None else confirmed

    def note_received(self, lsn: Lsn) -> None:
        """The server has reported that it is as far as this."""
        self.received = max(self.received, lsn)

    def read(self) -> bytes | None:
        """The next frame, or None when nothing more has arrived yet.

        Raises:
            RetryableError: the connection ended.
        """
        try:
            count, data = self._pgconn.get_copy_data(1)
            if count == 0:
                # Only look at the socket when libpq's buffer is used up.
                if not select.select([self._pgconn.socket], [], [], 0)[0]:
                    return None
                self._consume()
                count, data = self._pgconn.get_copy_data(1)
                if count == 0:
                    return None
            if count > 0:
                return bytes(data)
        except psycopg.Error as error:
            raise classified(error) from None
        raise self._ended()

    def wait(self, timeout_s: float) -> None:
        """Wait until something arrives, a status is due, or ``timeout_s`` has passed."""
        self.on_drained()
        due_s = max(self._next_status_s - time.monotonic(), 0)
        if not select.select([self._pgconn.socket], [], [], min(timeout_s, due_s))[0]:
            self._judge_silence()
        self.keep_alive()

    def _judge_silence(self) -> None:
        """Only where all that came has been read: what waits in the socket while Kafka is slow is no silence.

        Raises:
            RetryableError: the server was asked and did not answer.
        """
        now_s = time.monotonic()
        if self._asked_s is not None and now_s - self._asked_s > self._patience_s:
            raise RetryableError(f"Postgres has said nothing for {now_s - self._heard_s:.0f} s")
        if self._asked_s is None and now_s - self._heard_s > self._patience_s:
            self._next_status_s = 0.0

    def _consume(self) -> None:
        self._pgconn.consume_input()
        self._heard_s, self._asked_s = time.monotonic(), None

    def keep_alive(self) -> None:
        """Send a status update if one is due. Call it whenever something else makes us wait."""
        if time.monotonic() >= self._next_status_s:
            self.send_status()

    def owe_status(self, within_s: float) -> None:
        """Let the next status be due in ``within_s`` at the latest."""
        self._next_status_s = min(self._next_status_s, time.monotonic() + within_s)

    def confirm(self, lsn: Lsn) -> None:
        """Tell the server that everything before ``lsn`` is durable (I1).

        Never more than the server itself reported: it takes any LSN (PostgreSQL ``walsender.c``,
        ``ProcessStandbyReplyMessage``), and one wrong field would skip every later commit silently.
        Never less than before: old minors move the slot back.
        """
        if lsn > self.received:
            raise AssertionError(f"confirming {format_lsn(lsn)}, server reported {format_lsn(self.received)}")
        if lsn > self.confirmed:
            self.confirmed = lsn
            self.send_status()

    def send_status(self) -> None:
        """Send what is received and confirmed, now."""
        asks = time.monotonic() - self._heard_s > self._patience_s
        if asks and self._asked_s is None:
            self._asked_s = time.monotonic()
        status = encode_standby_status(
            max(self.received, self.confirmed), self.confirmed, time.time_ns() // 1000, reply_requested=asks
        )
        try:
            while self._pgconn.put_copy_data(status) == 0:
                select.select([], [self._pgconn.socket], [], 1.0)
            while self._pgconn.flush():
                # The server may be blocked on sending to us: take what it has, or both would wait.
                ready, _, _ = select.select([self._pgconn.socket], [self._pgconn.socket], [], 1.0)
                if ready:
                    self._consume()
        except psycopg.Error as error:
            raise classified(error) from None
        self._next_status_s = time.monotonic() + self._interval_s

    def _ended(self) -> RetryableError | OperatorError:
        try:
            raise_for_result(self._pgconn, self._pgconn.get_result(), is_stream=True)
        except (RetryableError, OperatorError) as error:
            return error
        return RetryableError("Postgres ended the replication stream")
