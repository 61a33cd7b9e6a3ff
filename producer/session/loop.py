"""One session of the stream: frames to rows in the open batch, batches to Kafka, LSNs confirmed.

In: a started ``ReplicationStream`` and the tables. Out: Kafka transactions. Returns when asked to
stop; raises RetryableError when Postgres or Kafka went away, and nothing is lost: the next session
begins at the floor of the progress that Kafka holds.

A transaction that came before its commit is replayed at its commit, pulled from the spool as others
are from the stream, by the same loop: limits, splits, stops and memory are those of any transaction.
What Postgres says meanwhile waits in the socket, while status messages keep it from giving us up.
"""

import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

from producer.batch.cut_maker import CutMaker
from producer.batch.open_batch import OpenBatch
from producer.batch.progress import Batch
from producer.encoding.record import TransactionSource
from producer.guards.source_watch import SourceWatch
from producer.pgoutput.decoder import decode_message, decoders_for
from producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, PrimaryKeepalive, decode_frame, sent_us
from producer.pgoutput.messages import (
    Begin,
    Commit,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Type,
)
from producer.postgres.replication_stream import ReplicationStream
from producer.relations.tables import Tables
from producer.session.changes import Changes
from producer.session.dropped_tables import Change
from producer.session.logical_messages import LogicalMessages
from producer.session.pending_transactions import UNCOMMITTED, Committed, Uncommitted
from producer.session.session_relations import Announced
from producer.session.transaction import OpenTransaction, TransactionTracker
from producer.session.transaction_spool import Spool
from schemas.position import Lsn
from schemas.settings import Settings
from walbridge_runtime.kill_points import kill_point

