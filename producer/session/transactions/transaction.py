"""Messages to positioned changes, one Postgres transaction at a time.

OUTSIDE --Begin--> INSIDE --Commit--> OUTSIDE. A change is legal only INSIDE. No row is kept:
Begin carries the commit LSN, so a change has its position when it arrives, and memory does not
grow with the transaction. Whole transactions below ``done`` are skipped, nothing finer, but for
the resume inside a split one: its first ``messages_done`` changes are counted and hashed, and
the hash must be that of what was published (I4).
"""

from dataclasses import dataclass, field
from hashlib import blake2b

from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.errors.publications import split_differs
from walbridge.producer.pgoutput.frames import wal_start
from walbridge.producer.pgoutput.messages import Begin, Commit, Origin
from walbridge.schemas.avro.codec import string_value
from walbridge.schemas.control.progress_record import Split
from walbridge.schemas.control.transaction_record import transaction_id
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn, Position, format_lsn

_UNKNOWN = Lsn(0)
_HELD_MAX = 1_000
"""Bodies held while a split transaction is skipped; elsewhere the batch limits bound them (I9)."""


@dataclass(slots=True)
class OpenTransaction:
    """A transaction between its Begin and its Commit. ``ordinal``: that of the next event; ``source``: what its events
    say of it; ``first_lsn``: no change of it stands before this WAL position."""

    begin: Begin
    skipped: bool
    resume: Split | None
    source: TransactionSource
    first_lsn: Lsn = _UNKNOWN
    ordinal: int = 0
    previous_commit_end: Lsn | None = None
    """End LSN of the commit before this transaction; None where events have no ``sequence``."""
    change_lsn: int = 0
    """WAL position of the newest change; kept only where events need it."""
    events: dict[int, int] | None = None
    """By relation id, the number of events so far; None where they are not counted."""
    waiting: dict[int, int] = field(default_factory=dict)
    """By relation id, the number of ``events`` that wait for the copy of their table: they are published later, or its
    rows contain them."""
    is_begun: bool = False
    """Its BEGIN record is in Kafka or in the open batch."""
    has_source_details: bool = False
    """Whether its events have a ``sequence`` or a ``transaction`` block."""
    encoded_id: bytes = b""
    """Debezium's id of the transaction, encoded; empty where events have no ``transaction`` block."""

    def source_of(self, relation_id: int) -> TransactionSource:
        """``source`` for the events of the newest change, which is one of this relation."""
        source, events = self.source, self.events
        encoded = (
            source.encoded
            if self.previous_commit_end is None
            else source.encoded_with_sequence(self.previous_commit_end, self.change_lsn)
        )
        if events is None:
            return TransactionSource(encoded, source.origin_lsn)
        others = self.ordinal - events.get(relation_id, 0)
        return TransactionSource(encoded, source.origin_lsn, 0, self.encoded_id, others)

    def count(self, relation_id: int, events: int, *, waits: bool = False) -> None:
        """Note events of this relation. ``ordinal`` moves on beside it."""
        if self.events is not None:
            self.events[relation_id] = self.events.get(relation_id, 0) + events
            if waits:
                self.waiting[relation_id] = self.waiting.get(relation_id, 0) + events

    @property
    def published(self) -> dict[int, int]:
        """By relation id, the number of events in Kafka or in the open batch; empty where they are not counted."""
        counts = ((each, count - self.waiting.get(each, 0)) for each, count in (self.events or {}).items())
        return {relation_id: count for relation_id, count in counts if count}

    @property
    def position(self) -> Position:
        """The position of the next event."""
        return Position(self.begin.final_lsn, self.ordinal)


