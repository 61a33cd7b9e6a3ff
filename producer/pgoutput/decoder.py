"""pgoutput messages: bytes to values, one function a message, one table of them.

In: a payload with its tag; out: a message. Whatever the bytes, the result is a message or a
``ProtocolError``: lengths are checked against what is left, and bytes that no field claims are
refused. The last tuple of a message is taken whole and checked by whoever walks it, once: the
transcoder on its way to Avro, or ``decode_tuple``. Source: PostgreSQL ``proto.c``.
"""

from collections.abc import Callable, Mapping
from struct import Struct

from walbridge.producer.pgoutput.frames import EARLIEST_US, LATEST_US, POSTGRES_EPOCH_US
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
    RelationColumn,
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
from walbridge.producer.pgoutput.wire import WireReader
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

_NULL, _UNCHANGED, _TEXT, _BINARY = b"nutb"
_KEY, _OLD, _NEW = b"KON"

Decoder = Callable[[WireReader], Message]

# Read in one step: they come with every transaction, which may be one of a single row.
_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")


def _begin(wire: WireReader) -> Begin:
    final_lsn, time, xid = wire.numbers(_BEGIN)
    return Begin(Lsn(final_lsn), _held_us(time), xid)


def _message(wire: WireReader) -> LogicalMessage:
    transactional = _flag(wire)
    return LogicalMessage(transactional, _lsn(wire), wire.string(), wire.take(wire.int32()))


def _commit(wire: WireReader) -> Commit:
    flags, commit_lsn, end_lsn, time = wire.numbers(_COMMIT)
    _refuse_flags(flags)
    return Commit(Lsn(commit_lsn), Lsn(end_lsn), _held_us(time))


def _origin(wire: WireReader) -> Origin:
    return Origin(_lsn(wire), wire.string())


def _relation(wire: WireReader) -> Relation:
    relation_id, namespace, name = wire.uint32(), wire.string(), wire.string()
    identity = chr(wire.byte())
    if identity not in "dnfi":
        raise ProtocolError(f"unknown replica identity {identity!r}")
    columns = tuple(
        RelationColumn(bool(wire.byte() & 1), wire.string(), wire.uint32(), wire.int32())
        for _ in range(_count(wire.int16()))
    )
    return Relation(relation_id, namespace or "pg_catalog", name, identity, columns)


def _type(wire: WireReader) -> Type:
    return Type(wire.uint32(), wire.string() or "pg_catalog", wire.string())


def _insert(wire: WireReader) -> Insert:
    relation_id = wire.uint32()
    _expect(wire, _NEW)
    return Insert(relation_id, wire.rest())


def _update(wire: WireReader) -> Update:
    relation_id, kind = wire.uint32(), wire.byte()
    key = _tuple(wire) if kind == _KEY else None
    old = _tuple(wire) if kind == _OLD else None
    if key is None and old is None:
        wire.at -= 1
    _expect(wire, _NEW)
    return Update(relation_id, key, old, wire.rest())


def _delete(wire: WireReader) -> Delete:
    relation_id, kind = wire.uint32(), wire.byte()
    if kind not in (_KEY, _OLD):
        raise ProtocolError(f"Delete with tuple kind {bytes([kind])!r}")
    old = wire.rest()
    return Delete(relation_id, old if kind == _KEY else None, old if kind == _OLD else None)


def _truncate(wire: WireReader) -> Truncate:
    count, options = _count(wire.int32()), wire.byte()
    # A count beyond the bytes left must not make a list of that length first.
    if count * 4 != len(wire.data) - wire.at:
        raise ProtocolError(f"Truncate of {count} relations in {len(wire.data) - wire.at} bytes")
    return Truncate(bool(options & 1), bool(options & 2), tuple(wire.uint32() for _ in range(count)))


def _stream_start(wire: WireReader) -> StreamStart:
    return StreamStart(wire.uint32(), _flag(wire))


def _stream_stop(wire: WireReader) -> StreamStop:
    return StreamStop()


def _stream_commit(wire: WireReader) -> StreamCommit:
    xid = wire.uint32()
    _no_flags(wire)
    return StreamCommit(xid, _lsn(wire), _lsn(wire), _time_us(wire))


def _stream_abort(wire: WireReader) -> StreamAbort:
    xid, subxid = wire.uint32(), wire.uint32()
    # Whether the rest is there depends on streaming = parallel, not on the protocol's version.
    if wire.is_at_end:
        return StreamAbort(xid, subxid)
    return StreamAbort(xid, subxid, _lsn(wire), _time_us(wire))


def _begin_prepare(wire: WireReader) -> BeginPrepare:
    return BeginPrepare(_lsn(wire), _lsn(wire), _time_us(wire), wire.uint32(), wire.string())


def _prepare(wire: WireReader) -> Prepare:
    _no_flags(wire)
    return Prepare(_lsn(wire), _lsn(wire), _time_us(wire), wire.uint32(), wire.string())


def _commit_prepared(wire: WireReader) -> CommitPrepared:
    _no_flags(wire)
    return CommitPrepared(_lsn(wire), _lsn(wire), _time_us(wire), wire.uint32(), wire.string())


