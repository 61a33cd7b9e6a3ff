"""Any frame of CopyBoth, decoded: the producer leaves the head of an XLogData as it is."""

from dataclasses import dataclass
from struct import Struct

from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, PrimaryKeepalive, decode_keepalive
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

_XLOG_DATA = Struct(">QQq")


@dataclass(frozen=True, slots=True)
class XLogData:
    """'w': one pgoutput message."""

    wal_start: Lsn
    wal_end: Lsn
    payload: bytes


def decode_frame(data: bytes) -> XLogData | PrimaryKeepalive:
    """Decode one CopyData payload.

    Raises:
        ProtocolError: unknown tag, truncated or overlong frame.
    """
    if not data.startswith(b"w"):
        return decode_keepalive(data)
    if len(data) < XLOG_DATA_HEADER_BYTES:
        raise ProtocolError(f"frame {data[:1]!r} of {len(data)} bytes has no room for its head")
    wal_start, wal_end, _ = _XLOG_DATA.unpack_from(data, 1)
    return XLogData(Lsn(wal_start), Lsn(wal_end), data[XLOG_DATA_HEADER_BYTES:])
