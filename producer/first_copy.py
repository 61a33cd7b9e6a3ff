"""The first copy: every published table as of the slot's snapshot, then the stream takes over. Tables that come later,
or are copied again, are copied beside the stream (``session/copies/table_copies.py``).

    creating ──slot with exported snapshot──▶ copying ──all tables──▶ streaming

A crash before ``streaming`` begins again: the slot is dropped, a new one opens a new epoch, and
each table's ``copy_begin`` and ``t`` void what an unfinished copy left in its topic. Cuts inside
the copy are incomplete, so nobody takes half a copy for a state of the source (I8).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.troubles import after_trouble
from walbridge.producer.encoding.record import RecordWriter, TransactionSource
from walbridge.producer.errors import UnfitRow, unfit_row
from walbridge.producer.guards.replica_identity import refuse_unfit_identities
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_walsender
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.table_reads.snapshot import Snapshot
from walbridge.producer.relations.tables import Tables
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.cut import Cut, PartitionRange
from walbridge.schemas.control.progress_record import PARTITIONS_OPTION, Progress
from walbridge.schemas.control.table_progress import COPYING, TableProgress
from walbridge.schemas.errors import ProtocolError, RetryableError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position, format_lsn
from walbridge.schemas.settings import Settings

log = structlog.get_logger()


def first_copy(
    settings: Settings,
    connection: SqlConnection,
    progress: Progress,
    out: OpenBatch,
    tables: Tables,
    watch: SourceWatch,
    check_stop: Callable[[], None],
) -> None:
    """Copy all published tables.

    0. What would fail after hours is refused before there is a slot, which holds WAL back.
    1. Progress ``creating``: a slot found later beside it is ours, and half made.
    2. The slot, with its snapshot.
    3. Progress ``copying``, with the epoch that the slot opens.
    4. Each table: copy_begin, ``t``, its rows, copy_end.
    5. Progress ``streaming``, in the transaction of the last cut.

    Args:
        check_stop: called where stopping loses nothing but the copy; raises to stop.
    """
    dsn = settings.postgres.dsn.get_secret_value()
    published = catalog.published_tables(connection, settings.postgres.publication_names)
    tables.refuse_unfit(published, connection, progress.tables)
    refuse_unfit_identities(connection, settings, published)
    kill_point("copy:before-creating")
    out.publish_progress(replace(progress, state="creating"))
    kill_point("copy:creating")
    slot.drop(connection, settings.postgres.slot)
    kill_point("copy:slot-dropped")
    walsender = connect_walsender(dsn, "walbridge slot")
    try:
        created = slot.create(
            walsender, settings.postgres.slot, report_waiting, check_stop, two_phase=settings.postgres.two_phase
        )
        kill_point("copy:slot-created")
        at = created.consistent_point
        out.publish_progress(
            replace(progress, state="copying", consistent_point=at, cut_id=0, end_lsn=at, done=at, floor=at)
        )
        kill_point("copy:copying")
        with Snapshot(dsn, created.snapshot) as snapshot:
            if catalog.published_tables(snapshot.connection, settings.postgres.publication_names) != published:
                raise RetryableError("the publication was changed while its copy was about to begin")
            snapshot.lock(published)
            _refuse_altered(snapshot, connection, published)
            writers = tables.prepare_copy(published, connection, progress.tables)
            copying = [TableProgress(table.relation_id, COPYING) for table in published]
            # Topics as they are now, the publication as of the snapshot: the first look finds what was changed since.
            baseline = watch.baseline(copying, snapshot.connection)
            out.tracker.remember_options(baseline.options | {PARTITIONS_OPTION: str(settings.topics.partitions)})
            out.tracker.remember_tables(baseline.tables)
            log.info("copy begins", tables=len(published), consistent_point=format_lsn(at))
            stops = settings.producer.on_table_error == "stop"
            for table, writer in zip(published, writers, strict=True):
                _copy_table(snapshot, table, writer, at, out, check_stop, stops=stops)
                kill_point("copy:table")
    finally:
        walsender.finish()
    out.open()
    kill_point("copy:before-streaming")
    _commit(out, finished=tuple(table.relation_id for table in published))
    kill_point("copy:streaming")


def _refuse_altered(snapshot: Snapshot, connection: SqlConnection, tables: list[PublishedTable]) -> None:
    """Refuse tables that were altered or truncated between the snapshot and the locks.

    COPY would find them empty or in another shape, since no snapshot hides either. Only a comparison of the
    catalogue as of the snapshot with the catalogue as of now tells.
    """
    relation_ids = [table.relation_id for table in tables]
    if catalog.storage_of(snapshot.connection, relation_ids) != catalog.storage_of(connection, relation_ids):
        raise RetryableError("a table was altered or truncated while its copy was about to begin")


def _copy_table(
    snapshot: Snapshot,
    table: PublishedTable,
    writer: RecordWriter,
    at: Lsn,
    out: OpenBatch,
    check_stop: Callable[[], None],
    *,
    stops: bool,
) -> None:
    """One table; one of which a row cannot be published is left, unless that ``stops`` all. Its rows are read to the
    end all the same: to break off would end the snapshot.
    """
    started_s, rows = time.monotonic(), 0
    unfit: UnfitRow | None = None
    source = out.copied_source(at)
    out.open()
    out.add_barrier(writer, "copy_begin", Position(at, COPIED_ORDINAL))
    out.send_to_all_partitions(writer, writer.truncate(source, COPIED_ORDINAL, out.ts_ms, copies=True))
    copied = snapshot.rows(table)
    for row in copied:
        if row is None and (row := _after_silence(copied, out, check_stop)) is None:
            break
        unfit = unfit or _send(writer, row, source, at, out, stops=stops)
        rows += 1
        # The clock is asked now and then only; bytes always, since a row may have megabytes.
        if (rows % 100 == 0 or out.batch.byte_count >= out.bytes_max) and out.is_full:
            _commit(out)
            kill_point("copy:rows")
            check_stop()
            out.open()
    if unfit is None:
        out.add_barrier(writer, "copy_end", Position(at, COPIED_ORDINAL + 1))
    else:
        _leave(writer, unfit, source, at, out)
    if out.is_full:
        _commit(out)
        check_stop()
    if unfit is None:
        log.info("copied", table=table.qualified_name, rows=rows, seconds=round(time.monotonic() - started_s, 2))


def _send(
    writer: RecordWriter, row: bytes, source: TransactionSource, at: Lsn, out: OpenBatch, *, stops: bool
) -> UnfitRow | None:
    """Queue a row; why it cannot be published."""
    try:
        out.send_copied(writer, row, source, is_incremental=False)
    except (ProtocolError, UnfitRow) as error:
        unfit = unfit_row(writer.relation, Position(at, COPIED_ORDINAL), error)
        if stops:
            raise unfit from None
        return unfit
    return None


def _leave(writer: RecordWriter, reason: UnfitRow, source: TransactionSource, at: Lsn, out: OpenBatch) -> None:
    """A table that this copy does not hold: what was sent of it is void, and it waits for ``walbridge copy``."""
    relation, place = writer.relation, Position(at, COPIED_ORDINAL + 1)
    name = relation.table.qualified_name
    out.add_barrier(writer, "truncate", place)
    out.send_to_all_partitions(writer, writer.truncate(source, place.ordinal, out.ts_ms, copies=True))
    known = TableProgress(relation.table.relation_id, COPYING, relation.topic)
    known = out.tracker.progress.tables.get(known.relation_id, known)
    out.leave_table(relation, place, after_trouble(known, name, at, reason.what, may_copy=False, now_s=time.time()))
    log.warning("table is quarantined", table=name, reason=reason.what, remedy=reason.remedy)


def _after_silence(rows: Iterator[bytes | None], out: OpenBatch, check_stop: Callable[[], None]) -> bytes | None:
    """The next row, None at the end. A row filter may pass none for hours: Kafka would abort a batch that is open."""
    row: bytes | None = None
    while row is None:
        if out.is_open and out.is_full:
            _commit(out)
        check_stop()
        row = next(rows, b"")
    out.open()
    return row or None


def _commit(out: OpenBatch, finished: tuple[int, ...] | None = None) -> None:
    def records(ranges: list[PartitionRange], metadata_end: int) -> tuple[Progress, Cut]:
        return out.tracker.close_copy(out.batch, ranges, metadata_end, time.time_ns() // 1000, finished)

    out.commit_batch(records)


def report_waiting() -> None:
    """Log why the copy has not begun; called every few seconds while Postgres creates the slot."""
    log.warning("the slot waits for transactions that were open before it; see pg_stat_activity")
