"""The replication slot: make, inspect, drop.

The server forwards a START before ``confirmed_flush_lsn`` silently, accepts one in the far
future, and accepts feedback beyond its own end (PostgreSQL ``walsender.c``). So the slot's row is read
before each START, and ``guards/start.py`` compares it with our progress.
"""

import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq, sql

from walbridge.producer.postgres.connection import has_input, rows_of, walsender_query
from walbridge.producer.postgres.facts import CreatedSlot, ServerIdentity, SlotState
from walbridge.producer.postgres.server_errors import classified, raise_for_result
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn, parse_lsn

SLICE_S = 0.5
LONG_WAIT_S = 5.0


def identify(pgconn: pq.abc.PGconn, should_stop: Callable[[], bool] | None = None) -> ServerIdentity:
    """Ask the walsender who it is."""
    (row,) = walsender_query(pgconn, "IDENTIFY_SYSTEM", should_stop)
    timeline = int(row["timeline"] or 0)
    switches: dict[int, Lsn] = {}
    if timeline > 1:  # the first one has no history
        (history,) = walsender_query(pgconn, f"TIMELINE_HISTORY {timeline}", should_stop)
        switches = switch_points(str(history["content"]))
    wal_end, database = parse_lsn(str(row["xlogpos"])), str(row["dbname"])
    return ServerIdentity(str(row["systemid"]), timeline, wal_end, database, pgconn.server_version, switches)


def switch_points(history: str) -> dict[int, Lsn]:
    """A timeline history file: ``<timeline> <LSN where it was left> <reason>`` a line."""
    lines = [line.split(maxsplit=2) for line in history.splitlines() if line.strip() and not line.startswith("#")]
    return {int(timeline): parse_lsn(lsn) for timeline, lsn, *_ in lines}


def inspect(connection: psycopg.Connection[Any], slot: str) -> SlotState | None:
    """The slot's row, None where there is no such slot."""
    two_phase = "two_phase" if connection.info.server_version >= 140000 else "false"
    wal_status = "wal_status" if connection.info.server_version >= 130000 else "NULL"
    since_17 = "failover, invalidation_reason" if connection.info.server_version >= 170000 else "false, NULL"
    query = (
        f"SELECT plugin, database, active_pid, {wal_status}, confirmed_flush_lsn::text, {two_phase}, {since_17} "
        "FROM pg_replication_slots WHERE slot_name = %s"
    )
    try:
        row = connection.execute(query.encode(), (slot,)).fetchone()
    except psycopg.Error as error:
        raise classified(error) from None
    if row is None:
        return None
    plugin, database, active_pid, status, confirmed, is_two_phase, is_kept, why = row
    confirmed_flush = parse_lsn(confirmed) if confirmed else None
    return SlotState(plugin, database, active_pid, status, confirmed_flush, bool(is_two_phase), bool(is_kept), why)


def is_followed(connection: psycopg.Connection[Any], slot: str) -> bool:
    """Whether a producer streams from it now: then the topics of all tables grow, mostly with a transaction open."""
    state = inspect(connection, slot)
    return state is not None and state.active_pid is not None


def wait_until_free(
    connection: psycopg.Connection[Any], slot: str, check_stop: Callable[[], None], timeout_s: float = 30.0
) -> None:
    """Until the walsender whose stream was closed has noticed that. Returns late all the same: a start then says so."""
    deadline_s = time.monotonic() + timeout_s
    while is_followed(connection, slot):
        check_stop()
        if time.monotonic() > deadline_s:
            return
        time.sleep(0.02)


def drop(connection: psycopg.Connection[Any], slot: str, timeout_s: float = 30.0) -> None:
    """Drop the slot if it exists; a walsender that just lost its client may hold it for a while."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (slot,),
            )
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise OperatorError(
                    f"slot {slot} is in use by another client",
                    remedy=f"stop that client: SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'",
                ) from None
            time.sleep(0.1)
        except psycopg.Error as error:
            raise classified(error) from None


def create(
    pgconn: pq.abc.PGconn,
    slot: str,
    on_wait: Callable[[], None],
    check_stop: Callable[[], None] = lambda: None,
    *,
    two_phase: bool = False,
    failover: bool = False,
) -> CreatedSlot:
    """Create the slot with an exported snapshot, valid until the next command on ``pgconn``.

    The server waits for every transaction that is running, for hours if need be, and sends
    nothing meanwhile: ``on_wait`` is called every 5 s. ``check_stop``, called oftener, may raise.
    """
    name = sql.Identifier(slot).as_string(None)
    try:
        # The keyword form is accepted by every version from 12 to 18 (PostgreSQL ``repl_gram.y``), and has no
        # word for two_phase or failover.
        words = ["SNAPSHOT 'export'", *(["TWO_PHASE"] if two_phase else []), *(["FAILOVER"] if failover else [])]
        form = f"({', '.join(words)})" if len(words) > 1 else "EXPORT_SNAPSHOT"
        pgconn.send_query(f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput {form}".encode())
        _wait_for_result(pgconn, on_wait, check_stop)
    except psycopg.Error as error:
        raise classified(error) from None
    result = pgconn.get_result()
    raise_for_result(pgconn, result)
    assert result is not None
    (row,) = rows_of(result)
    while pgconn.get_result() is not None:
        pass
    return CreatedSlot(parse_lsn(str(row["consistent_point"])), str(row["snapshot_name"]))


def keep_at_standbys(pgconn: pq.abc.PGconn, slot: str) -> None:
    """Have standbys keep a slot that was made without ``failover``; nobody may be using it.

    Raises:
        RetryableError: somebody is, or the server is away.
    """
    walsender_query(pgconn, f"ALTER_REPLICATION_SLOT {sql.Identifier(slot).as_string(None)} (FAILOVER true)")


def _wait_for_result(pgconn: pq.abc.PGconn, on_wait: Callable[[], None], check_stop: Callable[[], None]) -> None:
    waited_s = 0.0
    try:
        while pgconn.is_busy():
            if has_input(pgconn, SLICE_S):
                continue
            check_stop()
            waited_s += SLICE_S
            if waited_s % LONG_WAIT_S == 0:
                on_wait()
    except BaseException:
        # A server that waits for a transaction does not notice that we left, and would still make the slot.
        pgconn.get_cancel().cancel()
        raise
