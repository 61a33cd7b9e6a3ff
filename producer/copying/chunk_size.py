"""How many rows the next chunk of a table reads.

In: how the last one ended. Out: its limits in rows and bytes. A shorter chunk is read in less time,
in which the table changes less; below the smallest one only the delay of the stream counts.
"""

from dataclasses import dataclass, replace

SMALLEST_ROWS, SMALLEST_BYTES = 100, 2**16
LARGEST_ROWS, LARGEST_BYTES = 100_000, 8 * 2**20
_GROWN_AFTER = 4
"""Chunks that entered: a table that is written in bursts is not tried with a large one at once."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """A chunk ends at either limit, but holds one row at least."""

    row_count: int = LARGEST_ROWS
    size_bytes: int = LARGEST_BYTES
    entered: int = 0
    """How many of this size entered one after the other."""

    def after_too_large(self) -> "ChunkSize":
        """The window of this one was too large."""
        return ChunkSize(max(SMALLEST_ROWS, self.row_count // 2), max(SMALLEST_BYTES, self.size_bytes // 2))

    def after_entry(self) -> "ChunkSize":
        """It entered."""
        if self.entered + 1 < _GROWN_AFTER:
            return replace(self, entered=self.entered + 1)
        return ChunkSize(min(LARGEST_ROWS, self.row_count * 2), min(LARGEST_BYTES, self.size_bytes * 2))
