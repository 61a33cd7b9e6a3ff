"""What one walsender sends of transactions before they are committed: streamed blocks, prepared ones.

In: the history, and where the session began. Out: frames in the order of ``pgoutput.c``: blocks of
several transactions in turn, subtransactions and whole transactions that are rolled back, a prepare
at its place in the WAL, and at the commit only what is left to say. What void changes hold is true
of other changes, so that one that gets out is seen. Whether a transaction is streamed is the
session's whim: the next one may send it whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.producer.pgoutput.encoder import encode_message, encode_streamed, xlog_data
from tests.simulation.history import CONSISTENT_POINT, Piece, Transaction, pieces_of, relation
from walbridge.producer.pgoutput.messages import (
    BeginPrepare,
    CommitPrepared,
    Message,
    Prepare,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from walbridge.schemas.position import Lsn

Frames = Iterator[tuple[int, bytes]]
"""(highest LSN it reports, frame)."""
_GID = "gid"


@dataclass(slots=True)
class _Stream:
    sent: int = 0
    announced: dict[int, int] = field(default_factory=dict)
    void: int = 0


class Early:
    """Of one session.

    Args:
        announced: relation id → version, as the session's ordinary transactions told it.
        share: how likely a transaction is streamed.
    """

    def __init__(
        self,
        history: list[Transaction],
        announced: dict[int, int],
        start: int,
        random: Random,
        share: float,
        *,
        two_phase: bool,
    ) -> None:
        self._history = history
        self._announced = announced
        self._start = start
        self._random = random
        self._share = share
        self._two_phase = two_phase
        self._streams: dict[int, _Stream] = {}
        self._prepared: set[int] = set()
        self._void_xid = 5_000

    # -- before the commit -------------------------------------------------------------------

    def blocks(self, first: int, visible: int) -> Frames:
        """Some of what is not committed yet."""
        for n in range(first, visible):
            is_open = n not in self._prepared and _has_one_shape(self._history[first : n + 1])
            if is_open and self._random.random() < self._share / 2:
                if self._random.random() < 0.2:
                    yield from self._void_transaction(n)
                yield from self._block(n, self._random.randint(0, 4))

    def prepares(self, before: int) -> Frames:
        """Prepare records are decoded where they stand: before a keepalive that speaks of what follows."""
        due = [
            (at, n)
            for n, each in enumerate(self._history)
            if (at := resent_from(each, two_phase=self._two_phase)) < min(before, each.commit_lsn)
            and at >= self._start
            and n not in self._prepared
        ]
        for _, n in sorted(due):
            yield from self._prepare(n)

    def _prepare(self, n: int) -> Frames:
        self._prepared.add(n)
        transaction = self._history[n]
        assert transaction.prepare_lsn is not None
        place = Lsn(transaction.prepare_lsn), Lsn(transaction.prepare_lsn + 8), 1, transaction.xid, _GID
        if n in self._streams:
            yield from self._block(n, len(_body(transaction)))
            del self._streams[n]  # announced again after it
            yield _frame(StreamPrepare(*place))
            return
        yield _frame(BeginPrepare(*place))
        yield from self._plain(_body(transaction))
        yield _frame(Prepare(*place))

    # -- at the commit -----------------------------------------------------------------------

    def end(self, n: int) -> Frames | None:
        """What is left to say; None: all of it, as of any transaction."""
        transaction = self._history[n]
        if self._two_phase and transaction.prepare_lsn is not None:
            return self._commit_prepared(n)
        if n not in self._streams and self._random.random() >= self._share / 2:
            return None
        return self._commit_streamed(n)

    def _commit_streamed(self, n: int) -> Frames:
        transaction = self._history[n]
        yield from self._block(n, len(_body(transaction)))
        self._announced.update(self._streams.pop(n).announced)
        yield _frame(StreamCommit(transaction.xid, transaction.commit_lsn, transaction.end_lsn, _time_us(transaction)))

    def _commit_prepared(self, n: int) -> Frames:
        transaction = self._history[n]
        if n not in self._prepared and (transaction.prepare_lsn or 0) < CONSISTENT_POINT:
            yield from self._prepare(n)  # older than two_phase: sent whole at its end
        end = transaction.commit_lsn, transaction.end_lsn, _time_us(transaction)
        yield _frame(CommitPrepared(*end, transaction.xid, _GID))

    # -- blocks ------------------------------------------------------------------------------

    def _block(self, n: int, count: int) -> Frames:
        transaction, is_first = self._history[n], n not in self._streams
        stream = self._streams.setdefault(n, _Stream())
        body = _body(transaction)
        pieces = body[stream.sent : stream.sent + count]
        stream.sent += len(pieces)
        yield _frame(StreamStart(transaction.xid, is_first))
        for piece in pieces:
            subxid = self._random.choice((transaction.xid, transaction.xid * 10, transaction.xid * 10 + 1))
            yield from _streamed(subxid, piece, stream.announced)
        changes = [piece for piece in body if piece.relation_ids]
        is_void = bool(changes) and self._random.random() < 0.3
        stream.void += 1
        void = transaction.xid * 100 + stream.void
        if is_void:
            yield from _streamed(void, self._random.choice(changes), stream.announced)
        yield _frame(StreamStop())
        if is_void:
            yield _frame(StreamAbort(transaction.xid, void))
            stream.announced.clear()

    def _void_transaction(self, n: int) -> Frames:
        self._void_xid += 1
        announced: dict[int, int] = {}
        yield _frame(StreamStart(self._void_xid, True))
        for piece in _body(self._history[n]):
            yield from _streamed(self._void_xid, piece, announced)
        yield _frame(StreamStop())
        yield _frame(StreamAbort(self._void_xid, self._void_xid))

    def _plain(self, pieces: list[Piece]) -> Frames:
        for piece in pieces:
            for relation_id in piece.relation_ids:
                if self._announced.get(relation_id) != piece.version:
                    self._announced[relation_id] = piece.version
                    yield _frame(relation(relation_id, piece.version))
            yield 0, xlog_data(piece.payload, piece.lsn, piece.lsn)


def resent_from(transaction: Transaction, *, two_phase: bool) -> int:
    """A slot confirmed up to here, and no further, sends all of it again."""
    at = transaction.prepare_lsn
    return at if two_phase and at is not None and at >= CONSISTENT_POINT else transaction.commit_lsn


def prepare_some(random: Random, history: list[Transaction]) -> None:
    """Let some of them be prepared: a while before their commit, one perhaps before the slot was made."""
    for n, each in enumerate(history):
        if random.random() < 0.4:
            first = n - random.randint(1, min(n, 3)) if n else 0
            begin = history[first].commit_lsn if n else int(CONSISTENT_POINT) - 40
            at = random.randint(begin, max(begin, each.commit_lsn - 8))
            while inside := [other for other in history if other.commit_lsn - 8 < at < other.end_lsn]:
                at = inside[0].end_lsn  # no record lies in another one
            if at + 8 <= each.commit_lsn and _has_one_shape(history[first : n + 1]):
                each.prepare_lsn = at


def _has_one_shape(transactions: list[Transaction]) -> bool:
    """Nobody alters a table that an open transaction has written to."""
    return len({version for each in transactions for _, version, _ in each.messages}) <= 1


def _body(transaction: Transaction) -> list[Piece]:
    return pieces_of(transaction)[1:-1]


def _time_us(transaction: Transaction) -> int:
    return 1_700_000_000_000_000 + transaction.xid


def _frame(message: Message) -> tuple[int, bytes]:
    return 0, xlog_data(encode_message(message))


def _streamed(subxid: int, piece: Piece, announced: dict[int, int]) -> Frames:
    for relation_id in piece.relation_ids:
        if announced.get(relation_id) != piece.version:
            announced[relation_id] = piece.version
            yield 0, xlog_data(encode_streamed(subxid, relation(relation_id, piece.version)))
    payload = piece.payload
    if payload[:1] != b"O":
        payload = payload[:1] + subxid.to_bytes(4, "big") + payload[1:]
    yield 0, xlog_data(payload, piece.lsn, piece.lsn)