_XLOG_DATA = ord("w")
_unpack_change = struct.Struct(">BIB").unpack_from
"""Tag, relation id, kind of the first tuple."""
_TUPLE_AT = XLOG_DATA_HEADER_BYTES + 6
REPLY_INTERVAL_S = 0.2
"""An ending server pings in a tight loop until all is confirmed: answer that often, not oftener."""
WAIT_S = 1.0
UNPUBLISHED_MAX = 1_000
"""Bodies of changes that are left out, held for the hash: no limit of a batch bounds them (I9)."""


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
    ) -> None:
        self._limits = settings.producer
        self._stream = stream
        self._tables = tables
        self._out = out
        progress = out.tracker.progress
        self._changes = Changes(
            out,
            tables,
            lambda relation_id: self._announced.settle(relation_id),
            leaves=self._limits.on_unknown_value == "stale",
            on_left=self._departed,
        )
        self._announced = Announced(self._install, self._changes.is_ready_no_more)
        self._decoders = decoders_for(progress.options)
        self.uncommitted = Uncommitted(spool, self._announced, self._decoders, server_version, progress.done)
        self._cuts = CutMaker(
            self._limits.idle_cut_interval_ms,
            stream,
            tables,
            out,
            watch,
            self._departed,
            lambda: self.uncommitted.held_lsn,
        )
        self._read: Callable[[], bytes | None] = stream.read
        self._replayed: Committed | None = None
        self._arrivals: Iterator[int] = iter(())
        """Numbers of the Relations of the transaction that is replayed."""
        self._copied = frozenset(progress.relation_ids)
        self._transactions = TransactionTracker(progress.done, progress.split, XLOG_DATA_HEADER_BYTES)
        self._transaction: OpenTransaction | None = None
        self._source = TransactionSource(b"")
        self._ready = self._changes.ready
        self._messages = LogicalMessages(settings, tables, out)
        self._split_rows = 0
        self._split_bytes = 0
        self._ended: Lsn | None = None
        """Of the last whole transaction, also one of which nothing is published: no batch ends with such a one."""

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Follow the stream until asked to stop: at a batch boundary, which a backlog or a huge
        transaction reaches every few rows, long before the socket is empty."""
        while self._out.is_open or not should_stop():
            data = self._read()
            if data is not None:
                self.receive(data)
                continue
            if self._replayed is not None:
                self._end_replay()
                continue
            if self._transaction is None:
                self._cuts.close()
                self._cuts.idle_cut()
                if should_stop():
                    return
            self._stream.wait(min(WAIT_S, self._limits.idle_cut_interval_ms / 1000))

    def receive(self, data: bytes) -> None:
        """One frame."""
        if data[0] != _XLOG_DATA:
            frame = decode_frame(data)
            assert isinstance(frame, PrimaryKeepalive)
            self._keepalive(frame)
            return
        if self._transactions.publishes and self._receive_plain(data):
            return
        if self.uncommitted.takes is not None:
            self.uncommitted.takes(data)
            return
        message = decode_message(data[XLOG_DATA_HEADER_BYTES:], self._decoders)
        if isinstance(message, Change):
            if self._transactions.receive_change(data):
                self._publish(message)
        elif isinstance(message, LogicalMessage):
            self._message(message, data)
        else:
            _OTHERS[type(message)](self, message)

    def _publish(self, message: Change) -> None:
        change = self._changes.rest_of(message)
        if change is None:
            if len(self._transactions.unhashed) >= UNPUBLISHED_MAX:  # no batch ends that would let them go
                self._transactions.hash()
            return
        self._out.open()
        self._changes.publish(change)
        self._split_if_too_large()

    def _receive_plain(self, data: bytes) -> bool:
        """The changes that come by the million, on the shortest way: what the general one makes of
        an Insert or Update that has a new tuple only, all of it known. False: not such a change."""
        try:
            ready = self._ready.get(_unpack_change(data, XLOG_DATA_HEADER_BYTES))
        except struct.error:
            return False
        if ready is None:
            return False
        writer, op = ready
        out, transaction = self._out, self._transaction
        if not out.is_open:
            out.open()
        assert transaction is not None
        encoded = writer.plain(data, _TUPLE_AT, writer.source, self._source.encoded, transaction.ordinal, out.rests[op])
        if encoded is None:
            return False
        self._transactions.unhashed.append(data)
        out.send_plain(writer, *encoded)
        transaction.ordinal += 1
        batch = out.batch
        if batch.row_count >= self._split_rows or batch.byte_count >= self._split_bytes:
            self._split()
        return True

    def _keepalive(self, frame: PrimaryKeepalive) -> None:
        self._stream.received = max(self._stream.received, frame.wal_end)
        self._cuts.wal_end = max(self._cuts.wal_end, frame.wal_end)
        if frame.reply_requested:
            is_outside = self._transaction is None
            if is_outside:
                self._cuts.close()
            if time.monotonic() - self._cuts.last_cut_s >= REPLY_INTERVAL_S:
                if is_outside:
                    self._cuts.idle_cut(asked=True)
                self._stream.send_status()
            else:
                # It asks once and then waits for an answer: late, but not as late as the next due one.
                self._stream.owe_status(REPLY_INTERVAL_S)
        self._stream.keep_alive()

    def _begin(self, message: Begin) -> None:
        self._transaction = self._changes.transaction = self._transactions.begin(message)
        self._may_hold(self._out.batch if self._out.is_open else Batch())
        self._come_from(TransactionSource.of(message.final_lsn, message.commit_time_us, message.xid, None))

    def _origin(self, message: Origin) -> None:
        self._transactions.receive_origin(message)
        begin = self._open_transaction().begin
        of = (
            begin.final_lsn,
            begin.commit_time_us,
            begin.xid,
            message.name,
            message.origin_lsn or None,  # 0 in a block: not known yet
        )
        self._come_from(TransactionSource.of(*of))

    def _come_from(self, source: TransactionSource) -> None:
        self._source = self._changes.source = source
        self._out.come_from(source.origin_lsn)

    def _may_hold(self, batch: Batch) -> None:
        """A transaction that grows a batch by as much as a whole one may hold is cut in two."""
        self._split_rows = batch.row_count + self._limits.batch_rows_max
        self._split_bytes = batch.byte_count + self._limits.batch_bytes_max

    def _relation(self, message: Relation) -> None:
        if self._replayed is None:
            self._announced.receive(message)
        else:
            self._announced.show(message, next(self._arrivals, None))

    def _install(self, relation: Relation) -> None:
        self._changes.is_ready_no_more(relation.relation_id)
        self._tables.receive(relation, self._copied)

    def _type(self, message: Type) -> None:
        """Types are described from the catalogue when the relation that follows is announced."""

    def _not_committed_yet(self, message: Message) -> None:
        committed = self.uncommitted.receive(message)
        if committed is not None:
            self._replay(committed)

    def _replay(self, committed: Committed) -> None:
        """From here on frames come from the spool; ``run`` sees its end."""
        self._begin(Begin(committed.commit_lsn, committed.commit_time_us, committed.xid))
        self._replayed = committed
        self._announced.show_all(committed.relations)
        spooled = committed.spooled
        if spooled is None:
            self._read = lambda: None
            return
        self._arrivals = spooled.arrivals_left() if committed.joins else iter(())
        kill_point("spool:replaying")
        self._read = partial(next, spooled.frames(self._stream.keep_alive), None)

    def _end_replay(self) -> None:
        committed, self._replayed = self._replayed, None
        assert committed is not None
        self._read = self._stream.read
        self._commit(Commit(committed.commit_lsn, committed.end_lsn, committed.commit_time_us))
        self._announced.put_back()
        if committed.spooled is not None:
            committed.spooled.remove()

    def _message(self, message: LogicalMessage, data: bytes) -> None:
        if not self._messages.wants(message):
            return
        if message.transactional:
            if self._transactions.receive_change(data):
                self._out.open()
                transaction = self._open_transaction()
                self._messages.publish(message, self._source, transaction.ordinal)
                transaction.ordinal += 1
                self._split_if_too_large()
        elif self._messages.publish_outside(message, sent_us(data), ends_lsn=self._transaction is None):
            self._stream.received = max(self._stream.received, message.message_lsn)
            self._cuts.wal_end = max(self._cuts.wal_end, message.message_lsn)
            if self._transaction is None and self._out.is_full:
                self._cuts.close()

    def _open_transaction(self) -> OpenTransaction:
        assert self._transaction is not None
        return self._transaction

    def _commit(self, message: Commit) -> None:
        transaction = self._transactions.commit(message)
        self._transaction = None
        self._stream.received = max(self._stream.received, message.end_lsn)
        if transaction.skipped:
            return
        self._ended = message.end_lsn
        # Also a transaction without published changes moves the LSN; before Postgres 15 they all come.
        self._cuts.wal_end = max(self._cuts.wal_end, message.end_lsn)
        if not self._out.is_open:
            split = self._out.tracker.progress.split
            if split is None or split.commit_lsn != message.commit_lsn:
                return
            # Its last change ended a batch: only a complete cut says that all of it is there.
            self._out.open()
        batch = self._out.batch
        batch.transactions += 1
        batch.commit_lsn, batch.commit_time_us = message.commit_lsn, message.commit_time_us
        batch.end_lsn = message.end_lsn
        if self._out.is_full:
            self._cuts.close()

    def _split_if_too_large(self) -> None:
        """Only a transaction that alone exceeds the limits is cut in two (DESIGN §4)."""
        batch = self._out.batch
        if (
            batch.row_count >= self._split_rows
            or batch.byte_count >= self._split_bytes
            or batch.barriers_max >= BARRIERS_SPLIT
        ):
            self._split()

    def _split(self) -> None:
        batch, begin = self._out.batch, self._open_transaction().begin
        batch.commit_lsn, batch.commit_time_us = begin.final_lsn, begin.commit_time_us
        if batch.end_lsn is None:
            batch.end_lsn = self._ended  # what was left out before this one must not come between its parts
        self._cuts.split(self._transactions.split())
        self._may_hold(Batch())

    def _departed(self, relation_id: int) -> None:
        self._copied -= {relation_id}
        self._changes.is_ready_no_more(relation_id)


BARRIERS_SPLIT = 14

_OTHERS: dict[type[Message], Callable[..., None]] = {
    Begin: Session._begin,
    Commit: Session._commit,
    Origin: Session._origin,
    Relation: Session._relation,
    Type: Session._type,
    **dict.fromkeys(UNCOMMITTED, Session._not_committed_yet),
}
