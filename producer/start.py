"""The start of a pipeline: both peers are there and fit, and what they hold is known.

In: settings. Out: the parts that live as long as the process, or a refusal by a guard. Another producer of this slot is
waited for: until the slot's lock is held, only missing control topics are made. What a guard can know before that, it
refuses before that.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.next_epoch import begins_again, metadata_begins_at
from walbridge.producer.first_copy import report_waiting
from walbridge.producer.guards.start import (
    refuse_bad_beginning,
    refuse_bad_copy,
    refuse_foreign_slot,
    refuse_start,
    refuse_unfit_start,
)
from walbridge.producer.guards.unfit.named_objects import named_object_faults
from walbridge.producer.guards.unfit.publication_faults import brittle_lists
from walbridge.producer.kafka.control_topics import MetadataWriter, read_metadata, read_progress, refuse_overtaken
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.kafka.table_requests import copy_of_all_asked
from walbridge.producer.kafka.topic_specs import control_topics
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.named_publications import make_missing
from walbridge.producer.postgres.catalog import published_tables_unless_locked
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.facts import ServerIdentity, SlotState
from walbridge.producer.postgres.publications.ddl_publication import ddl_publication
from walbridge.producer.postgres.requirements import refuse_unfit_server, stream_options
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.source import Source
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.producer.waits import Waits
from walbridge.schemas.control.progress_record import DDL_OPTION, METADATA_OPTION, Progress
from walbridge.schemas.control.table_request import READ_OPTION
from walbridge.schemas.errors import OperatorError, StreamLost
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.topics import metadata_topic, progress_topic

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pipeline is made of. ``progress``: what Kafka held at the start."""

    server: ServerIdentity
    progress: Progress | None
    admin: TopicAdmin
    publisher: Publisher
    tables: Tables
    out: OpenBatch

    @property
    def needs_copy(self) -> bool:
        """Kafka holds no finished copy, and the tables are not to be copied beside the stream."""
        progress = self.progress
        return progress is None or (progress.state != "streaming" and not begins_again(progress))


def start(settings: Settings, source: Source, spool: Spool, waits: Waits, metrics: ProducerMetrics) -> Parts:
    """Connect to both peers, ask the guards, and read what was published.

    Raises:
        OperatorError: a guard refuses.
        RetryableError: a server is away.
    """
    connection = source.connect()
    server = source.identify()
    refuse_unfit_server(connection, settings)
    options = stream_options(settings, server.version)
    if {"streaming", "two_phase"} & options.keys():
        spool.open()
    admin = TopicAdmin(settings)
    admin.ensure(control_topics(settings))
    publisher = Publisher(settings, transactional_id(settings, server.system_id), waits.for_kafka)
    metrics.watch_publisher(publisher)
    _refuse_beside_another(settings, connection, source, options)
    source.lock.take(waits.check, connection)
    # From here on one that knows no lock is fenced, too: what it committed before is all that it ever will.
    publisher.on_opened = partial(admin.wait_decided, [spec.name for spec in control_topics(settings)])
    publisher.open_instance(settings.postgres.start_timeout_s)
    progress = read_progress(settings)
    if progress is not None:
        admin.ask_settings_ahead(each.topic for each in progress.tables.values() if each.topic)
    cache, metadata_end = known_relations(settings, progress)
    metadata = MetadataWriter(settings, waits.for_kafka, metadata_end, server.system_id)
    tables = Tables(settings, connection, admin, cache, metadata, publisher, server.database)
    tracker = ProgressTracker(progress or new_progress(settings, server))
    out = OpenBatch(settings, publisher, metadata, tracker)
    out.on_committed = metrics.batch_committed
    publisher.on_replaced = lambda: refuse_overtaken(settings, tracker.progress)
    found = slot.inspect(connection, settings.postgres.slot)
    # Again: until it was fenced, another producer published what was not yet WAL when we asked first.
    server = source.identify()
    parts = Parts(server, progress, admin, publisher, tables, out)
    if progress is None and (former := former_progress(settings, admin)) is not None:
        refuse_bad_copy(former, server, found)
        log.warning("the pipeline has a new name: all tables are copied", name=settings.name, before=settings.formerly)
    else:
        with unless_copied_again(settings, progress):
            refuse_start(progress, server, found, options, settings.postgres.slot)
    if parts.needs_copy:
        make_missing(settings, connection, progress)
        tables.registry.reach()
    _warn(connection, settings)
    return parts


def _warn(connection: SqlConnection, settings: Settings) -> None:
    """Say what is followed now, and may not be told, or end the stream, once other things are altered."""
    published = published_tables_unless_locked(connection, settings.postgres.publication_names) or []
    for fault in (*named_object_faults(connection, published), *brittle_lists(published)):
        log.warning(fault.what, remedy=fault.remedy)


