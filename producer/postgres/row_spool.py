"""Rows on disk between who reads them and who publishes them: a file that ends with its process, whatever ends that.

In: TupleData. Out: the same, in its order.
"""

import tempfile
from collections.abc import Iterator
from struct import Struct

_LENGTH = Struct(">I")
_BUFFER_BYTES = 2**18


class RowSpool:
    """The rows of one chunk. Its file has no name, and only this user may open it.

    Raises:
        OSError: the folder cannot be written, or is full; of every method.
    """

    def __init__(self, folder: str) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER_BYTES)  # noqa: SIM115 (closed by close)

    def append(self, row: bytes) -> None:
        """Add a row."""
        self._file.write(_LENGTH.pack(len(row)))
        self._file.write(row)

    def finish(self) -> None:
        """All of them are there."""
        self._file.flush()

    def rows(self) -> Iterator[bytes]:
        """All rows, as often as asked for."""
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            yield self._file.read(*_LENGTH.unpack(head))

    def close(self) -> None:
        """Free its place."""
        self._file.close()
