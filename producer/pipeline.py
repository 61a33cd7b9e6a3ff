"""The producer from top to bottom: guards, the first copy, then the stream for ever.

In: settings. Out: Kafka topics that hold everything Postgres committed, in order, once.

    connect → guards → [first copy] → stream from the floor ⟲ reconnect with back-off
"""

from collections.abc import Callable

import structlog

from producer import copy, errors
from producer.batching import OpenBatch
from producer.binary_guard import naming_unreadable
from producer.kafka.control_topics import MetadataWriter, read_metadata, read_progress
from producer.kafka.publisher import Publisher
from producer.kafka.topics import TopicAdmin, control_topics
from producer.metrics import COPYING, ProducerMetrics
from producer.postgres import slot
from producer.postgres.connection import SqlConnection, connect_sql, connect_walsender, retry_at_start
from producer.postgres.facts import ServerIdentity
from producer.postgres.replication_stream import ReplicationStream
from producer.postgres.requirements import ensure_publication, refuse_unfit_server, stream_options
from producer.progress import ProgressTracker
from producer.relation_cache import RelationCache
from producer.source_watch import SourceWatch
from producer.spool import Spool
from producer.start_guards import refuse_bad_copy, refuse_bad_start, refuse_foreign_slot, seen_timeline
from producer.streaming import Session
from producer.tables import Tables
from producer.waits import Stopped, Waits
from schemas.errors import OperatorError, RetryableError
from schemas.position import format_lsn
from schemas.progress_record import TIMELINE_OPTION, Progress
from schemas.settings import Settings

log = structlog.get_logger()