def _refuse_beside_another(
    settings: Settings, connection: SqlConnection, source: Source, options: Mapping[str, str]
) -> None:
    """Refuse what would be refused later anyway, before another producer is waited for.

    That one may go on meanwhile. What it publishes has a slot and is WAL, so both are asked after progress. A slot
    without progress is not refused here: the first progress of another may be committed and not readable yet.
    """
    progress = read_progress(settings)
    if progress is None:
        return
    found, server = slot.inspect(connection, settings.postgres.slot), source.identify()
    if progress.state == "streaming":
        with unless_copied_again(settings, progress):
            refuse_unfit_start(progress, server, found, options)
    elif begins_again(progress):
        refuse_bad_beginning(progress, server, found)
    else:
        refuse_bad_copy(progress, server, found)


def former_progress(settings: Settings, admin: TopicAdmin) -> Progress | None:
    """What was published of the same slot under the pipeline's name of before, if it had one.

    Raises:
        OperatorError: the topics of that name say nothing of the slot.
        RetryableError: Kafka is away.
    """
    if settings.formerly is None:
        return None
    former = settings.model_copy(update={"name": settings.formerly, "formerly": None})
    is_there = admin.partition_counts_of([progress_topic(former.name)])
    progress = read_progress(former) if is_there else None
    if progress is None:
        raise OperatorError(
            f"{progress_topic(former.name)} says nothing of slot {settings.postgres.slot}, which this pipeline had",
            remedy="set formerly to the name that the pipeline had, or leave it out",
        )
    return progress


def transactional_id(settings: Settings, system_id: str) -> str:
    """Of the producers of our slot on that cluster: the newest of them fences the others."""
    return f"{settings.name}/{system_id}/{settings.postgres.slot}"


def known_relations(settings: Settings, progress: Progress | None) -> tuple[RelationCache, int]:
    """What the metadata topic holds, and its end."""
    begins_at = 0
    if progress is not None and METADATA_OPTION in progress.options:
        with PartitionLog(settings, metadata_topic(settings.name), 0) as topic:
            begins_at = metadata_begins_at(progress, topic.bounds()[1])
    cache = RelationCache(settings.name, read_metadata(settings, 0, begins_at)[0] if begins_at else ())
    cache.begin_at(begins_at)
    known, end = read_metadata(settings, begins_at)
    for record in known:
        cache.remember(record)
    return cache, end


@contextmanager
def unless_copied_again(settings: Settings, progress: Progress | None) -> Iterator[None]:
    """A block whose refusals do not count where all tables are to be copied again, which mends them."""
    try:
        yield
    except StreamLost:
        if progress is None or copy_of_all_asked(settings, progress) is None:
            raise


def new_progress(settings: Settings, server: ServerIdentity) -> Progress:
    """The progress of a pipeline that has copied nothing yet."""
    return Progress(
        state="creating",
        system_id=server.system_id,
        timeline=server.timeline,
        slot=settings.postgres.slot,
        database=server.database,
        options=stream_options(settings, server.version) | {READ_OPTION: "0"},
    )


def progress_before_slot(settings: Settings, server: ServerIdentity, connection: SqlConnection) -> Progress:
    """The same where the slot is about to be made: a publication that tells DDL is older than it will be."""
    progress, told = new_progress(settings, server), ddl_publication(connection)
    return progress if told is None else replace(progress, options=progress.options | {DDL_OPTION: str(told)})


def refuse_slot_of_others(settings: Settings, found: SlotState) -> None:
    """Refuse a slot of which our topics say nothing. They are only read: a producer may be running on it, and opening a
    transactional instance would fence it.

    Raises:
        OperatorError: it is somebody else's.
        RetryableError: Kafka is away.
    """
    admin = TopicAdmin(settings)
    is_there = admin.partition_counts_of([progress_topic(settings.name)])
    is_known = bool(is_there) and read_progress(settings) is not None
    if not is_known and former_progress(settings, admin) is None:
        refuse_foreign_slot(found, settings.postgres.slot)


def reserve_slot(settings: Settings) -> bool:
    """Make the slot before the first start, beside progress ``creating``; False if it is there.

    This proves that the role may create a slot, and takes one of the server's max_replication_slots. The first
    start drops it and creates it again, because its snapshot lives no longer than the connection that made it.

    Raises:
        OperatorError: a server does not fit, or the slot is somebody else's.
    """
    source, name = Source(settings), settings.postgres.slot
    try:
        found = slot.inspect(source.connect(), name)
        if found is not None:
            refuse_slot_of_others(settings, found)
            return False
        parts = start(settings, source, Spool(settings), Waits(lambda: False), ProducerMetrics())
        parts.tables.registry.close()
        with connect_sql(dsn_of(settings), "walbridge init") as connection:
            if slot.inspect(connection, name) is not None:  # another init made it while this one waited for the lock
                return False
        parts.out.publish_progress(new_progress(settings, parts.server))
        walsender = source.walsender("walbridge init")
        try:
            slot.create(
                walsender,
                name,
                report_waiting,
                two_phase=settings.postgres.two_phase,
                failover=settings.postgres.failover,
            )
        finally:
            walsender.finish()
        return True
    finally:
        source.close()
        source.lock.release()