class TransactionTracker:
    """Where the stream stands between Begin and Commit.

    Args:
        with_sequence: events have Debezium's ``sequence``.
        with_transaction: events have Debezium's ``transaction`` block.
        counts_events: count events even where they have no ``transaction`` block.
    """

    def __init__(
        self,
        done: Lsn,
        split: Split | None,
        body_at: int = 0,
        *,
        with_sequence: bool = False,
        with_transaction: bool = False,
        counts_events: bool = False,
    ) -> None:
        self._done = done
        self._split = split
        self._body_at = body_at
        self.unhashed: list[bytes] = []
        """Bodies of changes since Begin that are not hashed yet. While ``publishes`` is true a caller may append
        a body here itself instead of calling ``receive_change``."""
        self._hashed_count = 0
        self._hash = blake2b(digest_size=16)
        self._tells_sequence, self._tells_transaction = with_sequence, with_transaction
        self._counts_events = counts_events or with_transaction
        self.last_commit_end: Lsn | None = done if with_sequence else None
        """End LSN of the newest commit; None where events have no ``sequence``."""
        self.open: OpenTransaction | None = None
        self.publishes = False
        """True inside a transaction of which every further change is to be published."""

    def begin(self, message: Begin, first_lsn: Lsn = _UNKNOWN) -> OpenTransaction:
        """Enter a transaction.

        Args:
            first_lsn: no change of it stands before this WAL position.

        Raises:
            ProtocolError: one is open already.
            OperatorError: the split transaction does not come again.
        """
        if self.open is not None:
            raise ProtocolError("Begin inside a transaction")
        # ``done`` is the end of a commit record: a transaction whose commit record begins there is the next one.
        skipped = message.final_lsn < self._done
        resume = None
        # Before Postgres 15 empty transactions may come first; ``receive_change`` refuses one that has a change.
        if self._split is not None and not skipped and message.final_lsn >= self._split.commit_lsn:
            resume = self._split
            if (resume.commit_lsn, resume.xid) != (message.final_lsn, message.xid):
                raise _not_resumed(resume, message)
            self._split = None
        self.unhashed.clear()
        if self._hashed_count:
            self._hashed_count = 0
            self._hash = blake2b(digest_size=16)
        source = TransactionSource.of(message.final_lsn, message.commit_time_us, message.xid, None)
        events = None
        if self._counts_events:
            events = {} if resume is None else None if resume.events is None else dict(resume.events)
        self.open = OpenTransaction(
            message, skipped, resume, source, first_lsn, previous_commit_end=self.last_commit_end, events=events
        )
        if resume is not None:
            self.open.is_begun, self.open.waiting = resume.is_begun, dict(resume.waiting)
        with_transaction = self._tells_transaction and events is not None
        self.open.has_source_details = with_transaction or self.last_commit_end is not None
        if with_transaction:
            self.open.encoded_id = string_value(transaction_id(message.xid, message.final_lsn))
        self.publishes = not skipped and resume is None and self._split is None
        return self.open

    def receive_origin(self, message: Origin) -> None:
        """Note where a replicated transaction was made first."""
        transaction = self.inside()
        begin = transaction.begin
        transaction.source = TransactionSource.of(
            begin.final_lsn,
            begin.commit_time_us,
            begin.xid,
            message.name,
            message.origin_lsn or None,  # 0 in a block: not known yet
        )

    def receive_change(self, body: bytes) -> bool:
        """Count one change by its body (from ``body_at`` on); True when it is to be published.

        Raises:
            OperatorError: what is skipped inside a split transaction is not what was published.
        """
        transaction = self.inside()
        if self.publishes:
            if transaction.has_source_details:
                transaction.change_lsn = wal_start(body)
            self.unhashed.append(body)
            return True
        if transaction.skipped:
            return False
        if self._split is not None:
            raise _not_resumed(self._split, transaction.begin)
        self.unhashed.append(body)
        if len(self.unhashed) >= _HELD_MAX:
            self.hash_bodies()
        resume = transaction.resume
        assert resume is not None
        if self._hashed_count + len(self.unhashed) == resume.messages_done:
            if self.hash_bodies() != resume.hash:
                raise split_differs(
                    f"transaction {resume.xid} at {format_lsn(resume.commit_lsn)} reads otherwise than when its "
                    f"first {resume.messages_done} changes were published"
                )
            transaction.ordinal = resume.next_ordinal
            transaction.resume = None
            self.publishes = True
        return False

    def commit(self, message: Commit) -> OpenTransaction:
        """Leave the transaction; returns it."""
        transaction = self.inside()
        if message.commit_lsn != transaction.begin.final_lsn:
            raise ProtocolError("Commit of another transaction than Begin announced")
        if transaction.resume is not None:
            raise split_differs(
                f"transaction {transaction.begin.xid} ends before the changes that were published of it"
            )
        self.open, self.publishes = None, False
        if self._tells_sequence:
            self.last_commit_end = message.end_lsn
        return transaction

    @property
    def has_changes(self) -> bool:
        """A change of the open transaction was counted: without one a split could not be resumed."""
        return self._hashed_count + len(self.unhashed) > 0

    @property
    def next_change_place(self) -> tuple[Lsn, int] | None:
        """The commit LSN of the open transaction and the number of the next change in it; None where that change is not
        published."""
        transaction = self.open
        if transaction is None or not self.publishes:
            return None
        return transaction.begin.final_lsn, self._hashed_count + len(self.unhashed)

    def split(self) -> Split:
        """What is published of the open transaction, for progress."""
        transaction = self.inside()
        begin = transaction.begin
        digest = self.hash_bodies()
        events = None if transaction.events is None else dict(transaction.events)
        told = transaction.is_begun, dict(transaction.waiting)
        return Split(begin.final_lsn, begin.xid, self._hashed_count, transaction.ordinal, digest, events, *told)

    def hash_bodies(self) -> str:
        """Hash the bodies in ``unhashed`` and forget them; returns the hash of all bodies since Begin."""
        at = self._body_at
        for body in self.unhashed:
            # With its length: else bodies that are cut at other places would have the same hash.
            self._hash.update((len(body) - at).to_bytes(4, "big"))
            self._hash.update(memoryview(body)[at:])
        self._hashed_count += len(self.unhashed)
        self.unhashed.clear()
        return self._hash.hexdigest()

    def inside(self) -> OpenTransaction:
        """The open transaction.

        Raises:
            ProtocolError: none is open.
        """
        if self.open is None:
            raise ProtocolError("a change or Commit outside a transaction")
        return self.open


def _not_resumed(split: Split, begin: Begin) -> OperatorError:
    return split_differs(
        f"transaction {split.xid} at {format_lsn(split.commit_lsn)} is half published, "
        f"but Postgres sends {begin.xid} at {format_lsn(begin.final_lsn)}"
    )
