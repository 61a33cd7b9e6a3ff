"""What a walsender writes: the inverse of ``walbridge.producer.pgoutput``, for every message.

In: messages and frames as values; out: bytes. Written from the manual and ``proto.c``, not from
the decoder. Source: PostgreSQL manual, "Logical Replication Message Formats".
"""

from collections.abc import Callable, Sequence
from struct import pack
from typing import Any

from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
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

EPOCH_US = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970: Postgres counts from there."""


def encode_message(message: Message) -> bytes:
    """One pgoutput message, tag included."""
    return _ENCODERS[type(message)](message)


def encode_streamed(xid: int, message: Message) -> bytes:
    """A message as it is inside a streamed block, if it is one that carries an xid there."""
    payload = encode_message(message)
    return payload[:1] + pack(">I", xid) + payload[1:]


def tuple_data(*fields: Field) -> bytes:
    """TupleData: the number of columns, then the kind of each with its text."""
    return pack(">h", len(fields)) + b"".join(map(_field, fields))


def _field(field: Field) -> bytes:
    if isinstance(field, Unsent):
        return {Unsent.NULL: b"n", Unsent.UNCHANGED_TOAST: b"u"}[field]
    kind, data = (b"b", field.data) if isinstance(field, Binary) else (b"t", field)
    return kind + pack(">i", len(data)) + data


def xlog_data(payload: bytes, wal_start: int = 0, wal_end: int = 0, sent_us: int = 0) -> bytes:
    """A 'w' frame; ``sent_us`` since 2000."""
    return b"w" + pack(">QQq", wal_start, wal_end, sent_us) + payload


def keepalive(wal_end: int, *, reply_requested: bool = False, sent_us: int = 0) -> bytes:
    """A 'k' frame."""
    return b"k" + pack(">QqB", wal_end, sent_us, reply_requested)


def _string(text: str) -> bytes:
    return text.encode() + b"\0"


def _begin(message: Begin) -> bytes:
    return b"B" + pack(">QqI", message.final_lsn, message.commit_time_us - EPOCH_US, message.xid)


def _message(message: LogicalMessage) -> bytes:
    head = pack(">bQ", message.transactional, message.message_lsn) + _string(message.prefix)
    return b"M" + head + pack(">i", len(message.content)) + message.content


def _commit(message: Commit) -> bytes:
    return b"C\0" + _ended(message.commit_lsn, message.end_lsn, message.commit_time_us)


def _ended(lsn: int, end_lsn: int, time_us: int) -> bytes:
    return pack(">QQq", lsn, end_lsn, time_us - EPOCH_US)


def _of_gid(xid: int, gid: str) -> bytes:
    return pack(">I", xid) + _string(gid)


def _origin(message: Origin) -> bytes:
    return b"O" + pack(">Q", message.origin_lsn) + _string(message.name)


def _relation(message: Relation) -> bytes:
    namespace = "" if message.namespace == "pg_catalog" else message.namespace
    head = pack(">I", message.relation_id) + _string(namespace) + _string(message.name)
    columns = [
        pack(">b", column.in_replica_identity) + _string(column.name) + pack(">Ii", column.type_oid, column.typmod)
        for column in message.columns
    ]
    return b"R" + head + message.replica_identity.encode() + pack(">h", len(columns)) + b"".join(columns)


def _type(message: Type) -> bytes:
    namespace = "" if message.namespace == "pg_catalog" else message.namespace
    return b"Y" + pack(">I", message.type_oid) + _string(namespace) + _string(message.name)


def _insert(message: Insert) -> bytes:
    return b"I" + pack(">I", message.relation_id) + b"N" + message.new


def _old(key: bytes | None, old: bytes | None) -> bytes:
    if key is not None:
        return b"K" + key
    return b"" if old is None else b"O" + old


def _update(message: Update) -> bytes:
    return b"U" + pack(">I", message.relation_id) + _old(message.key, message.old) + b"N" + message.new


def _delete(message: Delete) -> bytes:
    return b"D" + pack(">I", message.relation_id) + _old(message.key, message.old)


def _truncate(message: Truncate) -> bytes:
    options = message.cascade | message.restart_identity << 1
    ids: Sequence[int] = message.relation_ids
    return b"T" + pack(f">ib{len(ids)}I", len(ids), options, *ids)


def _stream_start(message: StreamStart) -> bytes:
    return b"S" + pack(">Ib", message.xid, message.is_first)


def _stream_stop(message: StreamStop) -> bytes:
    return b"E"


def _stream_commit(message: StreamCommit) -> bytes:
    end = _ended(message.commit_lsn, message.end_lsn, message.commit_time_us)
    return b"c" + pack(">Ib", message.xid, 0) + end


def _stream_abort(message: StreamAbort) -> bytes:
    xids = pack(">II", message.xid, message.subxid)
    if message.abort_lsn is None or message.abort_time_us is None:
        return b"A" + xids
    return b"A" + xids + pack(">Qq", message.abort_lsn, message.abort_time_us - EPOCH_US)


def _prepared(message: BeginPrepare | Prepare | StreamPrepare) -> bytes:
    end = _ended(message.prepare_lsn, message.end_lsn, message.prepare_time_us)
    return end + _of_gid(message.xid, message.gid)


def _begin_prepare(message: BeginPrepare) -> bytes:
    return b"b" + _prepared(message)


def _prepare(message: Prepare) -> bytes:
    return b"P\0" + _prepared(message)


def _commit_prepared(message: CommitPrepared) -> bytes:
    end = _ended(message.commit_lsn, message.end_lsn, message.commit_time_us)
    return b"K\0" + end + _of_gid(message.xid, message.gid)


def _rollback_prepared(message: RollbackPrepared) -> bytes:
    prepared = _ended(message.prepare_end_lsn, message.rollback_end_lsn, message.prepare_time_us)
    rolled_back = pack(">q", message.rollback_time_us - EPOCH_US)
    return b"r\0" + prepared + rolled_back + _of_gid(message.xid, message.gid)


def _stream_prepare(message: StreamPrepare) -> bytes:
    return b"p\0" + _prepared(message)


_ENCODERS: dict[type[Message], Callable[[Any], bytes]] = {
    Begin: _begin,
    LogicalMessage: _message,
    Commit: _commit,
    Origin: _origin,
    Relation: _relation,
    Type: _type,
    Insert: _insert,
    Update: _update,
    Delete: _delete,
    Truncate: _truncate,
    StreamStart: _stream_start,
    StreamStop: _stream_stop,
    StreamCommit: _stream_commit,
    StreamAbort: _stream_abort,
    BeginPrepare: _begin_prepare,
    Prepare: _prepare,
    CommitPrepared: _commit_prepared,
    RollbackPrepared: _rollback_prepared,
    StreamPrepare: _stream_prepare,
}
