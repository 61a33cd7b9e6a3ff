"""All messages of a session, decoded one by one: the oracle of what the producer keeps as bytes.

In: payloads in the order they came. Out: each message, beside it the xid of the
(sub)transaction that made the change, or None outside blocks.

    OUTSIDE --Stream Start--> BLOCK --Stream Stop--> OUTSIDE

Nothing but changes, Relations, Types, Messages and an Origin is legal in a block, and blocks never nest.
"""

from walbridge.producer.pgoutput.decoder import DECODERS, decode_message
from walbridge.producer.pgoutput.messages import Message, Origin, StreamStart, StreamStop
from walbridge.producer.pgoutput.streamed import PREFIXED, split_xid
from walbridge.schemas.errors import ProtocolError


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
        if payload[:1] and payload[0] in PREFIXED:
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
