"""A new epoch in the same topics (``walbridge copy --all``), where the stream cannot go on; and the first epoch of a
pipeline whose tables are to be copied beside the stream.

    streaming ──asked for──▶ creating ──new slot──▶ streaming: every table is stale, and copied beside the stream
        first start ───────────▲

In: progress of an epoch that is lost, a request, the server as it is now. Out: a slot of our own, and cut 1 of a new
epoch at its consistent point, which says ``dropped`` of each table: nothing of it comes before its ``copy_begin``.
From there on it is a session like any other (``follow.py``): it copies what is stale.

Progress ``creating`` comes first and takes the request. A start that finds it drops whatever slot is there and makes
it anew, also where a server's LSNs are so that slot and old progress seem to fit. A consumer is told nothing before
cut 1, which goes with progress ``streaming`` in one Kafka transaction, so a kill at any step begins this anew.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from walbridge.producer.copying.next_epoch import Recorded, begins_again, next_epoch
from walbridge.producer.first_copy import fit_tables, report_waiting
from walbridge.producer.follow import read_own_progress
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.start import refuse_bad_beginning, refuse_other_cluster
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.kafka.table_requests import RequestsRead, copy_of_all_asked
from walbridge.producer.named_publications import make_missing
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import ServerIdentity
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.source import Source
from walbridge.producer.start import Parts, progress_before_slot, transactional_id
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange
from walbridge.schemas.control.progress_record import METADATA_OPTION, Progress, lost_option
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS, STALE, TableProgress
from walbridge.schemas.control.table_request import BEGINS_OPTION, read_until
from walbridge.schemas.errors import RetryableError, StreamLost
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position, format_lsn
from walbridge.schemas.settings import Settings

log = structlog.get_logger()


def begin_first(settings: Settings, parts: Parts, connection: SqlConnection, progress: Progress) -> None:
    """Leave word that the first epoch begins: every table waits for its copy. The rest is as in any other epoch.

    Args:
        progress: of a pipeline that has copied nothing yet.

    Raises:
        OperatorError: what would fail after hours, before there is a slot, which holds WAL back.
    """
    published = fit_tables(settings, connection, parts.tables, progress)
    waiting = (
        TableProgress(table.relation_id, STALE, name=table.qualified_name, why=FIRST_COPY_WAITS) for table in published
    )
    kill_point("first:before-creating")
    creating = replace(
        progress,
        options=progress.options | {BEGINS_OPTION: FIRST_COPY_WAITS},
        tables={table.relation_id: table for table in waiting},
    )
    parts.out.publish_progress(creating)
    kill_point("first:creating")
    log.info("first copy: each table is copied beside the stream, one after the other", tables=len(published))


def begin_again(
    settings: Settings, source: Source, parts: Parts, check_stop: Callable[[], None], lost: StreamLost
) -> None:
    """Begin the next epoch, if that was asked for; again after a kill at any place.

    Raises:
        StreamLost: nobody asked.
        OperatorError: the slot is another's, or there is no publication.
        RetryableError: a server is away.
    """
    parts.out.abandon()
    connection = source.connect()
    source.lock.take(check_stop, connection)
    _fence_others(settings, parts, check_stop)
    last, server = read_own_progress(settings), source.identify()
    requests = copy_of_all_asked(settings, last)
    if requests is None:
        if not begins_again(last):
            if lost.is_in_wal:
                told = lost_option(server.wal_end, lost.what, is_crash=lost.is_crash)
                _remember(parts, replace(last, options=last.options | told))
            raise lost
        refuse_other_cluster(last, server)
    if server.system_id != parts.server.system_id:
        raise RetryableError("the server behind [postgres] dsn is being replaced")
    refuse_bad_beginning(last, server, slot.inspect(connection, last.slot))
    make_missing(settings, connection, last)
    creating = _creating(settings, parts, connection, last, server, requests, lost.what)
    if lost.what != FIRST_COPY_WAITS:
        log.warning("a new epoch begins: every table is stale until it is copied", reason=lost.what)
    parts.out.tracker.committed(last)
    kill_point("again:before-creating")
    parts.out.publish_progress(creating)
    kill_point("again:creating")
    parts.tables.versions.begin_at(int(creating.options.get(METADATA_OPTION, 0)))
    at = _new_slot(settings, source, connection, check_stop)
    watch = SourceWatch(settings, connection, parts.admin, parts.tables, parts.out.tracker)
    parts.out.tracker.remember_options(watch.now.baseline([]).options)
    _publish_cut(parts, at)
    kill_point("again:streaming")
    log.info("new epoch", consistent_point=format_lsn(at), tables=len(creating.tables))


def _remember(parts: Parts, stuck: Progress) -> None:
    """A copy of all tables that is asked for from here on begins a new epoch: no session may take it for its own and
    end before its copies do."""
    parts.out.tracker.committed(stuck)
    parts.out.publish_progress(stuck)


def _fence_others(settings: Settings, parts: Parts, check_stop: Callable[[], None]) -> None:
    """Whatever an older producer had open is aborted, also one that follows another cluster."""
    before = read_own_progress(settings).system_id
    if before != parts.server.system_id:
        publisher = Publisher(settings, transactional_id(settings, before), check_stop)
        publisher.open_instance()
        publisher.close()
    parts.publisher.open_instance()


def _creating(
    settings: Settings,
    parts: Parts,
    connection: SqlConnection,
    last: Progress,
    server: ServerIdentity,
    requests: RequestsRead | None,
    why: str,
) -> Progress:
    end = parts.tables.versions.read()
    others = None
    if last.system_id != server.system_id:
        published = catalog.published_tables(connection, settings.postgres.publication_names)
        others = {table.qualified_name: table.relation_id for table in published}
    records = parts.tables.versions.newest(last.tables)
    return next_epoch(
        last,
        progress_before_slot(settings, server, connection),
        why,
        () if requests is None else requests.requests,
        (read_until(last) or 0) if requests is None else requests.next_offset,
        Recorded(
            names={record.table.relation_id: record.table.qualified_name for record in records},
            topics={record.table.relation_id: record.topic for record in records},
            end=end,
        ),
        others,
    )


def _new_slot(settings: Settings, source: Source, connection: SqlConnection, check_stop: Callable[[], None]) -> Lsn:
    """Its consistent point: every transaction that the stream does not bring was committed before."""
    name = settings.postgres.slot
    slot.drop(connection, name)
    kill_point("again:slot-dropped")
    walsender = source.walsender("walbridge slot")
    try:
        created = slot.create(
            walsender,
            name,
            report_waiting,
            check_stop,
            two_phase=settings.postgres.two_phase,
            failover=settings.postgres.failover,
        )
    finally:
        walsender.finish()
    kill_point("again:slot-created")
    return created.consistent_point


def _publish_cut(parts: Parts, at: Lsn) -> None:
    out = parts.out
    out.open()
    for table in out.tracker.progress.tables.values():
        if table.state == STALE and table.topic is not None:
            out.batch.add_barrier(table.relation_id, table.topic, Barrier("dropped", Position(at, COPIED_ORDINAL)))

    def records(ranges: list[PartitionRange], metadata_end: int) -> tuple[Progress, Cut]:
        return out.tracker.begin_epoch(out.batch, ranges, metadata_end, time.time_ns() // 1000, at)

    kill_point("again:before-streaming")
    out.commit_batch(records)
