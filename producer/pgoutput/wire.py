"""Bounds-checked reading of big-endian protocol fields.

In: one message's bytes; out: numbers, strings, slices. Every access is checked here, in one
place, so that no decoder can index past the end. Source: PostgreSQL manual, "Message Data Types".
"""

from struct import Struct
from typing import NoReturn

from walbridge.schemas.errors import ProtocolError

_INT16, _INT32, _UINT32, _INT64, _UINT64 = (Struct(f">{code}") for code in "hiIqQ")


class WireReader:
    """A cursor over one message. Every method raises ProtocolError when bytes are missing."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """One unsigned byte: a tag or flags."""
        return self.take(1)[0]

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def uint32(self) -> int:
        """An oid or xid."""
        return self._number(_UINT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def uint64(self) -> int:
        """An LSN."""
        return self._number(_UINT64)

    def numbers(self, layout: Struct) -> tuple[int, ...]:
        """All that the layout has."""
        if self.at + layout.size > len(self.data):
            self._truncated("number", layout.size)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def string(self) -> str:
        """A NUL-terminated UTF-8 string (client_encoding is pinned)."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            self._truncated("string", 1)
        raw = self.data[self.at : end]
        self.at = end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError("string is not UTF-8") from None

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            self._truncated("field", count)
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self.data) - self.at)

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self.data)

    def expect_end(self) -> None:
        """Refuse bytes that no field claims."""
        if self.at != len(self.data):
            raise ProtocolError(f"{len(self.data) - self.at} bytes left over at {self.at}")

    def _number(self, number: Struct) -> int:
        return self.numbers(number)[0]

    def _truncated(self, what: str, count: int) -> NoReturn:
        raise ProtocolError(f"truncated: a {what} of {count} bytes at {self.at} of {len(self.data)}")
