"""Frames of the streaming replication protocol: what CopyBoth carries.

In: one CopyData payload; out: a frame. Timestamps are microseconds since 2000-01-01 UTC.
``wal_start`` orders nothing: it is 0 on Relation and Type frames and moves backwards,
so it is never confirmed. Source: PostgreSQL manual, "Streaming Replication
Protocol".
"""

from dataclasses import dataclass
from struct import Struct, error

from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

POSTGRES_EPOCH_US = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970."""
EARLIEST_US, LATEST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which every reader's date can be."""
XLOG_DATA_HEADER_BYTES = 25

_WAL_START = Struct(">xQ").unpack_from
_KEEPALIVE = Struct(">QqB")
_STATUS = Struct(">cQQQqB")


@dataclass(frozen=True, slots=True)
class PrimaryKeepalive:
    """'k': ``wal_end`` is the end of the last WAL record that was decoded."""

    wal_end: Lsn
    reply_requested: bool


def decode_keepalive(data: bytes) -> PrimaryKeepalive:
    """Decode one CopyData payload that is no XLogData ('w': 24 bytes of positions and time, then one message).

    Raises:
        ProtocolError: unknown tag, truncated or overlong frame.
    """
    if not data.startswith(b"k"):
        raise ProtocolError(f"unknown frame {data[:1]!r}")
    try:
        wal_end, _, reply = _KEEPALIVE.unpack(data[1:])
    except error:
        raise ProtocolError(f"frame {data[:1]!r} of {len(data)} bytes has another length than its kind") from None
    return PrimaryKeepalive(Lsn(wal_end), bool(reply))


def wal_start(data: bytes) -> int:
    """The WAL position of the message in an XLogData frame: that of a change's record, or the end of a commit's."""
    (lsn,) = _WAL_START(data)
    return int(lsn)


def sent_us(data: bytes) -> int:
    """When the server sent an XLogData frame, since 1970."""
    return int.from_bytes(data[17:XLOG_DATA_HEADER_BYTES], "big", signed=True) + POSTGRES_EPOCH_US


def encode_standby_status(received: int, confirmed: int, now_us: int, *, reply_requested: bool = False) -> bytes:
    """A standby status update: only ``confirmed`` (flushed) moves the slot.

    Args:
        received: highest LSN the server has sent.
        confirmed: everything before it is durable in Kafka (I1).
        now_us: microseconds since 1970.
    """
    return _STATUS.pack(b"r", received, confirmed, confirmed, now_us - POSTGRES_EPOCH_US, reply_requested)