class Pipeline:
    """One slot's producer."""

    def __init__(
        self, settings: Settings, should_stop: Callable[[], bool], metrics: ProducerMetrics | None = None
    ) -> None:
        if not settings.postgres.dsn.get_secret_value():
            raise errors.no_dsn()
        self._settings = settings
        self._waits = Waits(should_stop)
        self._metrics = metrics or ProducerMetrics()
        self._stream: ReplicationStream | None = None
        self._connection: SqlConnection | None = None
        self._spool = Spool(settings)
        self._give_up_batch: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Until asked to stop.

        Raises:
            OperatorError: only a person can go on.
        """
        try:
            self._start()
            self._follow()
        except Stopped:
            pass
        finally:
            self._spool.close()
            self._disconnect()
            # An open transaction would hide from readers what others write after it.
            self._give_up_batch()
        log.info("stopped")

    def reserve_slot(self) -> bool:
        """Make the slot before the first start, beside progress ``creating``; False if it is there.

        It shows that the role may, and keeps its place among max_replication_slots. The first
        start makes it anew, since only then is there somebody to read its snapshot.

        Raises:
            OperatorError: a server does not fit, or the slot is somebody else's.
        """
        try:
            self._reconnect()
            assert self._connection is not None
            found = slot.inspect(self._connection, self._settings.postgres.slot)
            if found is not None:
                # A producer may be running on it: opening a transactional instance would fence it.
                if read_progress(self._settings) is None:
                    refuse_foreign_slot(found, self._settings.postgres.slot)
                return False
            server, _ = self._prepare()
            self._out.publish_progress(self._new(server))
            walsender = connect_walsender(self._dsn, "walbridge init")
            try:
                postgres = self._settings.postgres
                slot.create(walsender, postgres.slot, copy.report_waiting, two_phase=postgres.two_phase)
            finally:
                walsender.finish()
            return True
        finally:
            self._disconnect()

    def _start(self) -> None:
        """Guards, then the copy unless Kafka holds it."""
        timeout_s = self._settings.postgres.start_timeout_s
        server, progress = retry_at_start(self._prepare, timeout_s, pause=self._waits.sleep)
        if progress is None or progress.state != "streaming":
            self._copy(server)

    def _prepare(self) -> tuple[ServerIdentity, Progress | None]:
        """Everything that needs both peers: connections, guards, control topics, what was published."""
        settings = self._settings
        self._reconnect()
        assert self._connection is not None
        server = self._identify()
        refuse_unfit_server(self._connection, settings)
        if {"streaming", "two_phase"} & stream_options(settings, server.version).keys():
            self._spool.open()
        self._admin = TopicAdmin(settings)
        self._admin.ensure(control_topics(settings))
        self._publisher = Publisher(
            settings, f"{settings.name}/{server.system_id}/{settings.postgres.slot}", self._wait
        )
        self._give_up_batch = self._publisher.close
        self._metrics.watch_publisher(self._publisher)
        self._publisher.open_instance(settings.postgres.start_timeout_s)
        known, metadata_end = read_metadata(settings)
        self._metadata = MetadataWriter(settings, self._wait, metadata_end)
        cache = RelationCache(settings.name, known)
        self._tables = Tables(
            settings, self._connection, self._admin, cache, self._metadata, self._publisher, server.database
        )
        progress = read_progress(settings)
        self._out = OpenBatch(settings, self._publisher, self._metadata, ProgressTracker(progress or self._new(server)))
        self._out.on_committed = self._metrics.batch_committed
        found = slot.inspect(self._connection, settings.postgres.slot)
        server = self._identify()  # again: until it was fenced, another producer published what was not yet WAL then
        if progress is None:
            refuse_foreign_slot(found, settings.postgres.slot)
        elif progress.state == "streaming":
            refuse_bad_start(progress, server, found, stream_options(settings, server.version))
        else:
            refuse_bad_copy(progress, server, found)
        if progress is None or progress.state != "streaming":
            ensure_publication(self._connection, settings)
        return server, progress

    def _copy(self, server: ServerIdentity) -> None:
        pause_s = 0.5
        while True:
            try:
                self._reconnect()
                assert self._connection is not None
                self._metrics.enter(COPYING)
                copy.first_copy(
                    self._settings,
                    self._connection,
                    self._new(server),
                    self._out,
                    self._tables,
                    self._watch(self._connection),
                    self._waits.check,
                )
                return
            except RetryableError as error:
                self._metrics.peer_away(error)
                log.warning("copy begins again", reason=str(error))
                self._out.abandon()
                pause_s = self._waits.back_off(pause_s)

    def _follow(self) -> None:
        pause_s = 0.0
        while True:
            cut_before = self._out.tracker.progress.cut_id
            try:
                self._stream_once()
                return
            except RetryableError as error:
                self._metrics.peer_away(error)
                if self._out.tracker.progress.cut_id > cut_before:
                    pause_s = 0.0  # it worked meanwhile: this is another trouble than the last one
                log.warning("stream begins again", reason=str(error), pause_s=round(pause_s, 1))
                self._out.abandon()
                pause_s = self._waits.back_off(pause_s)

    def _stream_once(self) -> None:
        """One session, from the floor that Kafka holds."""
        self._reconnect()
        self._publisher.open_instance()
        progress = read_progress(self._settings)
        if progress is None:
            raise OperatorError(
                f"{self._settings.name}.progress was emptied while we ran",
                remedy="its cleanup.policy must be compact; start over with a new name and slot",
            )
        assert self._connection is not None
        server = self._identify()  # after the progress that it is compared with
        found = slot.inspect(self._connection, self._settings.postgres.slot)
        options = stream_options(self._settings, server.version)
        refuse_bad_start(progress, server, found, options)
        self._out.tracker.committed(progress)
        self._out.tracker.stream_with(options)
        if server.timeline != seen_timeline(progress):
            log.warning("failover accepted", timeline=server.timeline, before=seen_timeline(progress))
            self._out.tracker.adopt({TIMELINE_OPTION: str(server.timeline)})
        self._tables.forget_session(self._connection)
        self._spool.clear()
        watch = self._watch(self._connection)
        watch.open()
        walsender = connect_walsender(self._dsn, "walbridge")
        postgres = self._settings.postgres
        with ReplicationStream(
            walsender, progress.slot, postgres.status_interval_ms, postgres.silence_timeout_ms
        ) as stream:
            stream.start(progress.floor, options)
            log.info("streaming", floor=format_lsn(progress.floor), done=format_lsn(progress.done))
            self._stream = stream
            self._metrics.watch_stream(stream)
            try:
                session = Session(self._settings, stream, self._tables, self._out, watch, self._spool, server.version)
                self._metrics.watch_uncommitted(session.uncommitted)
                with naming_unreadable(self._connection, self._settings):
                    session.run(self._waits.should_stop)
            finally:
                self._stream = None

    def _watch(self, connection: SqlConnection) -> SourceWatch:
        return SourceWatch(self._settings, connection, self._admin, self._tables, self._out.tracker)

    @property
    def _dsn(self) -> str:
        return self._settings.postgres.dsn.get_secret_value()

    def _connect(self) -> SqlConnection:
        return connect_sql(self._dsn, "walbridge catalog", self._settings.postgres.silence_timeout_ms / 1000)

    def _reconnect(self) -> None:
        self._disconnect()
        self._connection = self._connect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _identify(self) -> ServerIdentity:
        walsender = connect_walsender(self._dsn, "walbridge identify")
        try:
            return slot.identify(walsender)
        finally:
            walsender.finish()

    def _new(self, server: ServerIdentity) -> Progress:
        return Progress(
            state="creating",
            system_id=server.system_id,
            timeline=server.timeline,
            slot=self._settings.postgres.slot,
            database=server.database,
            options=stream_options(self._settings, server.version),
        )

    def _wait(self) -> None:
        """Between slices of a wait for Kafka: keep Postgres' session alive, listen for a stop."""
        if self._stream is None:
            self._waits.check()
        else:
            self._stream.keep_alive()
            self._waits.check_patience()
