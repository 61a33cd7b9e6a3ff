"""One session of the stream: frames to rows in the open batch, batches to Kafka, LSNs confirmed.

In: a started ``ReplicationStream`` and the tables. Out: Kafka transactions. Returns when asked to
stop; raises RetryableError when Postgres or Kafka went away, and nothing is lost: the next session
begins at the floor of the progress that Kafka holds.

A transaction that came before its commit is replayed at its commit, pulled from the spool as others
are from the stream, by the same loop: limits, splits, stops and memory are those of any transaction.
What Postgres says meanwhile waits in the socket, while status messages keep it from giving us up.
"""

import time
from collections.abc import Callable
from functools import partial

from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.table_requests import TableRequests
from walbridge.producer.pgoutput.decoder import decode_message, decoders_for
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, PrimaryKeepalive, decode_keepalive, sent_us
from walbridge.producer.pgoutput.messages import Begin, Commit, LogicalMessage, Message, Origin, Relation, Type
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.table_reads.copy_reader import CopyReader
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.changes import Changes
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.state.copy_progress import CopyStanding
from walbridge.producer.session.copies.state.record_queue import RecordQueue
from walbridge.producer.session.copies.state.requested_tables import RequestedTables
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.producer.session.ddl_rows import DdlRows
from walbridge.producer.session.dropped_tables import Change
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.logical_messages import LogicalMessages
from walbridge.producer.session.pending_transactions import PENDING_MESSAGES, PendingTransactions
from walbridge.producer.session.renamed_tables import RenamedTables
from walbridge.producer.session.replay import Replay
from walbridge.producer.session.session_relations import SessionRelations
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transaction import TransactionTracker
from walbridge.producer.session.transaction_boundaries import TransactionBoundaries
from walbridge.producer.session.transaction_spool import Spool
from walbridge.producer.waits import PATIENCE_S
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.told_ddl import is_ddl_table

_XLOG_DATA = ord("w")
REPLY_INTERVAL_S = 0.2
"""A server that shuts down asks for replies in a tight loop until all is confirmed: at most one answer in this time."""
WAIT_S = 1.0
_AGE_SHARE = 0.25
"""Of Kafka's time-out of a transaction: so old a batch ends, also inside a transaction that goes on without rows."""
UNPUBLISHED_MAX = 1_000
"""Bodies of unpublished changes that may wait to be hashed: no limit of a batch bounds their number (I9)."""


