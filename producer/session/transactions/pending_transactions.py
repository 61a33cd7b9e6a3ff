"""Transactions that come before they are committed: streamed in blocks, or prepared.

In: messages, and frames while a block or a prepared transaction is open. Out: ``Committed``, when a
transaction is to be replayed as if it had come whole, in the order of commits.

    Stream Start … Stop ─┬─ Stream Commit ─────────────────────▶ replayed
                         ├─ Stream Abort: one subtransaction, or all of it, is void
    Begin Prepare … Prepare, or Stream Prepare ─┬─ Commit Prepared ─▶ replayed
                                                └─ Rollback Prepared: it is void

Nothing here outlives its session: Postgres streams an open transaction again from its beginning,
and sends a prepared one again if its prepare is not confirmed. So nothing at or beyond the first
prepare that has no end yet (``oldest_prepared_lsn``) is ever confirmed, whatever commits after it (I1).

A cut between two blocks needs no more care than any other: a keepalive tells how far the server has
decoded, every commit up to there has been sent and replayed, and the commit of what still waits
here lies beyond. The same holds between a prepare and its commit.

Servers name transactions that they never sent (PostgreSQL ``pgoutput.c``): an abort of one that was not
streamed, the end of a prepared one that changed nothing. A commit without its changes passes only
where it was published before, where this minor version leaves out empty ones, or where the session asked
for no origin (PostgreSQL ``decode.c``: a prepare is left out by its own origin, its commit by that of the
commit, and who commits by hand has none). Nothing else can be missing there: the session began at or before
each prepare without an end, with a slot that nobody had moved on (``refuse_moved_slot``). Else it is a gap (I7).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from walbridge.producer.pgoutput.decoder import Decoder, decode_message
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, wal_start
from walbridge.producer.pgoutput.messages import (
    BeginPrepare,
    CommitPrepared,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from walbridge.producer.pgoutput.streamed import split_xid
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction_spool import Spool, Spooled
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.errors import ProtocolError, StreamLost
from walbridge.schemas.position import Lsn, format_lsn

log = structlog.get_logger()

_BODY = XLOG_DATA_HEADER_BYTES
_CHANGES = frozenset((b"I", b"U", b"D", b"T", b"M", b"R", b"Y"))
"""In a block these have the xid of their subtransaction before their body."""
_LAST_WITH_BARE_COMMITS = {15: 18, 16: 14, 17: 10, 18: 4}
"""Major → the last minor that sends Commit Prepared without its prepare, for one that changed nothing."""


@dataclass(frozen=True, slots=True)
class Committed:
    """To be replayed. ``relations``: known when it arrived; ``adds_relations``: its own are known from its commit."""

    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int
    spooled: Spooled | None
    relations: list[Relation] = field(default_factory=list)
    adds_relations: bool = False


@dataclass(frozen=True, slots=True)
class _Prepared:
    message: BeginPrepare | Prepare | StreamPrepare
    spooled: Spooled
    relations: list[Relation]


class PendingTransactions:
    """The pending transactions of one session.

    Args:
        decoders: for the messages that the session asked for.
        server_version: as libpq tells it.
        done: transactions that committed below this LSN are published.
        asks_for_no_origin: the session has ``origin = none``.
    """

    def __init__(
        self,
        spool: Spool,
        relations: SessionRelations,
        decoders: Mapping[int, Decoder],
        server_version: int,
        done: Lsn,
        *,
        asks_for_no_origin: bool = False,
    ) -> None:
        self._spool = spool
        self._relations = relations
        self._decoders = decoders
        self._server_version = server_version
        self._done = done
        self._leaves_foreign_out = asks_for_no_origin
        self._streams: dict[int, Spooled] = {}
        self._prepared: dict[tuple[int, str], _Prepared] = {}
        self._block: tuple[int, Spooled] | None = None
        self._preparing: _Prepared | None = None
        self.take_frame: Callable[[bytes], None] | None = None
        """While a block or a prepared transaction is open: takes every frame but keepalives. Else None."""

    @property
    def oldest_prepared_lsn(self) -> Lsn | None:
        """LSN of the first prepare record whose transaction has no end yet; None where there is none."""
        # One whose prepare is still being read is not needed here: ``received`` lies before its prepare record.
        return min((each.message.prepare_lsn for each in self._prepared.values()), default=None)

    @property
    def spooled_bytes(self) -> int:
        """Bytes that all pending transactions take, in memory and on disk."""
        return self._spool.byte_count

    @property
    def stream_count(self) -> int:
        """The number of streamed transactions that are open."""
        return len(self._streams)

    @property
    def prepared_count(self) -> int:
        """The number of prepared transactions without an end."""
        return len(self._prepared)

    def receive(self, message: Message) -> Committed | None:
        """Take a message that came outside of blocks; returns the transaction that it commits, if it does.

        Raises:
            ProtocolError: no such transaction or block is open.
            OperatorError: the changes of a committed transaction did not come.
        """
        committed: Committed | None = _RECEIVERS[type(message)](self, message)
        if committed is not None:
            spooled_bytes = committed.spooled.byte_count if committed.spooled else 0
            log.debug(
                "pending transaction committed",
                xid=committed.xid,
                kind=type(message).__name__,
                spooled_bytes=spooled_bytes,
            )
        return committed

    # -- streamed --------------------------------------------------------------------------------

    def _stream_start(self, message: StreamStart) -> None:
        if message.is_first:
            self._discard(self._streams.pop(message.xid, None))
            self._streams[message.xid] = self._spool.add()
        elif message.xid not in self._streams:
            raise ProtocolError(f"a later block of transaction {message.xid}, which has no first")
        self._block = message.xid, self._streams[message.xid]
        self.take_frame = self._take_streamed

    def _take_streamed(self, data: bytes) -> None:
        assert self._block is not None
        xid, spooled = self._block
        tag = data[_BODY : _BODY + 1]
        if tag in _CHANGES and tag[0] in self._decoders:
            subxid, payload = split_xid(data, _BODY)
            if tag == b"R":
                spooled.arrivals.append((subxid, self._relations.number_arrival()))
            spooled.append(subxid, payload, wal_start(data))
            return
        message = decode_message(data[_BODY:], self._decoders)
        if isinstance(message, StreamStop):
            self._block, self.take_frame = None, None
            self._spool.balance()
            kill_point("spool:block-ended")
        elif isinstance(message, Origin):
            # It never has an xid of its own, also inside a block (PostgreSQL proto.c, logicalrep_write_origin).
            spooled.append(xid, data[_BODY:])
        else:
            raise ProtocolError(f"{type(message).__name__} inside a streamed block")

    def _stream_stop(self, message: StreamStop) -> None:
        raise ProtocolError("StreamStop without a block")

    def _stream_abort(self, message: StreamAbort) -> None:
        if message.xid == message.subxid:
            self._discard(self._streams.pop(message.xid, None))
        elif (spooled := self._streams.get(message.xid)) is not None:
            spooled.aborted.add(message.subxid)

    def _stream_commit(self, message: StreamCommit) -> Committed:
        spooled = self._streamed(message.xid)
        end = message.commit_lsn, message.end_lsn, message.commit_time_us
        return Committed(message.xid, *end, spooled, adds_relations=True)

    def _streamed(self, xid: int) -> Spooled:
        try:
            return self._streams.pop(xid)
        except KeyError:
            raise ProtocolError(f"the end of transaction {xid}, of which no block came") from None

    def _discard(self, spooled: Spooled | None) -> None:
        if spooled is not None:
            spooled.remove()

    # -- prepared --------------------------------------------------------------------------------

    def _begin_prepare(self, message: BeginPrepare) -> None:
        self._preparing = _Prepared(message, self._spool.add(), self._relations.all_known())
        self.take_frame = self._take_prepared

    def _take_prepared(self, data: bytes) -> None:
        assert self._preparing is not None
        xid = self._preparing.message.xid
        payload = data[_BODY:]
        message: Message | None = None
        # Changes wait as they came. A Relation is needed at once, and what this session did not ask for is refused.
        if payload[:1] not in _CHANGES or payload[:1] == b"R" or payload[0] not in self._decoders:
            message = decode_message(payload, self._decoders)
        if isinstance(message, Prepare):
            self._end_prepare(message)
        elif message is None or isinstance(message, Relation | Origin):
            self._preparing.spooled.append(xid, payload, wal_start(data))
            if isinstance(message, Relation):
                self._relations.receive_prepared(message)
        else:
            raise ProtocolError(f"{type(message).__name__} inside a prepared transaction")

    def _end_prepare(self, message: Prepare) -> None:
        assert self._preparing is not None
        begun, self._preparing, self.take_frame = self._preparing, None, None
        if (begun.message.xid, begun.message.gid) != (message.xid, message.gid):
            raise ProtocolError("Prepare of another transaction than BeginPrepare announced")
        self._spool.balance()
        self._keep_prepared(begun)

    def _prepare(self, message: Prepare) -> None:
        """A Prepare without a Begin Prepare: the transaction changed nothing (sent by 18.0 to 18.4)."""
        self._keep_prepared(_Prepared(message, self._spool.add(), []))

    def _stream_prepare(self, message: StreamPrepare) -> None:
        # Its own Relations are all in it: blocks announce whatever the session knows.
        self._keep_prepared(_Prepared(message, self._streamed(message.xid), []))

    def _keep_prepared(self, prepared: _Prepared) -> None:
        """A prepare that comes again replaces the earlier one: no other transaction has the same xid and gid."""
        key = prepared.message.xid, prepared.message.gid
        before = self._prepared.pop(key, None)
        if before is not None:
            self._discard(before.spooled)
        self._prepared[key] = prepared
        kill_point("spool:prepared")

    def _commit_prepared(self, message: CommitPrepared) -> Committed:
        prepared = self._prepared.pop((message.xid, message.gid), None)
        end = message.commit_lsn, message.end_lsn, message.commit_time_us
        if prepared is not None:
            return Committed(message.xid, *end, prepared.spooled, prepared.relations)
        if message.commit_lsn >= self._done:
            self._refuse_lost_changes(message)
        return Committed(message.xid, *end, None)

    def _refuse_lost_changes(self, message: CommitPrepared) -> None:
        major, minor = divmod(self._server_version, 10_000)
        if minor <= _LAST_WITH_BARE_COMMITS.get(major, -1):
            log.info("a prepared transaction that changed nothing was committed", xid=message.xid)
            return
        if self._leaves_foreign_out:
            log.info("a prepared transaction that replication brought was committed here", xid=message.xid)
            return
        raise StreamLost(
            f"prepared transaction {message.xid} was committed at {format_lsn(message.commit_lsn)}, but its changes "
            "did not come: somebody else read the slot past its prepare"
        )

    def _rollback_prepared(self, message: RollbackPrepared) -> None:
        prepared = self._prepared.pop((message.xid, message.gid), None)
        if prepared is not None:
            self._discard(prepared.spooled)


_RECEIVERS: Mapping[type[Message], Callable[..., Committed | None]] = {
    StreamStart: PendingTransactions._stream_start,
    StreamStop: PendingTransactions._stream_stop,
    StreamAbort: PendingTransactions._stream_abort,
    StreamCommit: PendingTransactions._stream_commit,
    BeginPrepare: PendingTransactions._begin_prepare,
    Prepare: PendingTransactions._prepare,
    StreamPrepare: PendingTransactions._stream_prepare,
    CommitPrepared: PendingTransactions._commit_prepared,
    RollbackPrepared: PendingTransactions._rollback_prepared,
}
PENDING_MESSAGES = frozenset(_RECEIVERS)
"""Messages for ``receive``."""
