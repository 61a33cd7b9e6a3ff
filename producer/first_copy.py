"""The first copy in one snapshot: every published table as of the slot's, then the stream takes over. Tables that come
later, or are copied again, are copied beside the stream (``session/copies/table_copies.py``); so are all, from the
first start on, where settings say so (``begin_again.py``).

    creating ──slot with exported snapshot──▶ copying ──all tables──▶ streaming

A crash before ``streaming`` begins again: the slot is dropped, a new one opens a new epoch, and
each table's ``copy_begin`` and ``t`` void what an unfinished copy left in its topic. Cuts inside
the copy are incomplete, so nobody takes half a copy for a state of the source (I8).
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.copying.read_faults import ReadFaults
from walbridge.producer.copying.troubles import after_trouble
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.first_copy_table import Ends, TableOfCopy, commit, end_silent_batch
from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.unfit.foreign_rows import refuse_foreign_rows
from walbridge.producer.guards.unfit.replica_identity import refuse_unfit_identities
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_walsender
from walbridge.producer.postgres.copy_workers.pool import Answered, CopyWorkers, worker_count
from walbridge.producer.postgres.copy_workers.protocol import Beginning, PieceWanted
from walbridge.producer.postgres.facts import CreatedSlot, PublishedTable
from walbridge.producer.postgres.interruptible import connecting
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.table_reads.pieces import Piece, pieces_of
from walbridge.producer.postgres.table_reads.snapshot import Snapshot
from walbridge.producer.postgres.table_reads.table_size import table_pages, table_sizes
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.transactions.transaction_spool import spool_parent
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.control.progress_record import PARTITIONS_OPTION, Progress
from walbridge.schemas.control.table_progress import COPYING, TableProgress
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.position import Lsn, format_lsn
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

LOOK_S = 5.0
"""How often the connection that holds the locks is looked at, while others read."""


def first_copy(
    settings: Settings,
    connection: SqlConnection,
    progress: Progress,
    out: OpenBatch,
    tables: Tables,
    watch: SourceWatch,
    check_stop: Callable[[], None],
    faults: ReadFaults,
) -> None:
    """Copy all published tables.

    0. What would fail after hours is refused before there is a slot, which holds WAL back.
    1. Progress ``creating``: a slot found later beside it is ours, and half made.
    2. The slot, with its snapshot.
    3. Progress ``copying``, with the epoch that the slot opens. A table whose schema the registry refuses is left to
       the copies beside the stream, and so is one at whose rows the server fails each time.
    4. Each table: copy_begin, ``t``, its rows, copy_end.
    5. Progress ``streaming``, in the transaction of the last cut.

    Args:
        check_stop: called where stopping loses nothing but the copy; raises to stop.
        faults: of the attempts before.
    """
    published = fit_tables(settings, connection, tables, progress)
    with _new_slot(settings, connection, progress, out, check_stop) as created:
        at = created.consistent_point
        with Snapshot(settings.postgres.dsn.get_secret_value(), created.snapshot) as snapshot:
            _lock_as_published(settings, snapshot, connection, published)
            writers, refused = tables.prepare_copy(published, connection, progress.tables)
            left = _left(settings, published, {**refused, **faults.unreadable}, at)
            copied = [table for table in published if table.relation_id not in left]
            writers = [each for each in writers if each.relation.table.relation_id not in left]
            copying = [TableProgress(table.relation_id, COPYING) for table in copied]
            # Topics as they are now, the publication as of the snapshot: the first look finds what was changed since.
            baseline = watch.now.baseline(copying, snapshot.connection)
            _remember(out, baseline, watch.stream_facts, settings.topics.partitions)
            out.tracker.remember_options(tables.topics.options_besides(progress.options))
            out.tracker.remember_tables(left)
            log.info("copy begins", tables=len(copied), consistent_point=format_lsn(at))
            _Tables(settings, snapshot, at, out, check_stop, faults).copy(copied, writers)
            snapshot.refuse_lost()  # every lock was held to the end
    out.open()
    kill_point("copy:before-streaming")
    commit(out, finished=tuple(table.relation_id for table in published))
    kill_point("copy:streaming")


@contextlib.contextmanager
def _new_slot(
    settings: Settings, connection: SqlConnection, progress: Progress, out: OpenBatch, check_stop: Callable[[], None]
) -> Iterator[CreatedSlot]:
    """Steps 1 to 3. The block has the slot's snapshot, which ends with the connection that made it."""
    kill_point("copy:before-creating")
    out.publish_progress(replace(progress, state="creating"))
    kill_point("copy:creating")
    slot.drop(connection, settings.postgres.slot)
    kill_point("copy:slot-dropped")
    dsn = settings.postgres.dsn.get_secret_value()
    walsender = connecting(lambda: connect_walsender(dsn, "walbridge slot"), lambda late: late.finish(), check_stop)
    try:
        kinds = {"two_phase": settings.postgres.two_phase, "failover": settings.postgres.failover}
        created = slot.create(walsender, settings.postgres.slot, report_waiting, check_stop, **kinds)
        kill_point("copy:slot-created")
        at = created.consistent_point
        out.publish_progress(
            replace(progress, state="copying", consistent_point=at, cut_id=0, end_lsn=at, done=at, floor=at)
        )
        kill_point("copy:copying")
        yield created
    finally:
        walsender.finish()


