"""The source as metrics, ``walbridge status`` and ``walbridge check`` show it: server, slot, and the WAL held back.

In: settings or a connection. Out: values; reads only.
"""

from dataclasses import dataclass
from datetime import datetime

import psycopg

from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.slots import slot as slots
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

_SOURCE = """
SELECT current_setting('server_version'), clock_timestamp(),
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END
        - '0/0'::pg_lsn)::bigint
"""
_RETAINED = """
SELECT greatest(0, %(wal_lsn)s - (restart_lsn - '0/0'::pg_lsn))::bigint, {safe_wal_size}
FROM pg_replication_slots WHERE slot_name = %(slot)s
"""
_PREPARED = """
SELECT count(*) OVER (), gid, extract(epoch FROM clock_timestamp() - prepared)::float
FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Transactions of our database that are prepared and have no end yet."""

    count: int
    oldest_gid: str
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Slot:
    """Our row of pg_replication_slots. ``safe_wal_size_bytes`` None: as much as the disk holds.

    ``prepared``: what holds a slot with two_phase back; None: nothing, or no such slot.
    """

    active_pid: int | None
    wal_status: str | None
    retained_bytes: int | None
    safe_wal_size_bytes: int | None
    confirmed_flush_lsn: int | None
    prepared: Prepared | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The server. ``wal_lsn``: up to where its WAL is flushed, which is all that it sends."""

    version: str
    wal_lsn: int
    now: datetime
    slot: Slot | None


def source_of(settings: Settings) -> Source:
    """Server and slot.

    Raises:
        OperatorError, RetryableError: it does not let us in, or does not answer.
    """
    with connect_sql(dsn_of(settings), "walbridge status") as connection:
        return seen_by(connection, settings.postgres.slot)


def seen_by(connection: SqlConnection, slot: str) -> Source:
    """Server and slot, queried on an open connection. Raises as ``source_of``."""
    try:
        row = connection.execute(_SOURCE).fetchone()
        assert row is not None
        version, now, wal_lsn = row
        return Source(version, wal_lsn, now, slot_of(connection, slot, wal_lsn))
    except psycopg.Error as error:
        raise classified(error) from None


def slot_of(connection: SqlConnection, name: str, wal_lsn: int) -> Slot | None:
    """The slot and the WAL that it holds back; None where there is no such slot."""
    state = slots.inspect(connection, name)
    if state is None:
        return None
    safe_wal_size = "safe_wal_size" if connection.info.server_version >= 130000 else "NULL::bigint"
    row = connection.execute(
        _RETAINED.format(safe_wal_size=safe_wal_size).encode(), {"wal_lsn": wal_lsn, "slot": name}
    ).fetchone()
    retained_bytes, safe_wal_size_bytes = row or (None, None)
    prepared = connection.execute(_PREPARED.encode()).fetchone() if state.two_phase else None
    return Slot(
        state.active_pid,
        state.wal_status,
        retained_bytes,
        safe_wal_size_bytes,
        state.confirmed_flush,
        Prepared(*prepared) if prepared else None,
    )
