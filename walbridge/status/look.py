"""Asks Postgres, Kafka and the lake at once where they stand. Reads only.

In: settings. Out: a ``Standing``. No transactional instance is opened, which would fence the
running producer, and no group is joined; so it may run beside everything and as often as wanted.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

import psycopg
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from walbridge.control_records import WrittenCut, newest_cut, newest_progress
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres import slot as slots
from walbridge.producer.postgres.connection import SqlConnection, classified, connect_sql
from walbridge.schemas.errors import RetryableError, WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.spark_consumer.delta.manifest_reader import newest_published, newest_rows, open_table
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.status.standing import (
    Lake,
    LakeCut,
    NewestCut,
    Prepared,
    Published,
    Silent,
    Slot,
    Source,
    Standing,
    TableState,
)

T = TypeVar("T")

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


def look(settings: Settings) -> Standing:
    """One look at all three, side by side: one that does not answer holds up no other."""
    with ThreadPoolExecutor(3) as threads:
        source = threads.submit(_answer, lambda: source_of(settings))
        published = threads.submit(_answer, lambda: published_of(settings))
        lake = threads.submit(_answer, lambda: lake_of(settings))
        return Standing(
            pipeline=settings.name,
            slot_name=settings.postgres.slot,
            lake_path=settings.lake.path,
            at=datetime.now(UTC),
            source=source.result(),
            published=published.result(),
            lake=lake.result(),
        )


def _answer(ask: Callable[[], T]) -> T | Silent:
    try:
        return ask()
    except WalbridgeError as error:
        return Silent.because(error)


def source_of(settings: Settings) -> Source:
    """Server and slot.

    Raises:
        OperatorError, RetryableError: it does not let us in, or does not answer.
    """
    with connect_sql(dsn_of(settings), "walbridge status") as connection:
        try:
            row = connection.execute(_SOURCE).fetchone()
            assert row is not None
            version, now, wal_lsn = row
            return Source(version, wal_lsn, now, slot_of(connection, settings.postgres.slot, wal_lsn))
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


def published_of(settings: Settings) -> Published:
    """The newest progress and the newest cut.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record of newer code.
    """
    topics = TopicAdmin(settings).partition_counts()
    progress, newest = newest_progress(settings, topics), newest_cut(settings, topics)
    return Published(progress.state if progress else None, _newest_cut(newest) if newest else None)


def _newest_cut(newest: WrittenCut) -> NewestCut:
    cut = newest.cut
    # A cut without transactions is made when all that the server had was read.
    reached_s = newest.written_at_ms / 1000 if cut.commit_time_us is None else cut.commit_time_us / 1_000_000
    return NewestCut(cut.cut_id, cut.end_lsn, cut.complete, datetime.fromtimestamp(reached_s, UTC))


def lake_of(settings: Settings) -> Lake:
    """The newest published cut and the tables in it.

    Raises:
        RetryableError: the lake cannot be read.
    """
    options = {name: value.get_secret_value() for name, value in settings.lake.storage_options.items()}
    try:
        table = open_table(settings.lake.path, options)
        if table is None:
            return Lake(False, None, ())
        row = newest_published(table)
        return Lake(True, _lake_cut(row), _tables(row or _newest_applied(table)))
    except (DeltaError, OSError) as error:
        raise RetryableError(f"the lake at {settings.lake.path} cannot be read: {type(error).__name__}") from None


def _lake_cut(row: CutRow | None) -> LakeCut | None:
    if row is None:
        return None
    return LakeCut(row.sequence, row.to_cut, row.end_lsn, row.commit_time, row.written_at)


def _newest_applied(table: DeltaTable) -> CutRow | None:
    """A plan's row names only what it touches, an applied one every table."""
    return next((row for row in newest_rows(table, 2) if row.kind != "plan"), None)


def _tables(row: CutRow | None) -> tuple[TableState, ...]:
    entries = sorted(row.tables, key=lambda entry: entry.qualified_name) if row else ()
    return tuple(TableState(entry.qualified_name, entry.state, entry.since) for entry in entries)