def _lock_as_published(
    settings: Settings, snapshot: Snapshot, connection: SqlConnection, published: list[PublishedTable]
) -> None:
    """Lock the tables as the snapshot shows them, until they are copied.

    Raises:
        RetryableError: they, or the publication, were changed after the snapshot.
        OperatorError: a table has rows that are not followed.
    """
    if catalog.published_tables(snapshot.connection, settings.postgres.publication_names) != published:
        raise RetryableError("the publication was changed while its copy was about to begin")
    refuse_foreign_rows(snapshot.connection, settings, published)  # as of the rows that are read
    snapshot.lock(published)
    _refuse_altered(snapshot, connection, published)


def _remember(out: OpenBatch, baseline: Baseline, facts: StreamFacts, partitions: int) -> None:
    """What later looks compare with."""
    out.tracker.remember_options(baseline.options | {PARTITIONS_OPTION: str(partitions)})
    out.tracker.remember_tables({each: facts.with_unused_partitions(of) for each, of in baseline.tables.items()})


def fit_tables(
    settings: Settings, connection: SqlConnection, tables: Tables, progress: Progress
) -> list[PublishedTable]:
    """The published tables, once what would fail after hours is refused.

    Raises:
        OperatorError: the publication is empty, or nothing can be made of a table as it is.
    """
    published = catalog.published_tables(connection, settings.postgres.publication_names)
    tables.refuse_unfit(published, connection, progress.tables)
    refuse_unfit_identities(connection, settings, published)
    refuse_foreign_rows(connection, settings, published)
    return published


def _left(
    settings: Settings, published: list[PublishedTable], refused: Mapping[int, OperatorError], at: Lsn
) -> dict[int, TableProgress]:
    """Records of tables that nothing can be published of as they are: all others go on without them.

    Raises:
        OperatorError: settings say that one stops all.
    """
    policy, left = settings.producer.on_table_error, {}
    for table in published:
        if (reason := refused.get(table.relation_id)) is None:
            continue
        if policy == "stop":
            raise reason
        known, name, may_copy = TableProgress(table.relation_id, COPYING), table.qualified_name, policy == "copy"
        left[table.relation_id] = after_trouble(known, name, at, reason.what, may_copy=may_copy, now_s=time.time())
        told = "stale, and is copied once that is mended" if may_copy else "quarantined"
        log.warning(f"table is {told}", table=name, reason=reason.what, remedy=reason.remedy)
    return left


def _refuse_altered(snapshot: Snapshot, connection: SqlConnection, tables: list[PublishedTable]) -> None:
    """Refuse tables that were altered or truncated between the snapshot and the locks.

    COPY would find them empty or in another shape, since no snapshot hides either. Only a comparison of the
    catalogue as of the snapshot with the catalogue as of now tells.
    """
    relation_ids = [table.relation_id for table in tables]
    if catalog.storage_of(snapshot.connection, relation_ids) != catalog.storage_of(connection, relation_ids):
        raise RetryableError("a table was altered or truncated while its copy was about to begin")