def _rollback_prepared(wire: WireReader) -> RollbackPrepared:
    _no_flags(wire)
    ends, times = (_lsn(wire), _lsn(wire)), (_time_us(wire), _time_us(wire))
    return RollbackPrepared(*ends, *times, wire.uint32(), wire.string())


def _stream_prepare(wire: WireReader) -> StreamPrepare:
    _no_flags(wire)
    return StreamPrepare(_lsn(wire), _lsn(wire), _time_us(wire), wire.uint32(), wire.string())


DECODERS: dict[int, Decoder] = {
    ord("B"): _begin,
    ord("M"): _message,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("S"): _stream_start,
    ord("E"): _stream_stop,
    ord("c"): _stream_commit,
    ord("A"): _stream_abort,
    ord("b"): _begin_prepare,
    ord("P"): _prepare,
    ord("K"): _commit_prepared,
    ord("r"): _rollback_prepared,
    ord("p"): _stream_prepare,
}
PLAIN_TAGS = b"BCORYIUDTA"
"""What comes without any option; Stream Abort only by a fault of the server."""
_PLAIN = {tag: DECODERS[tag] for tag in PLAIN_TAGS}
_TAGS_OF_OPTIONS = {"messages": b"M", "streaming": b"SEc", "two_phase": b"bPKr"}
"""What else comes with an option of START_REPLICATION."""


def decode_message(payload: bytes, decoders: Mapping[int, Decoder] = _PLAIN) -> Message:
    """Decode one message, tag byte included, as it is laid out outside streamed blocks.

    Args:
        decoders: of the messages that this session may get: those of a session without options,
            or ``DECODERS`` for all.

    Raises:
        ProtocolError: unknown tag, a message that was not asked for, truncated payload or bytes
            left over. Nothing else.
    """
    if payload[:1] == b"I" and payload[5:6] == b"N":
        # The one message that comes by the million; the same as its entry in DECODERS.
        return Insert(int.from_bytes(payload[1:5], "big"), payload[6:])
    wire = WireReader(payload, 1)
    tag = payload[0] if payload else wire.byte()
    decode = decoders.get(tag)
    if decode is None:
        raise _refused(tag)
    message = decode(wire)
    wire.expect_end()
    return message


def decoders_for(options: Mapping[str, str]) -> dict[int, Decoder]:
    """Decoders of the messages that these options of START_REPLICATION bring; an option is named only if it is on."""
    tags = PLAIN_TAGS + b"".join(added for name, added in _TAGS_OF_OPTIONS.items() if name in options)
    if {"streaming", "two_phase"} <= options.keys():
        tags += b"p"
    return {tag: DECODERS[tag] for tag in tags}


def _refused(tag: int) -> ProtocolError:
    known = DECODERS.get(tag)
    if known is None:
        return ProtocolError(f"unknown message tag {bytes([tag])!r}")
    return ProtocolError(f"a message was sent that was not asked for: {known.__name__.strip('_')} {bytes([tag])!r}")


def decode_tuple(data: bytes) -> tuple[Field, ...]:
    """The fields of a TupleData.

    Raises:
        ProtocolError: truncated, an unknown kind of field, or bytes left over.
    """
    wire = WireReader(data)
    fields = tuple(_field(wire) for _ in range(_count(wire.int16())))
    wire.expect_end()
    return fields


def _field(wire: WireReader) -> Field:
    kind = wire.byte()
    if kind == _TEXT:
        return wire.take(wire.int32())
    if kind in (_NULL, _UNCHANGED):
        return Unsent(chr(kind))
    if kind == _BINARY:
        return Binary(wire.take(wire.int32()))
    raise ProtocolError(f"unknown kind of field {bytes([kind])!r}")


def _tuple(wire: WireReader) -> bytes:
    """Slice one TupleData off, checking that it is one."""
    start = wire.at
    for _ in range(_count(wire.int16())):
        _field(wire)
    return wire.data[start : wire.at]


def _count(count: int) -> int:
    if count < 0:
        raise ProtocolError(f"negative count {count}")
    return count


def _expect(wire: WireReader, kind: int) -> None:
    if (found := wire.byte()) != kind:
        raise ProtocolError(f"expected tuple {bytes([kind])!r}, found {bytes([found])!r}")


def _lsn(wire: WireReader) -> Lsn:
    return Lsn(wire.uint64())


def _time_us(wire: WireReader) -> int:
    return _held_us(wire.int64())


def _held_us(time: int) -> int:
    """A time, moved into the years 1 to 9999: whoever replicates may give an origin any time, even infinity."""
    return min(max(time + POSTGRES_EPOCH_US, EARLIEST_US), LATEST_US)


def _flag(wire: WireReader) -> bool:
    if (flags := wire.byte()) > 1:
        raise ProtocolError(f"unknown flags {flags}")
    return bool(flags)


def _no_flags(wire: WireReader) -> None:
    _refuse_flags(wire.byte())


def _refuse_flags(flags: int) -> None:
    if flags:
        raise ProtocolError(f"unknown flags {flags}")
