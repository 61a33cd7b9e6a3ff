"""What a session's messages say was committed, whatever options it asked for.

In: the messages of one slot in their order, streamed, prepared or neither. Out: committed
transactions in the order of their commits, each with its changes as rows by column name. The same
WAL must give the same ones under every option. This is the rule a spool has to follow, in its
shortest form: everything in memory, nothing survives.

    block's changes wait by top-level xid → Stream Abort drops those of one subtransaction
    → Stream Commit, or Stream Prepare and later Commit Prepared, lets them out

Relations that came in a block are that transaction's alone until its commit, which the server
takes to be known from then on; aborted, they never were.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.producer.pgoutput.stream_decoder import StreamDecoder
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
    Change,
    Commit,
    CommitPrepared,
    Delete,
    Field,
    Insert,
    LogicalMessage,
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
    Truncate,
    Type,
    Unsent,
    Update,
)
from walbridge.schemas.position import Lsn

Row = dict[str, Any]
Event = tuple[str, str, Row | None, Row | None]
"""Operation, table, old, new."""
Relations = dict[int, Relation]
Waiting = list[tuple[int | None, Message]]
_INT4 = 23


@dataclass(frozen=True, slots=True)
class Transaction:
    """``commit_lsn`` and a change's place in ``events`` are its position."""

    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    events: list[Event]


@dataclass
class Reader:
    """One session."""

    transactions: list[Transaction] = field(default_factory=list)
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    """Those that were not transactional."""
    _decoder: StreamDecoder = field(default_factory=StreamDecoder)
    _session: Relations = field(default_factory=dict)
    _streams: dict[int, Waiting] = field(default_factory=dict)
    _prepared: dict[tuple[int, str], list[Event]] = field(default_factory=dict)
    _open: Waiting = field(default_factory=list)

    def read(self, payloads: Iterable[bytes]) -> list[Transaction]:
        """All that these commit, empty transactions left out: from 15 on servers do so too."""
        for payload in payloads:
            xid, message = self._decoder.decode(payload)
            self._receive(xid, message)
        return [transaction for transaction in self.transactions if transaction.events]

    def _receive(self, xid: int | None, message: Message) -> None:
        block = self._decoder.block
        match message:
            case StreamStart() if message.is_first:
                self._streams[message.xid] = []
            case StreamStart() | StreamStop() | Origin():
                pass
            case LogicalMessage() if not message.transactional:
                self.messages.append((message.prefix, message.content))
            case Begin() | BeginPrepare():
                self._open = []
            case _ if block is not None:
                self._streams[block.xid].append((xid, message))
            case Relation() | Type() | LogicalMessage() | Insert() | Update() | Delete() | Truncate():
                self._open.append((None, message))
            case _:
                self._end(message)

    def _end(self, message: Message) -> None:
        match message:
            case Commit():
                self._commit(0, message.commit_lsn, message.end_lsn, self._events(self._open, merge=True))
            case StreamCommit():
                events = self._events(self._streams.pop(message.xid), merge=True)
                self._commit(message.xid, message.commit_lsn, message.end_lsn, events)
            case StreamAbort() if message.xid == message.subxid:
                self._streams.pop(message.xid, None)
            case StreamAbort():
                kept = [each for each in self._streams.get(message.xid, []) if each[0] != message.subxid]
                self._streams[message.xid] = kept
            case Prepare():
                self._prepared[message.xid, message.gid] = self._events(self._open, merge=True)
            case StreamPrepare():
                events = self._events(self._streams.pop(message.xid), merge=False)
                self._prepared[message.xid, message.gid] = events
            case CommitPrepared():
                events = self._prepared.pop((message.xid, message.gid), [])
                self._commit(message.xid, message.commit_lsn, message.end_lsn, events)
            case RollbackPrepared():
                self._prepared.pop((message.xid, message.gid), None)

    def _commit(self, xid: int, commit_lsn: Lsn, end_lsn: Lsn, events: list[Event]) -> None:
        self.transactions.append(Transaction(xid, commit_lsn, end_lsn, events))

    def _events(self, waiting: Waiting, *, merge: bool) -> list[Event]:
        relations = self._session if merge else dict(self._session)
        events: list[Event] = []
        for _, message in waiting:
            if isinstance(message, Relation):
                relations[message.relation_id] = message
            elif isinstance(message, LogicalMessage):
                events.append(("m", message.prefix, None, {"content": message.content}))
            elif isinstance(message, Change):
                events += _rows(message, relations)
        return events


def _rows(change: Change, relations: Relations) -> list[Event]:
    if isinstance(change, Truncate):
        return [("t", relations[each].name, None, None) for each in change.relation_ids]
    relation = relations[change.relation_id]
    key, old, new = (getattr(change, name, None) for name in ("key", "old", "new"))
    before = _row(relation, old) if old else _row(relation, key, only_key=True) if key else None
    return [(type(change).__name__[0].lower(), relation.name, before, _row(relation, new) if new else None)]


def _row(relation: Relation, data: bytes, *, only_key: bool = False) -> Row:
    fields = decode_tuple(data)
    columns = zip(relation.columns, fields, strict=True)
    return {
        column.name: _value(column.type_oid, value)
        for column, value in columns
        if column.in_replica_identity or not only_key
    }


def _value(type_oid: int, value: Field) -> Any:
    """Integers and texts: all that the workloads hold."""
    if isinstance(value, Unsent):
        return None if value is Unsent.NULL else value
    if isinstance(value, Binary):
        return int.from_bytes(value.data, "big", signed=True) if type_oid == _INT4 else value.data.decode()
    return int(value) if type_oid == _INT4 else value.decode()