class _Tables:
    """The rows of one copy: read by this process, or in pieces by worker processes.

    Every worker reads in the snapshot of the connection that holds the locks, so all pieces are of one state, and a
    piece can only be begun while that connection lives. It is asked for again before the copy is called whole: a table
    that was altered between two pieces must have ended it.
    """

    def __init__(
        self,
        settings: Settings,
        snapshot: Snapshot,
        at: Lsn,
        out: OpenBatch,
        check_stop: Callable[[], None],
        faults: ReadFaults,
    ) -> None:
        self._settings, self._snapshot, self._at, self._out = settings, snapshot, at, out
        self._check_stop, self._faults, self._ends = check_stop, faults, Ends()
        self._sizes: dict[int, TableSize] = {}

    def copy(self, published: list[PublishedTable], writers: list[RecordWriter]) -> None:
        """One table after another, as they are read by this process; or several, as they are read by others."""
        self._read(published, writers)
        self._ends.all_end()

    def _read(self, published: list[PublishedTable], writers: list[RecordWriter]) -> None:
        asked, snapshot = self._settings.producer.copy_workers, self._snapshot
        relation_ids = [table.relation_id for table in published]
        self._sizes = table_sizes(snapshot.connection, relation_ids)
        if asked is None or asked > 1:
            pages = table_pages(snapshot.connection, relation_ids)
            pieces = list(pieces_of(published, pages, snapshot.connection.info.server_version))
            count = worker_count(asked, pieces, sum(each.size_bytes for each in pages.values()))
            if count > 1:
                log.info("tables are read by worker processes", workers=count, pieces=len(pieces))
                dsn, folder = self._settings.postgres.dsn.get_secret_value(), str(spool_parent(self._settings))
                with CopyWorkers(count, Beginning(dsn, folder)) as workers:
                    self._copy_pieces(workers, pieces, dict(zip(relation_ids, writers, strict=True)))
                return
        for table, writer in zip(published, writers, strict=True):
            copying = self._begun(writer)
            with self._faults.of(table.relation_id, table.qualified_name):
                copying.send(snapshot.blocks(table))
            self._end(copying)

    def _copy_pieces(self, workers: CopyWorkers, pieces: list[Piece], writers: dict[int, RecordWriter]) -> None:
        left = Counter(piece.table.relation_id for piece in pieces)
        begun: dict[int, TableOfCopy] = {}
        looked_s = time.monotonic()
        for answered in workers.read(self._wanted(pieces, writers)):
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                self._snapshot.refuse_lost()
            for copying in begun.values():
                copying.log_if_due()
            if answered is None:
                end_silent_batch(self._out)
                self._check_stop()
                continue
            relation_id = answered.wanted.table.relation_id
            if relation_id not in begun:
                begun[relation_id] = self._begun(writers[relation_id])
            self._send(begun[relation_id], answered)
            left[relation_id] -= 1
            if not left[relation_id]:
                self._end(begun.pop(relation_id))

    def _wanted(self, pieces: list[Piece], writers: dict[int, RecordWriter]) -> Iterator[PieceWanted]:
        name = self._snapshot.export()
        for piece in pieces:
            writer = writers[piece.table.relation_id]
            yield PieceWanted(name, piece, RowFormat(writer.relation, writer.snapshot_source))

    def _send(self, copying: TableOfCopy, answered: Answered) -> None:
        """The rows of a piece; what no worker has read is read on the connection that holds the locks."""
        wanted = answered.wanted
        if answered.rows is not None:
            with contextlib.closing(answered.rows) as rows:
                copying.send_blocks(rows.blocks(), answered.handed.size_bytes if answered.handed else 0)
        elif isinstance(wanted, PieceWanted) and not copying.is_left:
            with self._faults.of(wanted.table.relation_id, wanted.table.qualified_name):
                copying.send(self._snapshot.blocks(wanted.table, wanted.piece.condition))

    def _begun(self, writer: RecordWriter) -> TableOfCopy:
        stops = self._settings.producer.on_table_error == "stop"
        size = self._sizes.get(writer.relation.table.relation_id)
        copying = TableOfCopy(writer, self._at, self._out, self._check_stop, self._ends, size, stops=stops)
        copying.begin()
        return copying

    def _end(self, copying: TableOfCopy) -> None:
        copying.end()
        kill_point("copy:table")


def report_waiting() -> None:
    """Log why the copy has not begun; called every few seconds while Postgres creates the slot."""
    log.warning("the slot waits for transactions that were open before it; see pg_stat_activity")
