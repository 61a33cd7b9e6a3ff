"""Streamed blocks: which messages carry an xid, told by the messages before them.

In: payloads in the order they came. Out: each message, beside it the xid of the
(sub)transaction that made the change, or None outside blocks.

    OUTSIDE --Stream Start--> BLOCK --Stream Stop--> OUTSIDE

Only inside a block a change, a Relation, a Type and a Message have an xid behind their tag; an
Origin there has none. Nothing else is legal in a block, and blocks never nest (PostgreSQL
``proto.c``, ``logicalrep_write_stream_start``).
Without its xid such a payload is the very message that would have come unstreamed, so what a
spool keeps goes through the same pipeline as any other transaction.
"""

from walbridge.producer.pgoutput.decoder import DECODERS, decode_message
from walbridge.producer.pgoutput.messages import Message, Origin, StreamStart, StreamStop
from walbridge.schemas.errors import ProtocolError

_XID_BYTES = 4
_PREFIXED = frozenset(b"MRYIUDT")


class StreamDecoder:
    """Decodes the messages of one session, of any protocol version and option."""

    def __init__(self) -> None:
        self.block: StreamStart | None = None
        """The block that is open."""

    def decode(self, payload: bytes) -> tuple[int | None, Message]:
        """One message, tag byte included, and the xid of its change inside a block.

        A transactional Message has the top-level xid, whichever subtransaction made it.

        Raises:
            ProtocolError: malformed, or not legal here. Nothing else.
        """
        if self.block is None:
            return None, self._outside(decode_message(payload, DECODERS))
        if payload[:1] and payload[0] in _PREFIXED:
            return decode_streamed(payload)
        return self.block.xid, self._inside(decode_message(payload, DECODERS))

    def _outside(self, message: Message) -> Message:
        if isinstance(message, StreamStop):
            raise ProtocolError("StreamStop without a block")
        if isinstance(message, StreamStart):
            self.block = message
        return message

    def _inside(self, message: Message) -> Message:
        if isinstance(message, StreamStop):
            self.block = None
        elif not isinstance(message, Origin):
            raise ProtocolError(f"{type(message).__name__} inside a streamed block")
        return message


def decode_streamed(payload: bytes) -> tuple[int, Message]:
    """The xid and the message of a payload inside a block that carries one.

    Raises:
        ProtocolError: malformed, or a message without an xid. Nothing else.
    """
    xid, plain = split_xid(payload)
    return xid, decode_message(plain, DECODERS)


def split_xid(data: bytes, at: int = 0) -> tuple[int, bytes]:
    """The xid, and the payload as it would have come unstreamed.

    Args:
        data: a payload, or a frame with its payload from ``at`` on.

    Raises:
        ProtocolError: too short, or a message without an xid.
    """
    body = at + 1
    rest = body + _XID_BYTES
    if len(data) < rest or data[at] not in _PREFIXED:
        raise ProtocolError(f"no xid in message {data[at:body]!r} of {len(data) - at} bytes inside a streamed block")
    return int.from_bytes(data[body:rest], "big"), data[at:body] + data[rest:]
