"""pgoutput messages: bytes to values, one function a message, one table of them.

In: a payload with its tag; out: a message. Whatever the bytes, the result is a message or a
``ProtocolError``: lengths are checked against what is left, and bytes that no field claims are
refused. The last tuple of a message is taken whole and checked by whoever walks it, once: the
transcoder on its way to Avro, or ``decode_tuple``. Source: PostgreSQL ``proto.c``; pgoutput.md §5.
"""

from collections.abc import Callable

from producer.pgoutput.frames import POSTGRES_EPOCH_US
from producer.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Field,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    StreamAbort,
    Truncate,
    Type,
    Unsent,
    Update,
)
from producer.pgoutput.wire import WireReader
from schemas.errors import ProtocolError
from schemas.position import Lsn

_NULL, _UNCHANGED, _TEXT = b"nut"
_KEY, _OLD, _NEW = b"KON"


def decode_message(payload: bytes) -> Message:
    """Decode one pgoutput message, tag byte included.

    Raises:
        ProtocolError: unknown tag, truncated payload or bytes left over. Nothing else.
    """
    if payload[:1] == b"I" and payload[5:6] == b"N":
        # The one message that comes by the million; the same as its entry in DECODERS.
        return Insert(int.from_bytes(payload[1:5], "big"), payload[6:])
    wire = WireReader(payload)
    decode = DECODERS.get(tag := wire.byte())
    if decode is None:
        raise ProtocolError(f"unknown message tag {bytes([tag])!r}")
    message = decode(wire)
    wire.expect_end()
    return message


def _begin(wire: WireReader) -> Begin:
    return Begin(Lsn(wire.uint64()), wire.int64() + POSTGRES_EPOCH_US, wire.uint32())


def _commit(wire: WireReader) -> Commit:
    if flags := wire.byte():
        raise ProtocolError(f"Commit with unknown flags {flags}")
    return Commit(Lsn(wire.uint64()), Lsn(wire.uint64()), wire.int64() + POSTGRES_EPOCH_US)


def _origin(wire: WireReader) -> Origin:
    return Origin(Lsn(wire.uint64()), wire.string())


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


def _stream_abort(wire: WireReader) -> StreamAbort:
    # Of version 2: the 16 bytes more of streaming = parallel are not asked for here.
    return StreamAbort(wire.uint32(), wire.uint32())


DECODERS: dict[int, Callable[[WireReader], Message]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("A"): _stream_abort,
}


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