class Session:
    """State of one START_REPLICATION."""

    def __init__(
        self,
        settings: Settings,
        stream: ReplicationStream,
        tables: Tables,
        out: OpenBatch,
        watch: SourceWatch,
        spool: Spool,
        server_version: int,
        reader: CopyReader | None = None,
        requests: TableRequests | None = None,
    ) -> None:
        limits, progress = settings.producer, out.tracker.progress
        self._stream, self._out, self._tables, self._watch = stream, out, tables, watch
        self._batch_age_max_s = limits.transaction_timeout_ms / 1000 * _AGE_SHARE
        self._wait_s = min(WAIT_S, limits.idle_cut_interval_ms / 1000, self._batch_age_max_s)
        self._decoders = decoders_for(progress.options)
        self._transactions = TransactionTracker(
            progress.done,
            progress.split,
            XLOG_DATA_HEADER_BYTES,
            tells_sequence=settings.topics.source_sequence,
            tells_transaction=settings.topics.transaction_block,
            counts_events=settings.topics.transaction_topic,
        )
        self._fast_path = FastPath(out, self._transactions)
        followed = FollowedTables(tables, self._fast_path, self._transactions, progress.relation_ids)
        self._followed = followed
        relations = SessionRelations(self._install, self._fast_path.forget)
        self.pending = PendingTransactions(
            spool,
            relations,
            self._decoders,
            server_version,
            progress.done,
            leaves_foreign_out=progress.options.get("origin") == "none",
        )
        self._replay = Replay(self.pending, relations, stream.keep_alive)
        self._read: Callable[[], bytes | None] = stream.read
        self._changes = Changes(
            out,
            tables,
            relations,
            self._fast_path,
            followed,
            drops_on_unknown_value=limits.on_unknown_value == "stale",
        )
        dropped = self._changes.dropped
        self._trouble = self._changes.trouble = TableTrouble(limits, out, tables, watch, followed, dropped)
        self._ddl = DdlRows(out, tables, watch, relations, dropped, self._trouble)
        self._renamed = RenamedTables(tables, out, watch, self._fast_path)
        self._cuts = CutMaker(
            limits.idle_cut_interval_ms,
            stream,
            tables,
            out,
            watch,
            self.pending,
            on_dropped=self._on_dropped,
            on_ending=self._on_ending,
        )
        self._messages = LogicalMessages(settings, tables, out)
        self._boundaries = TransactionBoundaries(settings, tables)
        self._copies: TableCopies | None = None
        if reader is not None:
            leave = partial(self._trouble.leave, is_mended_by_copy=False)
            records = CopyRecords(out, tables, self._cuts, stream.keep_alive, leave)
            self._copies = TableCopies(
                settings,
                stream,
                tables,
                out,
                watch,
                reader,
                records,
                RequestedTables(out.tracker, watch, requests),
                queue=partial(RecordQueue.beside, settings, spool),
                follow=self._follow,
                leave_out=dropped.add,
                is_told_since=followed.is_told_since,
            )
            self._changes.copies, self._trouble.copies = self._copies, self._copies
            dropped.on_left_out = self._copies.notice

    def _on_ending(self, lsn: Lsn) -> None:
        self._renamed.tell(lsn)
        self._trouble.end_at(lsn)

    def _install(self, relation: Relation) -> None:
        if is_ddl_table(relation.namespace, relation.name):
            return
        self._trouble.take_refused(relation.relation_id)
        try:
            self._followed.install(relation)
        except UnfitTable as reason:
            self._trouble.refuse(relation.relation_id, reason)
        self._trouble.announce(relation.relation_id)

    @property
    def copy_standings(self) -> tuple[CopyStanding, ...]:
        """How far each copy beside the stream is; another thread may ask."""
        return () if self._copies is None else self._copies.progress.standings

    def _follow(self, relation_id: int) -> None:
        self._followed.add(relation_id)
        self._changes.dropped.take_back(relation_id)

    def _on_dropped(self, relation_id: int) -> None:
        self._followed.drop(relation_id)
        if relation_id in self._watch.gone:
            self._changes.dropped.add(relation_id)  # its last changes may be yet to come
        if self._copies is not None:
            self._copies.let_go(relation_id)

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Follow the stream until asked to stop, then return at the next batch boundary.

        A backlog or a huge transaction reaches one at the limits of a batch, long before the socket is empty.
        """
        while self._out.is_open or not should_stop():
            data = self._read()
            if data is not None:
                self.receive(data)
                continue
            if self._replay.is_open:
                self._end_replay()
                continue
            if self._transactions.open is None:
                self._cuts.close(may_wait=self._out.age_s < self._batch_age_max_s)
                self._cuts.idle_cut()
                if should_stop():
                    return
                self._step_copies()
            else:
                self._end_stalled_batch(PATIENCE_S if should_stop() else self._batch_age_max_s)
            self._stream.wait(self._wait_s if self._copies is None else min(self._wait_s, self._copies.pause_s))

    def receive(self, data: bytes) -> None:
        """One frame."""
        if data[0] != _XLOG_DATA:
            self._keepalive(decode_keepalive(data))
            return
        # First, since nearly every frame goes this way: inside a published transaction no block can be open.
        if self._transactions.publishes and self._fast_path.publish(data):
            out = self._out
            if out.batch.row_count >= out.split_rows or out.batch.byte_count >= out.split_bytes:
                self._split()
            return
        if self.pending.takes is not None:
            self.pending.takes(data)
            return
        message = decode_message(data[XLOG_DATA_HEADER_BYTES:], self._decoders)
        if isinstance(message, Change):
            if self._ddl.is_one(message):
                if self._transactions.publishes:
                    self._ddl.receive(message, self._transactions.inside())
            elif self._transactions.receive_change(data):
                self._publish(message)
        elif isinstance(message, LogicalMessage):
            self._message(message, data)
        else:
            _OTHERS[type(message)](self, message)

    def _publish(self, message: Change) -> None:
        transaction = self._transactions.inside()
        change = self._changes.rest_of(message, transaction)
        if change is None:
            if len(self._transactions.unhashed) >= UNPUBLISHED_MAX:  # no batch closes, which would free them
                self._transactions.digest()
                self._end_stalled_batch(self._batch_age_max_s)
            return
        self._out.open()
        self._changes.publish(change, transaction)
        self._split_if_due()

    def _keepalive(self, frame: PrimaryKeepalive) -> None:
        self._stream.note_received(frame.wal_end)
        if frame.reply_requested:
            is_outside = self._transactions.open is None
            if is_outside:
                self._cuts.close(may_wait=self._out.age_s < self._batch_age_max_s)
            if time.monotonic() - self._cuts.last_cut_s >= REPLY_INTERVAL_S:
                if is_outside:
                    self._cuts.idle_cut(asked=True)
                self._stream.send_status()
            else:
                # The server asks once and then waits: answer after this interval, not only when the next status is due.
                self._stream.owe_status(REPLY_INTERVAL_S)
        self._stream.keep_alive()

    def _begin(self, message: Begin) -> None:
        transaction = self._transactions.begin(message)
        if self._copies is not None:
            self._copies.begin_transaction(message.xid)
        self._out.begin_transaction()
        self._out.set_origin(transaction.source.origin_lsn)

    def _origin(self, message: Origin) -> None:
        self._transactions.receive_origin(message)
        self._out.set_origin(self._transactions.inside().source.origin_lsn)

    def _relation(self, message: Relation) -> None:
        self._replay.relation(message)
        if is_ddl_table(message.namespace, message.name):
            return
        root = self._followed.root_of(message.relation_id)
        if root is not None:
            self._trouble.announce_partition(message.relation_id, root)

    def _type(self, message: Type) -> None:
        """Types are described from the catalogue when the relation that follows is announced."""

    def _pending_message(self, message: Message) -> None:
        begin = self._replay.receive(message)
        if begin is not None:
            # From here on frames are read from the spool; ``run`` ends the replay when the spool is used up.
            self._begin(begin)
            self._read = self._replay.read
        elif self._transactions.open is None and self._out.is_full:
            self._cuts.close()  # blocks may come without a pause for longer than Kafka waits

    def _end_replay(self) -> None:
        self._read = self._stream.read
        self._commit(self._replay.end())

    def _message(self, message: LogicalMessage, data: bytes) -> None:
        if not self._messages.wants(message):
            return
        if message.transactional:
            if self._transactions.receive_change(data):
                self._out.open()
                self._messages.publish_inside(message, self._transactions.inside())
                self._split_if_due()
            return
        is_outside = self._transactions.open is None
        last_commit = self._transactions.last_commit
        if self._messages.publish_outside(message, sent_us(data), ends_lsn=is_outside, last_commit=last_commit):
            self._stream.note_received(message.message_lsn)
            if is_outside and self._out.is_full:
                self._cuts.close()

    def _commit(self, message: Commit) -> None:
        transaction = self._transactions.commit(message)
        # A transaction without published changes moves the LSN too; before Postgres 15 the server sends all of them.
        self._stream.note_received(message.end_lsn)
        if not transaction.skipped:
            self._cuts.end_transaction(message, partial(self._boundaries.end, transaction))
        self._step_copies()

    def _step_copies(self) -> None:
        if self._copies is not None:
            self._copies.step()
        if self._out.is_open:
            return
        floor = self._out.tracker.progress.floor
        if (behind := self._tables.partition_sessions.behind) is not None and floor >= behind:
            raise RetryableError("the server notices with another session only which partitions came and went")
        if (behind := self._tables.publication_sessions.behind) is not None and floor >= behind:
            raise RetryableError("the server notices with another session only what is published by now")
        if (behind := self._tables.ddl_sessions.behind) is not None and floor >= behind:
            raise RetryableError("the source tells DDL to sessions that begin from now on")

    def _end_stalled_batch(self, age_max_s: float) -> None:
        """Inside a transaction that goes on without rows: Kafka would abort a batch that waits for its end."""
        out = self._out
        if not out.is_open or not (out.is_full or out.age_s >= age_max_s):
            return
        if not out.holds_part or not self._transactions.has_changes:  # what it holds may be messages of no transaction
            if out.tracker.progress.split is None:
                self._cuts.close()
                out.begin_transaction()
        elif self._transactions.publishes and out.age_s >= min(age_max_s, self._batch_age_max_s):
            self._split()

    def _split_if_due(self) -> None:
        if self._out.is_split_due:
            self._split()

    def _split(self) -> None:
        transaction = self._transactions.inside()
        self._boundaries.begin(transaction, self._out.batch)
        self._cuts.split(transaction.begin, self._transactions.split())


_OTHERS: dict[type[Message], Callable[..., None]] = {
    Begin: Session._begin,
    Commit: Session._commit,
    Origin: Session._origin,
    Relation: Session._relation,
    Type: Session._type,
    **dict.fromkeys(PENDING_MESSAGES, Session._pending_message),
}
