"""A change inside a streamed block: the plain message with an xid after its tag.

In: its payload. Out: the xid of the (sub)transaction that made the change, and the payload as it would have come
unstreamed. So a transaction in the spool is read like any other. Only changes, Relation, Type and Message have that
xid; an Origin has none (PostgreSQL ``proto.c``, ``logicalrep_write_stream_start``).
"""

from walbridge.schemas.errors import ProtocolError

_XID_BYTES = 4
PREFIXED = frozenset(b"MRYIUDT")
"""Tags of the messages that carry an xid inside a block."""


def split_xid(data: bytes, at: int = 0) -> tuple[int, bytes]:
    """The xid, and the payload as it would have come unstreamed.

    Args:
        data: a payload, or a frame with its payload from ``at`` on.

    Raises:
        ProtocolError: too short, or a message without an xid.
    """
    body = at + 1
    rest = body + _XID_BYTES
    if len(data) < rest or data[at] not in PREFIXED:
        raise ProtocolError(f"no xid in message {data[at:body]!r} of {len(data) - at} bytes inside a streamed block")
    return int.from_bytes(data[body:rest], "big"), data[at:body] + data[rest:]
