"""A chunk of a table that is copied beside the stream, from when it is asked for until it enters.

In: the table's changes as they are published, the rows that were read. Out: what progress keeps of the chunk.
"""

from dataclasses import dataclass

from walbridge.producer.copying.copy_state import Chunk
from walbridge.producer.copying.window import Void, Window
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead
from walbridge.producer.postgres.table_reads.key_order import Bound


@dataclass(slots=True)
class OpenChunk:
    """A chunk that is being read, or was read and has not entered yet.

    ``writer``: of the version that it was asked for. ``asked``: listed keys, None for a range. ``labels``: those that
    its rows may hold (``ChunkShown``).
    """

    window: Window
    writer: RecordWriter
    asked: dict[bytes, Bound] | None
    read: ChunkRead | None = None
    labels: frozenset[str] = frozenset()

    def receive(self, xid: int, change: Change) -> None:
        """A change of the table."""
        self.window.receive(xid, change)
        if isinstance(change, Truncate) and self.asked is not None:
            self.window.spoil(Void.TRUNCATED)  # none of the keys is listed any more

    def finish_reading(self, read: ChunkRead) -> None:
        """Its rows are here."""
        self.read = read
        self.window.finish_reading(read.insert_lsn)

    def entered(self, read: ChunkRead) -> Chunk:
        """What progress keeps of it. Its window must have told the rows at their end."""
        return Chunk(
            read.row_count,
            read.size_bytes,
            read.bound.values if read.bound else None,
            read.is_last,
            None if self.asked is None else self.asked.keys(),
            self.window.moved,
            self.window.read_again,
        )

    def close(self) -> None:
        """It entered, or is void."""
        if self.read is not None:
            self.read.rows.close()
