"""The Postgres that a pipeline follows: a connection to ask the catalogue, walsenders, and the lock of its slot.

In: settings. Out: connections that name themselves in ``pg_stat_activity``.
"""

from psycopg import pq

from walbridge.producer.postgres.connection import BoundedConnection, SqlConnection, connect_sql, connect_walsender
from walbridge.producer.postgres.facts import ServerIdentity
from walbridge.producer.postgres.interruptible import NoStop, Stop, connecting
from walbridge.producer.postgres.server_crashes import ServerCrashes
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.slots.slot_lock import SlotLock
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of


class Source:
    """One for each process; has at most one connection to the catalogue at a time.

    Args:
        stop: whoever asks for one need not wait for a server that does not answer.
        crashes: those of the server under our streams.

    Raises:
        OperatorError: the settings name no server.
    """

    def __init__(self, settings: Settings, stop: Stop | None = None, crashes: ServerCrashes | None = None) -> None:
        self._stop = stop or NoStop()
        self._dsn = dsn_of(settings)
        self._answer_s = settings.postgres.silence_timeout_ms / 1000
        self._open: list[BoundedConnection] = []
        self.crashes = crashes or ServerCrashes()
        self.lock = SlotLock(settings, self._stop)

    def connect(self) -> SqlConnection:
        """A new connection to the catalogue; the last one is closed.

        Raises:
            OperatorError: the server does not let us in.
            RetryableError: it is away.
        """
        self.close()
        connection = connecting(
            lambda: connect_sql(self._dsn, "walbridge catalog", self._answer_s), SqlConnection.close, self._stop.check
        )
        connection.should_stop = self._stop.should_stop
        self._open.append(connection)
        return connection

    def close(self) -> None:
        """Let go of the catalogue."""
        while self._open:
            self._open.pop().close()

    def has_crashed(self) -> bool:
        """Whether the server has told us so, by the lock's connection, which is idle, or the catalogue's."""
        return self.lock.is_told_of_crash() or any(connection.is_told_of_crash() for connection in self._open)

    def walsender(self, purpose: str = "walbridge") -> pq.abc.PGconn:
        """A replication connection. Raises as ``connect``."""
        return connecting(lambda: connect_walsender(self._dsn, purpose), _finish, self._stop.check)

    def identify(self) -> ServerIdentity:
        """Which server this is, and on which timeline. Raises as ``connect``."""
        walsender = self.walsender("walbridge identify")
        try:
            return slot.identify(walsender, self._stop.should_stop)
        finally:
            walsender.finish()


def _finish(walsender: pq.abc.PGconn) -> None:
    walsender.finish()
