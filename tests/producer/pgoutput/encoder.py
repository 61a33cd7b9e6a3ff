"""What a walsender writes: the inverse of ``producer.pgoutput``, for every message of protocol 1.

In: messages and frames as values; out: bytes. Written from the manual and ``proto.c``, not from
the decoder. Source: PostgreSQL manual, "Logical Replication Message Formats".
"""

from collections.abc import Callable, Sequence
from struct import pack
from typing import Any

from producer.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Field,
    Insert,
    Message,
    Origin,
    Relation,
    StreamAbort,
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


def tuple_data(*fields: Field) -> bytes:
    """TupleData: the number of columns, then the kind of each with its text."""
    return pack(">h", len(fields)) + b"".join(map(_field, fields))


def _field(field: Field) -> bytes:
    if isinstance(field, Unsent):
        return {Unsent.NULL: b"n", Unsent.UNCHANGED_TOAST: b"u"}[field]
    return b"t" + pack(">i", len(field)) + field


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


def _commit(message: Commit) -> bytes:
    times = message.commit_lsn, message.end_lsn, message.commit_time_us - EPOCH_US
    return b"C" + pack(">bQQq", 0, *times)


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


def _stream_abort(message: StreamAbort) -> bytes:
    return b"A" + pack(">II", message.xid, message.subxid)


_ENCODERS: dict[type[Message], Callable[[Any], bytes]] = {
    Begin: _begin,
    Commit: _commit,
    Origin: _origin,
    Relation: _relation,
    Type: _type,
    Insert: _insert,
    Update: _update,
    Delete: _delete,
    Truncate: _truncate,
    StreamAbort: _stream_abort,
}
