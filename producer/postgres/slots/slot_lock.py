"""One producer of a slot at a time: a lock in its database, held before anything in Kafka is fenced.

In: settings. Out: the lock, held for as long as its connection lives; or who holds it.

Kafka lets the newest producer write and ends the older one, so nothing is ever published by two. But a second start
by mistake would end a producer that runs well, and what the older one had just published looks to the newer one like
WAL that its server does not have. So whoever comes second waits here, before it touches what the first one has.

It is a session lock (``pg_try_advisory_lock``), which the server lets go of when the session ends, however that
happens. Its key is the first eight bytes of SHA-256 of ``walbridge/<slot>``, as a signed number, big end first. A
server would notice after hours that the holder's machine is gone: this session asks it to look within a minute.

A lock counts on its own server alone. After a failover the old primary may still answer who is connected to it already,
while new connections lead to the new one: so at each session's start the lock's server is compared with that of the
connection beside it, and the lock is taken anew where they differ. A server is told by when it was started.
"""

import hashlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import psycopg
import structlog

from walbridge.producer.errors.servers import slot_has_producer
from walbridge.producer.postgres.connection import BoundedConnection, SqlConnection, connect_sql, has_input
from walbridge.producer.postgres.interruptible import NoStop, Stop, connecting
from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

log = structlog.get_logger()

RETRY_S = 0.25
LOOK_S = 1.0
"""Between two looks at the connection while a session goes on."""
_TOLD_S = 10.0
_KEEPALIVE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
_HOLDER = """
SELECT l.pid, a.application_name, a.client_addr::text, a.backend_start
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) | l.objid::bigint = %s
"""
_SERVER = b"SELECT pg_postmaster_start_time()"


@dataclass(frozen=True, slots=True)
class Holder:
    """The session that has the lock. What the server does not show to our role is None."""

    pid: int
    application: str | None
    address: str | None
    since: datetime | None

    def __str__(self) -> str:
        told = [self.application or "a session without a name", f"Postgres pid {self.pid}"]
        told += [f"from {self.address}"] if self.address else []
        told += [f"since {self.since:%Y-%m-%d %H:%M:%S %Z}"] if self.since else []
        return ", ".join(told)


def lock_key(slot: str) -> int:
    """The key of the advisory lock of this slot, as the module's docstring describes it."""
    return int.from_bytes(hashlib.sha256(f"walbridge/{slot}".encode()).digest()[:8], "big", signed=True)


class SlotLock:
    """That of one process. Not shared between threads."""

    def __init__(self, settings: Settings, stop: Stop | None = None) -> None:
        self._settings, self._slot, self._stop = settings, settings.postgres.slot, stop or NoStop()
        self._server: datetime | None = None
        """Since when that runs on which it is held."""
        self._key = lock_key(self._slot)
        self._connection: BoundedConnection | None = None
        self._own_pids: set[int] = set()
        """The server processes through which this object ever held the lock: one may outlive its connection."""
        self._looked_s = 0.0

    def take(self, check_stop: Callable[[], None], beside: SqlConnection | None = None) -> None:
        """Hold it: at once where this process does already, else as soon as its holder ends.

        Args:
            check_stop: called while it waits; may raise.
            beside: a connection of the session, whose server it has to be on; None: as before.

        Raises:
            OperatorError: its holder has not ended within ``postgres.start_timeout_s``.
            RetryableError: the server is away, or this connection leads to another one.
        """
        server = self._server if beside is None else _server_of(beside)
        if server == self._server and self._is_held():
            return
        self.release()
        connection, deadline_s = self._connect(), time.monotonic() + self._settings.postgres.start_timeout_s
        try:
            self._server = found = _server_of(connection)
            if server is not None and server != found:
                raise RetryableError("two connections of one session lead to two servers, as while a failover goes on")
            self._wait(connection, deadline_s, check_stop)
        except psycopg.Error as error:
            connection.close()
            raise classified(error) from None
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._own_pids.add(connection.info.backend_pid)

    def refuse_lost(self) -> None:
        """Look now and then whether it is still held; costs nothing in between.

        Raises:
            RetryableError: it is not: another producer may begin, so what goes on here has to end first.
        """
        if time.monotonic() - self._looked_s >= LOOK_S and not self._is_held():
            raise RetryableError(f"the connection with the lock of slot {self._slot} was lost")

    def keep(self, check_stop: Callable[[], None]) -> None:
        """Look now and then whether the lock is still held, and take it again if it was lost. Raises as ``take``."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self.take(check_stop)

    def is_told_of_crash(self) -> bool:
        """Whether it was lost since a process of the server crashed."""
        return self._connection is not None and self._connection.is_told_of_crash()

    def release(self) -> None:
        """Release the lock, by closing its connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_held(self) -> bool:
        self._looked_s = time.monotonic()
        if self._connection is None:
            return False
        try:  # an idle session is told nothing but changed settings, and its end
            while has_input(self._connection.pgconn, 0):
                pass
        except (psycopg.Error, OSError, ValueError):  # closed by the server, by the kernel, by us
            return False
        return not self._connection.broken

    def _connect(self) -> BoundedConnection:
        dsn, answer_s = dsn_of(self._settings), self._settings.postgres.silence_timeout_ms / 1000
        connection = connecting(
            lambda: connect_sql(dsn, answer_timeout_s=answer_s), SqlConnection.close, self._stop.check
        )
        connection.should_stop = self._stop.should_stop
        try:
            for name, value in _KEEPALIVE.items():
                connection.execute(f"SET {name} = {value}".encode())
            # It is how others know us, also where the dsn names the application.
            connection.execute("SELECT set_config('application_name', %s, false)", (_own_name(),))
        except psycopg.Error as error:
            connection.close()
            raise classified(error) from None
        return connection

    def _wait(self, connection: SqlConnection, deadline_s: float, check_stop: Callable[[], None]) -> None:
        told_s = -_TOLD_S
        while not self._try(connection):
            holder = self._holder(connection)
            if holder is not None and self._is_own(holder):
                log.warning("the lock's lost connection is still there on the server: it is ended", holder=str(holder))
                connection.execute("SELECT pg_terminate_backend(%s)", (holder.pid,))
            elif holder is not None:  # else it has just ended
                if time.monotonic() > deadline_s:
                    raise slot_has_producer(self._slot, str(holder), holder.pid)
                if time.monotonic() - told_s >= _TOLD_S:
                    told_s = time.monotonic()
                    left_s = round(deadline_s - told_s)
                    log.warning(
                        "waiting for another producer of this slot to end", holder=str(holder), at_most_s=left_s
                    )
            check_stop()
            time.sleep(RETRY_S)

    def _is_own(self, holder: Holder) -> bool:
        """Whether it is this process, by a connection that was lost here and not there: by a firewall, say."""
        return holder.pid in self._own_pids and holder.application == _own_name()

    def _try(self, connection: SqlConnection) -> bool:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()
        return row is not None and bool(row[0])

    def _holder(self, connection: SqlConnection) -> Holder | None:
        row = connection.execute(_HOLDER.encode(), (self._key,)).fetchone()
        return None if row is None else Holder(*row)


def _server_of(connection: SqlConnection) -> datetime:
    """By which one start of a server is told from all others, also from those of copies of its disk."""
    try:
        ((started,),) = connection.execute(_SERVER).fetchall()
    except psycopg.Error as error:
        raise classified(error) from None
    assert isinstance(started, datetime)
    return started


def _own_name() -> str:
    return f"walbridge producer, process {os.getpid()} on {socket.gethostname()}"[:63]
