"""Records of one table that wait until its rows are copied, on disk but for the newest (I9).

In: records of committed transactions, in their order, each with its xid. Out: the same, in the same order, also while
more come. It is a file without a name: whatever ends the process ends it. Nothing here is the only copy of anything:
a copy whose records are lost is begun again.
"""

import tempfile
from collections.abc import Callable
from struct import Struct
from typing import IO

from walbridge.producer.copying.set_aside import Queue
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.session.transactions.transaction_spool import Spool, spool_parent
from walbridge.schemas.settings import Settings

PIECE_BYTES = 2**20
"""Written and read at once."""
_HEAD = Struct(">IiiII")
"""xid; lengths of the value and of the key (-1: none), of the header's name (0: no header) and of its value."""


class QueueFull(Exception):
    """There is no room for another record, within what settings allow."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes


class RecordQueue(Queue[KafkaRecord]):
    """The records of one table.

    Attributes:
        folder: of the file.

    Args:
        refuse_full: told how many bytes the file is to take; raises QueueFull where these are too many.

    Raises:
        OSError: the folder cannot be written; of every method.
    """

    def __init__(self, folder: str, refuse_full: Callable[[int], None]) -> None:
        self.folder, self._refuse_full = folder, refuse_full
        self._file: IO[bytes] | None = None
        self._written = self._read = 0
        self._newest = bytearray()
        self._oldest = memoryview(b"")
        self._count = 0

    @classmethod
    def sharing_limit(cls, settings: Settings, spool: Spool) -> "RecordQueue":
        """A queue that shares ``spool_bytes_max`` with the spool of transactions."""
        limit_bytes = settings.producer.spool_bytes_max

        def refuse_full(size_bytes: int) -> None:
            if size_bytes + spool.byte_count > limit_bytes:
                raise QueueFull(limit_bytes)

        return cls(str(spool_parent(settings)), refuse_full)

    def __len__(self) -> int:
        return self._count

    @property
    def byte_count(self) -> int:
        """On disk, also what was read and is not given back yet."""
        return self._written

    def append(self, xid: int, record: KafkaRecord) -> None:
        """Add one at the end.

        Raises:
            QueueFull: there is no room for it.
        """
        key, value, headers = record
        name, header = headers[0] if headers else ("", b"")
        part = header if isinstance(header, bytes) else b""
        key_bytes = -1 if key is None else len(key)
        value_bytes = -1 if value is None else len(value)
        self._newest += _HEAD.pack(xid, value_bytes, key_bytes, len(name), len(part))
        for piece in (value or b"", key or b"", name.encode(), part):
            self._newest += piece
        self._count += 1
        if len(self._newest) >= PIECE_BYTES:
            self._write()

    def take(self) -> tuple[int, KafkaRecord] | None:
        """The first one, which leaves."""
        if not self._count:
            return None
        self._count -= 1
        head = self._bytes(_HEAD.size)
        xid, value_bytes, key_bytes, name_bytes, part_bytes = _HEAD.unpack(head)
        value = None if value_bytes < 0 else self._bytes(value_bytes)
        key = None if key_bytes < 0 else self._bytes(key_bytes)
        name, part = self._bytes(name_bytes).decode(), self._bytes(part_bytes)
        if not self._count and self._file is not None:
            self._file.truncate(0)
            self._read = self._written = 0
        return xid, KafkaRecord(key, value, [(name, part)] if name else None)

    def close(self) -> None:
        """Free its place."""
        if self._file is not None:
            self._file.close()
        self._file, self._count, self._written, self._read = None, 0, 0, 0
        self._newest, self._oldest = bytearray(), memoryview(b"")

    def _write(self) -> None:
        self._refuse_full(self._written + len(self._newest))
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115 (closed by close)
        self._file.seek(self._written)
        left = memoryview(bytes(self._newest))
        while left:
            left = left[self._file.write(left) :]
        self._written += len(self._newest)
        self._newest.clear()

    def _bytes(self, count: int) -> bytes:
        if len(self._oldest) >= count:
            found, self._oldest = bytes(self._oldest[:count]), self._oldest[count:]
            return found
        pieces = [bytes(self._oldest)]
        count -= len(self._oldest)
        while count:
            self._oldest = self._piece()
            pieces.append(bytes(self._oldest[:count]))
            count -= len(pieces[-1])
            self._oldest = self._oldest[len(pieces[-1]) :]
        return b"".join(pieces)

    def _piece(self) -> memoryview:
        if self._file is None or self._read == self._written:
            newest = memoryview(bytes(self._newest))
            self._newest.clear()
            return newest
        self._file.seek(self._read)
        piece = self._file.read(min(PIECE_BYTES, self._written - self._read))
        if not piece:
            raise OSError(0, "a file in it was cut")
        self._read += len(piece)
        return memoryview(piece)
