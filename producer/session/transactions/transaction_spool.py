"""Transactions that come before their commit, on disk until it comes (I9).

In: payloads as they would have come unstreamed, each with the xid of its subtransaction. Out: the
same as frames, in their order, without those of subtransactions that were aborted. What is here is
never the only copy: Postgres sends all of it again after every reconnect, so nothing is synced,
and whatever a dead process left behind is removed.

A file a transaction, in a folder that only this process has (0700, files 0600). No file is open
but while a piece is written or the one transaction is replayed, however many are interleaved; what
is not yet written is bounded for all of them together, so that small ones never touch the disk.

    record = length of the payload, subtransaction, place in the WAL, payload
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from walbridge.producer.errors.disks import spool_full, spool_unwritable
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.settings import Settings

_RECORD = Struct(">IIQ")
_LSN_AT = 8
_HEADER_REST = bytes(XLOG_DATA_HEADER_BYTES - 9)
PIECE_BYTES = 2**20
"""Written and read at once."""
BUFFERED_BYTES_MAX = 8 * 2**20
"""Of all transactions together, between two blocks."""
_LOCK = "lock"
_DISK_BACKED = "/var/tmp"
"""Where there is one: ``/tmp`` is often memory."""


class Spooled:
    """The messages of one pending transaction."""

    def __init__(self, spool: "Spool", name: str) -> None:
        self._spool = spool
        self._name = name
        self._buffer = bytearray()
        self._written_bytes = 0
        self.aborted: set[int] = set()
        """Aborted subtransactions; the server names each descendant of an aborted one by itself."""
        self.arrivals: list[tuple[int, int]] = []
        """For each Relation in it: its subtransaction, and its arrival number (``SessionRelations``)."""
        self.first_lsn = 0
        """Where its first change stands in the WAL; a Relation has no place there."""

    @property
    def byte_count(self) -> int:
        """Bytes on disk and in the buffer."""
        return self._written_bytes + len(self._buffer)

    @property
    def buffered_bytes(self) -> int:
        """Bytes in the buffer, not on disk yet."""
        return len(self._buffer)

    def append(self, xid: int, payload: bytes, lsn: int = 0) -> None:
        """Add a message. ``lsn``: where it stands in the WAL, as its frame says.

        Raises:
            OperatorError: the spool is full.
        """
        self.first_lsn = self.first_lsn or lsn
        self._buffer += _RECORD.pack(len(payload), xid, lsn)
        self._buffer += payload
        if len(self._buffer) >= PIECE_BYTES:
            self.write()

    def write(self) -> None:
        """Write what is buffered to disk."""
        self._spool.refuse_full()
        try:
            with open(self._spool.folder / self._name, "ab", opener=_private) as file:
                file.write(self._buffer)
        except OSError as error:
            raise self._spool.unwritable(error) from None
        self._written_bytes += len(self._buffer)
        self._buffer.clear()

    def frames(self, between: Callable[[], None]) -> Iterator[bytes]:
        """The messages that are not aborted, as frames of the stream.

        Args:
            between: called for each piece that is read, since the stream is not read meanwhile.

        Raises:
            OperatorError: the file was removed or cut.
        """
        aborted = self.aborted
        rest = b""
        for piece in self._pieces():
            between()
            data = rest + piece
            at, size = 0, len(data) - _RECORD.size
            while at <= size:
                length, xid, _ = _RECORD.unpack_from(data, at)
                begin = at + _RECORD.size
                if begin + length > len(data):
                    break
                lsn_at, at = at + _LSN_AT, begin + length
                if xid not in aborted:
                    yield b"w" + data[lsn_at:begin] + _HEADER_REST + data[begin:at]
            rest = data[at:]
        if rest:
            raise ProtocolError("the spool of a transaction ends inside a message")

    def arrivals_left(self) -> Iterator[int]:
        """The arrival numbers of the Relations among the frames, in their order."""
        return (number for xid, number in self.arrivals if xid not in self.aborted)

    def _pieces(self) -> Iterator[bytes]:
        if self._written_bytes:
            left = self._written_bytes
            try:
                with (self._spool.folder / self._name).open("rb") as file:
                    while left and (piece := file.read(min(PIECE_BYTES, left))):
                        left -= len(piece)
                        yield piece
            except OSError as error:
                raise self._spool.unwritable(error) from None
            if left:
                raise self._spool.unwritable(OSError(0, "a file in it was cut"))
        yield bytes(self._buffer)

    def remove(self) -> None:
        """Delete the file: the transaction was replayed, or never will be."""
        self._spool.forget(self)
        if self._written_bytes:
            (self._spool.folder / self._name).unlink(missing_ok=True)
        self._buffer.clear()
        self._written_bytes = 0


class Spool:
    """All transactions of one process that are not committed yet."""

    def __init__(self, settings: Settings) -> None:
        self._limit_bytes = settings.producer.spool_bytes_max
        self._parent = spool_parent(settings)
        self._prefix = f"walbridge-spool-{settings.name}-{settings.postgres.slot}-"
        self._folder: Path | None = None
        self._lock = -1
        self._transactions: dict[Spooled, None] = {}
        self._next_name = 0

    @property
    def byte_count(self) -> int:
        """Bytes of all transactions, on disk and still buffered."""
        return sum(each.byte_count for each in list(self._transactions))  # also asked by another thread

    def open(self) -> None:
        """Remove what dead processes of this pipeline left behind.

        Raises:
            OperatorError: the folder cannot be written.
        """
        if not os.access(self._parent, os.W_OK | os.X_OK):
            raise self.unwritable(OSError(0, "not a folder that this user may write"))
        for left in self._parent.glob(f"{self._prefix}*"):
            if _is_dead(left):
                shutil.rmtree(left, ignore_errors=True)

    def add(self) -> Spooled:
        """A new transaction."""
        made = Spooled(self, str(self._next_name))
        self._next_name += 1
        self._transactions[made] = None
        return made

    def balance(self) -> None:
        """Called between two blocks: write buffers to disk if all of them together are too large.

        Raises:
            OperatorError: the spool is full.
        """
        self.refuse_full()
        if sum(each.buffered_bytes for each in self._transactions) > BUFFERED_BYTES_MAX:
            for each in self._transactions:
                if each.buffered_bytes:
                    each.write()

    def refuse_full(self) -> None:
        """Refuse to keep more than the limit. Nothing of it was confirmed, so stopping loses nothing (I7)."""
        used = self.byte_count
        if used > self._limit_bytes:
            raise spool_full(len(self._transactions), used, str(self._parent), self._limit_bytes)

    def unwritable(self, error: OSError) -> OperatorError:
        """The error for a folder that cannot be read or written."""
        return spool_unwritable(str(self._folder or self._parent), error.strerror)

    def forget(self, transaction: Spooled) -> None:
        """Stop counting the bytes of this transaction."""
        self._transactions.pop(transaction, None)

    def clear(self) -> None:
        """Forget all transactions: the session ended, and Postgres sends them again."""
        for each in list(self._transactions):
            each.remove()

    def close(self) -> None:
        """Remove the folder, as the process ends."""
        self._transactions.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._folder = None

    @property
    def folder(self) -> Path:
        """Made when first needed; the lock in it tells that its process lives."""
        if self._folder is None:
            try:
                folder = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self._parent))
                self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                # The kernel lets it go with the process, however that ends.
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            except OSError as error:
                raise self.unwritable(error) from None
            self._folder = folder
        return self._folder


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def spool_parent(settings: Settings) -> Path:
    """The folder in which a producer makes its own."""
    if settings.producer.spool_dir:
        return Path(settings.producer.spool_dir)
    if "TMPDIR" not in os.environ and os.access(_DISK_BACKED, os.W_OK | os.X_OK):
        return Path(_DISK_BACKED)
    return Path(os.environ.get("TMPDIR") or "/tmp")  # whether it takes a file is found where one is written


def _is_dead(folder: Path) -> bool:
    """Whether this user made the folder and the process that made it has ended."""
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False  # its process is just making or removing it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
