"""One session of following the stream, from the floor of the progress that Kafka holds.

In: the parts of a pipeline. Out: Kafka transactions until asked to stop, or RetryableError: then the next
session begins where this one's progress stands, so nothing is lost and nothing comes twice (I4).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import structlog

from walbridge.producer.copying.next_epoch import begins_again
from walbridge.producer.guards.baseline import followed_names
from walbridge.producer.guards.same_past import can_be_asked, refuse_other_past
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.start import refuse_bad_start, refuse_moved_slot, seen_timeline
from walbridge.producer.kafka.control_topics import newest_ends, read_progress, refuse_lost_tail
from walbridge.producer.kafka.table_requests import TableRequests, copy_of_all_asked
from walbridge.producer.kafka.topic_specs import control_topics
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.named_origin import with_origin_of_session
from walbridge.producer.named_publications import settings_of_session
from walbridge.producer.pgoutput.options import with_publication
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.copy_beside.copy_reader import CopyReader
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.publications.ddl_publication import ddl_publication
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.requirements import stream_options
from walbridge.producer.postgres.server_crashes import Crash
from walbridge.producer.postgres.server_errors import DdlPublicationMissing
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.source import Source
from walbridge.producer.relations.binary_support import naming_unreadable
from walbridge.producer.session.loop import Session
from walbridge.producer.session.outdated_session import SessionOutdated
from walbridge.producer.session.parts import SessionParts
from walbridge.producer.session.transactions.transaction_spool import Spool, spool_parent
from walbridge.producer.start import Parts
from walbridge.producer.waits import Waits
from walbridge.schemas.control.progress_record import DDL_OPTION, TIMELINE_OPTION, Progress, why_lost
from walbridge.schemas.control.table_request import BEGINS_OPTION, read_until
from walbridge.schemas.ddl_row import DDL_PUBLICATION
from walbridge.schemas.errors import COPY_ALL_FIRST, KafkaAway, OperatorError, RetryableError, StreamLost
from walbridge.schemas.position import Lsn, format_lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

log = structlog.get_logger()


def follow_once(
    settings: Settings, source: Source, parts: Parts, spool: Spool, waits: Waits, metrics: ProducerMetrics
) -> None:
    """Stream until asked to stop.

    Raises:
        OperatorError: a guard refuses, or only a person can go on.
        RetryableError: a server went away.
    """
    connection = source.connect()
    source.lock.take(waits.check, connection)
    # Always a new instance: progress may only be read when no older commit can still land.
    parts.publisher.open_instance()
    progress = read_own_progress(settings)
    if begins_again(progress):
        raise StreamLost(progress.options[BEGINS_OPTION])
    server = source.identify()  # after the progress that it is compared with
    settings = _settings_of_session(settings, connection, parts, progress)
    options = stream_options(settings, server.version)
    found = slot.inspect(connection, settings.postgres.slot)
    refuse_bad_start(progress, server, found, options)
    if (what := why_lost(progress)) is not None and copy_of_all_asked(settings, progress) is not None:
        raise StreamLost(what)
    source.crashes.refuse(progress)
    parts.out.tracker.committed(progress)
    _accept_failover(parts, server, progress)
    if settings.postgres.failover and found is not None and not found.failover:
        _keep_at_standbys(source, progress.slot)
    parts.tables.forget_session(connection)
    told = _ddl_publication_of_session(connection, parts, progress)
    asked = options if told is None else options | {DDL_OPTION: str(told)}
    _refuse_other_past(settings, source, connection, parts, found, asked, waits)
    parts.tables.versions.read()
    spool.clear()
    watch = _opened_watch(settings, connection, parts)
    # Somebody may have set them otherwise since the start, which may be why the last session ended.
    parts.admin.check(control_topics(settings))
    refuse_lost_tail(settings, progress)
    # The watch compares what was asked for before.
    parts.out.tracker.remember_stream_options(asked)
    with _stream(settings, source) as stream, _noting_crash(source, stream, parts):
        stream.start(progress.floor, _sent(asked))
        refuse_moved_slot(progress, slot.inspect(connection, progress.slot), options)
        telling = {} if told is None else {"ddl_publication": DDL_PUBLICATION}
        log.info("streaming", floor=format_lsn(progress.floor), done=format_lsn(progress.done), **telling)
        metrics.watch_stream(stream, parts.out)
        of_session = SessionParts(settings, stream, parts.tables, parts.out, watch, spool, server.version)
        metrics.watch_pending(of_session.pending)
        with (
            waits.keeping_alive(stream),
            naming_unreadable(connection, settings),
            _copying(of_session, metrics),
            _noting_lost(parts),
        ):
            if watch.drops_before_stream:
                of_session.cuts.drop_unasked()
            Session(of_session).run(lambda: _should_stop(source, waits))


def _stream(settings: Settings, source: Source) -> ReplicationStream:
    postgres = settings.postgres
    return ReplicationStream(
        source.walsender(), postgres.slot, postgres.status_interval_ms, postgres.silence_timeout_ms
    )


def _sent(asked: dict[str, str]) -> dict[str, str]:
    """The options of START_REPLICATION."""
    return with_publication(asked, DDL_PUBLICATION) if DDL_OPTION in asked else asked


def _refuse_other_past(
    settings: Settings,
    source: Source,
    connection: SqlConnection,
    parts: Parts,
    found: SlotState | None,
    asked: dict[str, str],
    waits: Waits,
) -> None:
    """Ask the server for the transaction that was published last, in a stream of its own: what that one tells of
    tables is older than what progress holds."""
    progress = parts.out.tracker.progress
    if found is None or not can_be_asked(progress, found, asked, connection.info.server_version):
        return
    with _stream(settings, source) as stream, _noting_crash(source, stream, parts), _noting_lost(parts):
        refuse_other_past(stream, progress, found, _sent(asked), waits.check)
    slot.wait_until_free(connection, progress.slot, waits.check)


@contextmanager
def _copying(of_session: SessionParts, metrics: ProducerMetrics) -> Iterator[None]:
    """A block in which tables are copied beside the stream, and requests for copies are read."""
    settings, progress = of_session.settings, of_session.out.tracker.progress
    of_source = dsn_of(settings), settings.postgres.publication_names, str(spool_parent(settings))
    with (
        CopyReader(*of_source, settings.producer.copy_workers) as reader,
        CopyReader(*of_source) as whole_reader,
        TableRequests(settings, read_until(progress) or 0) as requests,
    ):
        copies = of_session.copy_with((reader, whole_reader), requests)
        metrics.watch_copies(lambda: copies.progress.standings)
        yield


@contextmanager
def _noting_crash(source: Source, stream: ReplicationStream, parts: Parts) -> Iterator[None]:
    """Count the end of this stream where the server crashed meanwhile."""
    try:
        yield
    except RetryableError as error:
        # Asked only where a server may be gone: to hear nothing takes seconds.
        if not isinstance(error, (KafkaAway, SessionOutdated)) and source.has_crashed():
            progress = parts.out.tracker.progress
            reached = Lsn(max(progress.done, progress.end_lsn, stream.received))
            done = 0 if progress.split is None else progress.split.messages_done
            count = source.crashes.note(Crash(stream.pid, reached, done))
            log.warning("Postgres crashed", pid=stream.pid, received=format_lsn(reached), in_a_row=count)
        raise


@contextmanager
def _noting_lost(parts: Parts) -> Iterator[None]:
    """Add to an error of the stream what whoever catches it has to know."""
    try:
        yield
    except StreamLost as lost:
        lost.is_in_wal = True
        raise
    except DdlPublicationMissing:
        parts.tables.ddl_sessions.note_refused()
        raise


def _settings_of_session(settings: Settings, connection: SqlConnection, parts: Parts, progress: Progress) -> Settings:
    """With the publications and the origin that this session follows, which may not be all that settings name."""
    settings = settings_of_session(settings, connection, parts.tables, progress)
    settings = with_origin_of_session(settings, parts.tables, progress)
    if {*followed_names(progress, names := settings.postgres.publication_names)} != {*names}:
        log.info("other publications are followed from now on", publications=list(names))
    if awaited := parts.tables.awaited_publications:
        log.info("other publications are named, and followed soon", publications=list(awaited))
    return settings


def _ddl_publication_of_session(connection: SqlConnection, parts: Parts, progress: Progress) -> int | None:
    """The publication that tells DDL, if this session asks for it."""
    found = ddl_publication(connection)
    is_as_before = progress.options.get(DDL_OPTION) == str(found)
    return parts.tables.ddl_sessions.begin(found, progress.floor, is_as_before=is_as_before)


def _opened_watch(settings: Settings, connection: SqlConnection, parts: Parts) -> SourceWatch:
    """Of this session, once it has compared the source with what progress remembers. Raises as its ``open``."""
    watch = SourceWatch(settings, connection, parts.admin, parts.tables, parts.out.tracker)
    watch.notices_tables = True
    parts.publisher.on_first_rows, parts.publisher.on_late = watch.topics.refuse_others, watch.topics.suspect
    watch.topics.published_ends = partial(newest_ends, settings)
    watch.open()
    return watch


def _keep_at_standbys(source: Source, name: str) -> None:
    walsender = source.walsender("walbridge slot")
    try:
        slot.keep_at_standbys(walsender, name)
    finally:
        walsender.finish()
    log.info("standbys keep the slot from now on", slot=name)


def _should_stop(source: Source, waits: Waits) -> bool:
    source.lock.refuse_lost()
    return waits.should_stop()


def read_own_progress(settings: Settings) -> Progress:
    """The newest progress of a pipeline that has written one.

    Raises:
        OperatorError: it is gone.
    """
    progress = read_progress(settings)
    if progress is None:
        raise OperatorError(
            f"{settings.name}.progress was emptied while we ran",
            remedy=f"its cleanup.policy must be compact; {COPY_ALL_FIRST}",
        )
    return progress


def _accept_failover(parts: Parts, server: ServerIdentity, progress: Progress) -> None:
    """Record the new timeline. The guards have already found that this primary has all that was published."""
    if server.timeline != seen_timeline(progress):
        log.warning("failover accepted", timeline=server.timeline, before=seen_timeline(progress))
        parts.out.tracker.remember_options({TIMELINE_OPTION: str(server.timeline)})
