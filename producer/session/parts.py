"""The parts of a session, each made once, from the transaction's own up to what ends batches."""

from dataclasses import dataclass
from functools import partial

from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.label_texts import Use
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.table_requests import TableRequests
from walbridge.producer.pgoutput.decoder import decoders_for
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.postgres.copy_beside.copy_reader import CopyReader
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.announced_tables import AnnouncedTables
from walbridge.producer.session.batch_ends import BatchEnds
from walbridge.producer.session.changes import Changes
from walbridge.producer.session.copies.arrival import Arrival
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.start import CopyStart
from walbridge.producer.session.copies.state.reading import CopyReading
from walbridge.producer.session.copies.state.record_queue import RecordQueue
from walbridge.producer.session.copies.state.requested_tables import RequestedTables
from walbridge.producer.session.copies.step_parts import CopiedChanges, StepParts
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.producer.session.ddl_rows import DdlRows
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.keepalives import Keepalives
from walbridge.producer.session.logical_messages import LogicalMessages
from walbridge.producer.session.renamed_tables import RenamedTables
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transactions.pending_transactions import PendingTransactions
from walbridge.producer.session.transactions.replay import Replay
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.producer.session.transactions.transaction_boundaries import TransactionBoundaries
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings


@dataclass(frozen=True)
class _TablesAtCut:
    """What a cut says of names and columns, and of tables that are left with it."""

    renamed: RenamedTables
    trouble: TableTrouble

    def before_cut_at(self, lsn: Lsn) -> None:
        self.renamed.announce(lsn)
        self.trouble.before_cut_at(lsn)

    def drop(self, relation_id: int) -> None:
        self.trouble.drop(relation_id)


def _transactions_behind(progress: Progress, settings: Settings) -> TransactionTracker:
    """Those that the stream brings behind what is published."""
    return TransactionTracker(
        progress.done,
        progress.split,
        XLOG_DATA_HEADER_BYTES,
        with_sequence=settings.topics.source_sequence,
        with_transaction=settings.topics.transaction_block,
        counts_events=settings.topics.transaction_topic,
    )


class SessionParts:
    """One for each START_REPLICATION.

    Attributes:
        copies: tables that are copied beside the stream; None where none is.
    """

    def __init__(
        self,
        settings: Settings,
        stream: ReplicationStream,
        tables: Tables,
        out: OpenBatch,
        watch: SourceWatch,
        spool: Spool,
        server_version: int,
    ) -> None:
        limits, progress = settings.producer, out.tracker.progress
        self.settings, self.stream, self.tables, self.out = settings, stream, tables, out
        self._watch, self._spool = watch, spool
        self.decoders = decoders_for(progress.options)
        self.transactions = _transactions_behind(progress, settings)
        self.fast_path = FastPath(out, self.transactions)
        tables.writers.label_texts.use = self._use
        self.followed = FollowedTables(tables, self.fast_path, self.transactions, progress.relation_ids)
        self.announced = AnnouncedTables(self.followed, watch)
        relations = SessionRelations(self.announced.receive, self.fast_path.forget)
        self.pending = PendingTransactions(
            spool,
            relations,
            self.decoders,
            server_version,
            progress.done,
            asks_for_no_origin=progress.options.get("origin") == "none",
        )
        self.replay = Replay(self.pending, relations, stream.keep_alive)
        self.changes = Changes(
            out,
            tables,
            relations,
            self.fast_path,
            self.followed,
            drops_on_unknown_value=limits.on_unknown_value == "stale",
        )
        left_out = self.changes.left_out
        self._trouble = TableTrouble(limits, out, tables, watch, self.followed, left_out, self.announced)
        self.changes.trouble = self._trouble
        self.ddl = DdlRows(out, tables, watch, relations, left_out, self._trouble)
        at_cut = _TablesAtCut(RenamedTables(tables, out, watch, self.fast_path), self._trouble)
        self.cuts = CutMaker(limits.idle_cut_interval_ms, stream, tables, out, watch, self.pending, at_cut)
        self.messages = LogicalMessages(settings, tables, out)
        self.boundaries = TransactionBoundaries(settings, tables)
        self.ends = BatchEnds(out, self.cuts, self.transactions, self.boundaries, self._trouble.before_split_at)
        self.keepalives = Keepalives(stream, self.transactions, self.cuts, self.ends)
        self.copies: TableCopies | None = None

    def _use(self) -> Use | None:
        transaction = self.transactions.open
        return None if transaction is None else Use(transaction.begin.xid, transaction.first_lsn)

    def copy_with(self, readers: tuple[CopyReader, CopyReader], requests: TableRequests | None) -> TableCopies:
        """Have tables copied beside the stream: ``readers`` by chunks, and in one piece."""
        left_out, leave = self.changes.left_out, partial(self._trouble.leave, is_mended_by_copy=False)
        limits, tracker = self.settings.producer, self.out.tracker
        requested = RequestedTables(tracker, self._watch, requests)
        changes = CopiedChanges(
            follow=left_out.follow,
            leave_out=left_out.add,
            is_announced_since=self.followed.is_announced_since,
            queue=partial(RecordQueue.sharing_limit, self.settings, self._spool),
        )
        parts = StepParts(
            CopyReading.of(tracker.progress.tables.values(), readers, requested, limits.copy_bytes_per_s),
            self.stream,
            self.out,
            Arrival(self.stream, self._watch),
            CopyStart(self.tables, tracker, self._watch),
            CopyRecords(self.out, self.tables, self.cuts, self.stream.keep_alive, leave),
            changes,
        )
        self.copies = TableCopies(limits, parts, self.tables, self._watch)
        self.changes.copies, self._trouble.copies = self.copies, self.copies
        left_out.on_left_out = self.copies.notice
        return self.copies
