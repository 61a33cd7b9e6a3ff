"""Rows on disk between who reads them and who publishes them: a file that ends with the processes that have it open,
whatever ends them.

In: blocks of rows. Out: the same, in their order.
"""

import marshal
import os
import tempfile
from collections.abc import Iterator
from struct import Struct

from walbridge.producer.encoding.copied_rows import CopiedBlock

_LENGTH = Struct(">Q")
_PLAIN = 2
"""Version of marshal's format: later ones look each object up, in case it comes again."""


class RowSpool:
    """The rows of one chunk. Its file has no name, and only this user may open it.

    Raises:
        OSError: the folder cannot be written, or is full; of every method.
    """

    def __init__(self, folder: str | None, descriptor: int | None = None) -> None:
        """A new one in the folder; or one that another process has filled, by its descriptor."""
        if descriptor is None:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by close)
        else:
            self._file = os.fdopen(descriptor, "r+b")

    @property
    def descriptor(self) -> int:
        """To hand it to another process."""
        return self._file.fileno()

    @property
    def size_bytes(self) -> int:
        """Of what was added."""
        return self._file.tell()

    def append(self, block: CopiedBlock) -> None:
        """Add some rows."""
        data = marshal.dumps(tuple(block), _PLAIN)
        self._file.write(_LENGTH.pack(len(data)))
        self._file.write(data)

    def finish(self) -> None:
        """All of them are there."""
        self._file.flush()

    def blocks(self) -> Iterator[CopiedBlock]:
        """All rows, as often as asked for."""
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            yield CopiedBlock(*marshal.loads(self._file.read(*_LENGTH.unpack(head))))

    def close(self) -> None:
        """Free its place."""
        self._file.close()


class RowSpools:
    """Several of them, as one."""

    def __init__(self, spools: list[RowSpool]) -> None:
        self._spools = spools

    def blocks(self) -> Iterator[CopiedBlock]:
        """All rows, as often as asked for."""
        for spool in self._spools:
            yield from spool.blocks()

    def close(self) -> None:
        """Free their place."""
        for spool in self._spools:
            spool.close()
