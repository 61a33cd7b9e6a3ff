"""One session of the stream: frames to rows in the open batch, batches to Kafka, LSNs confirmed.

In: the parts, with a started ``ReplicationStream``. Out: Kafka transactions. Returns when asked to
stop; raises RetryableError when Postgres or Kafka went away, and nothing is lost: the next session
begins at the floor of the progress that Kafka holds.

A transaction that came before its commit is replayed at its commit, pulled from the spool as others
are from the stream, by the same loop: limits, splits, stops and memory are those of any transaction.
What Postgres says meanwhile waits in the socket, while status messages keep it from giving us up.
"""

from collections.abc import Callable
from functools import partial

from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, decode_keepalive, sent_us, wal_start
from walbridge.producer.pgoutput.messages import Begin, Commit, LogicalMessage, Message, Origin, Relation, Type
from walbridge.producer.session.left_out_tables import Change
from walbridge.producer.session.outdated_session import refuse_outdated
from walbridge.producer.session.parts import SessionParts
from walbridge.producer.session.transactions.pending_transactions import PENDING_MESSAGES
from walbridge.producer.waits import PATIENCE_S
from walbridge.schemas.position import Lsn

_XLOG_DATA = ord("w")
WAIT_S = 1.0
UNPUBLISHED_MAX = 1_000
"""Bodies of unpublished changes that may wait to be hashed: no limit of a batch bounds their number (I9)."""


class Session:
    """State of one START_REPLICATION."""

    def __init__(self, parts: SessionParts) -> None:
        self._stream, self._tables, self._out = parts.stream, parts.tables, parts.out
        self._limits = parts.out.limits
        self._decoders, self._transactions, self._fast_path = parts.decoders, parts.transactions, parts.fast_path
        self._pending, self._replay, self._announced = parts.pending, parts.replay, parts.announced
        self._changes, self._ddl, self._messages = parts.changes, parts.ddl, parts.messages
        self._cuts, self._ends, self._boundaries = parts.cuts, parts.ends, parts.boundaries
        self._keepalives, self._copies = parts.keepalives, parts.copies
        self._label_texts = parts.tables.writers.label_texts
        self._read: Callable[[], bytes | None] = parts.stream.read
        self._wait_s = min(WAIT_S, parts.settings.producer.idle_cut_interval_ms / 1000, self._limits.age_max_s)

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
                self._ends.close()
                self._cuts.idle_cut()
                if should_stop():
                    return
                self._step_copies()
            else:
                self._ends.end_if_stalled(PATIENCE_S if should_stop() else self._limits.age_max_s)
            self._stream.wait(self._wait_s if self._copies is None else min(self._wait_s, self._copies.pause_s))

    def receive(self, data: bytes) -> None:
        """One frame."""
        if data[0] != _XLOG_DATA:
            self._keepalives.receive(decode_keepalive(data))
            return
        # First, since nearly every frame goes this way: inside a published transaction no block can be open.
        if self._transactions.publishes and self._fast_path.publish(data):
            batch, limits = self._out.batch, self._limits
            if batch.row_count >= limits.split_rows or batch.byte_count >= limits.split_bytes:
                self._ends.split()
            return
        if self._pending.take_frame is not None:
            self._pending.take_frame(data)
            return
        if len(data) == XLOG_DATA_HEADER_BYTES and self._transactions.open is not None:
            return  # an origin that has no name as of its transaction: 12 and 13, pgoutput.c, pgoutput_begin_txn
        self._receive_message(decode_message(data[XLOG_DATA_HEADER_BYTES:], self._decoders), data)

    def _receive_message(self, message: Message, data: bytes) -> None:
        if isinstance(message, Begin):
            self._begin(message, Lsn(wal_start(data)))
        elif (other := _OTHERS.get(type(message))) is not None:
            other(self, message)
        elif isinstance(message, LogicalMessage):
            self._message(message, data)
        elif isinstance(message, Change):
            if self._ddl.is_ddl_change(message):
                if self._transactions.publishes:
                    self._ddl.receive(message, self._transactions.inside())
            elif self._transactions.receive_change(data):
                self._publish(message)

    def _publish(self, message: Change) -> None:
        transaction = self._transactions.inside()
        change = self._changes.followed_part(message, transaction)
        if change is None:
            if len(self._transactions.unhashed) >= UNPUBLISHED_MAX:  # no batch closes, which would free them
                self._transactions.hash_bodies()
                self._ends.end_if_stalled(self._limits.age_max_s)
            return
        self._out.open()
        self._changes.publish(change, transaction)
        self._ends.split_if_due()

    def _begin(self, message: Begin, first_lsn: Lsn) -> None:
        transaction = self._transactions.begin(message, first_lsn)
        self._label_texts.begin_transaction(first_lsn)
        if self._copies is not None:
            self._copies.begin_transaction(message.xid)
        self._out.begin_transaction()
        self._out.set_origin(transaction.source.origin_lsn)

    def _origin(self, message: Origin) -> None:
        self._transactions.receive_origin(message)
        self._out.set_origin(self._transactions.inside().source.origin_lsn)

    def _relation(self, message: Relation) -> None:
        self._replay.relation(message)
        self._announced.notice(message)

    def _type(self, message: Type) -> None:
        """Types are described from the catalogue when the relation that follows is announced."""

    def _pending_message(self, message: Message) -> None:
        begin = self._replay.receive(message)
        if begin is not None:
            # From here on frames are read from the spool; ``run`` ends the replay when the spool is used up.
            self._begin(begin, self._replay.first_lsn)
            self._read = self._replay.read
        elif self._transactions.open is None:
            self._ends.close_if_full()

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
                self._ends.split_if_due()
            return
        is_outside = self._transactions.open is None
        last_commit_end = self._transactions.last_commit_end
        if self._messages.publish_outside(message, sent_us(data), ends_lsn=is_outside, last_commit_end=last_commit_end):
            # The end of its record in the WAL: what committed before it has come.
            self._stream.note_received(message.message_lsn)
            if is_outside:
                self._ends.close_if_full()

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
        if not self._out.is_open:
            refuse_outdated(self._tables, self._out.tracker.progress.floor)


_OTHERS: dict[type[Message], Callable[..., None]] = {
    Commit: Session._commit,
    Origin: Session._origin,
    Relation: Session._relation,
    Type: Session._type,
    **dict.fromkeys(PENDING_MESSAGES, Session._pending_message),
}
