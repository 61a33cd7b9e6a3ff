"""One table that is copied beside the stream, in one session: its changes, and what the next chunk of it reads.

In: its changes as they are published, what the copy's reader found, chunks. Out: the table's state, the windows of
its open chunks, what to ask for next.

While a chunk waits for the stream, or enters, the next one is read: each range begins after the last key that was
read, so ranges have no gap and no key is in two. Each chunk has a window of its own, which opens before its snapshot
is taken and closes when it enters, so each is right for itself, as if it were the only one (``window.py``): its rows
are those of its range at the E at which it enters, whatever the other one does. A row whose key moves from one range
into the other is sent whole by the chunk that read its old key, or was read under its new key because the snapshot of
that range has the move; where neither is so its key is listed, and stays so until it is read. A chunk enters only
after the one before it, and goes with it when that becomes void, since it begins where that would have ended.
Listed keys are read while no other chunk is open: what is listed then is what the topic lacks.
"""

import time
from dataclasses import dataclass, field, replace
from itertools import islice

from walbridge.producer.copying.chunk_size import SMALLEST_BYTES, SMALLEST_ROWS, ChunkSize
from walbridge.producer.copying.copy_state import Chunk, TableState
from walbridge.producer.copying.row_keys import KeyNotSent, RowKeys
from walbridge.producer.copying.table_record import with_state
from walbridge.producer.copying.visibility import Before
from walbridge.producer.copying.window import Void, Window
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead, ChunkWanted, TableFound
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.control.table_request import key_values
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Producer

FIRST_ROWS = 1_000
"""Of a copy's first chunk: how large rows are is not known yet."""
LIMITED_CHUNKS_PER_S = 10
"""Of a copy whose speed is limited."""
OPEN_MAX = 2
"""Chunks of one table: one that enters, one that is read."""


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


@dataclass(slots=True)
class CopiedTable:
    """A table and its copy. ``found`` and ``writer`` are None until the reader has described the table in this session.

    ``begun``: as in ``ReceivedTransactions``; changes of transactions below it may be missing in the stream, since the
    table was not published yet. ``chunks``: those that are open, in the order in which they enter. ``again_s``:
    nothing is asked for before then.
    """

    state: TableState
    found: TableFound | None = None
    writer: RecordWriter | None = None
    begun: int = 0
    chunks: list[OpenChunk] = field(default_factory=list)
    size: ChunkSize = field(default_factory=ChunkSize)
    is_altered: bool = False
    again_s: float = 0.0
    _keys: RowKeys | None = None
    _keys_of: RecordWriter | None = None

    @property
    def shape(self) -> str:
        """Of the table when the copy began."""
        return self.state.copy.shape if self.state.copy else ""

    @property
    def is_due(self) -> bool:
        """Whether something may be asked for."""
        return time.monotonic() >= self.again_s

    def wait(self, pause_s: float) -> None:
        """Ask for nothing for a while."""
        self.again_s = time.monotonic() + pause_s

    def install(self, found: TableFound, writer: RecordWriter, begun: int) -> None:
        """The table is known in this session."""
        self.found, self.writer, self.begun = found, writer, begun
        self.is_altered = False

    def receive(self, xid: int, change: Change, writer: RecordWriter, lsn: Lsn) -> bool:
        """Take a published change of a transaction with this top-level xid. Returns whether ``state`` has changed."""
        if self.writer is not None and writer is not self.writer:
            self._begin_version(writer, self.writer)
        for chunk in self.chunks:
            chunk.receive(xid, change)
        if isinstance(change, Truncate):
            return self._changed_to(self.state.truncate())
        if not writer.has_key:
            return False  # it lost its key: the copy begins again once it has one
        try:
            step = self.keys(writer).step(change)
        except KeyNotSent:
            return False
        if not step.moves_unknown or step.new is None or step.row is None:
            return False
        listed = self.state.list_moved(lsn, {step.new: self.keys(writer).key_tuple(step.row)})
        if listed.copy is not None:
            return self._changed_to(listed)
        self._spoil(Void.READ_ANEW)  # they begin after a key that is not the last copied one any more
        return self._changed_to(self.state.read_anew())

    def become(self, state: TableState, progress: Progress) -> TableProgress:
        """Take another state; returns the record that progress is to have of the table."""
        self.state = state
        return with_state(progress.tables[state.relation_id], state)

    def is_renamed(self, table: PublishedTable) -> bool:
        """Whether the table is called otherwise than what was found, under which name it cannot be read any more."""
        return self.found is not None and self.found.table.qualified_name != table.qualified_name

    def _begin_version(self, writer: RecordWriter, before: RecordWriter) -> None:
        """A new version: the copy begins again, unless only the name is another one, and the table has a key."""
        if writer.has_key and writer.is_renamed(before.relation):
            self.writer = writer
            return
        self.is_altered = True
        self._spoil(Void.ALTERED)

    def _spoil(self, why: Void) -> None:
        for chunk in self.chunks:
            chunk.window.spoil(why)

    def _changed_to(self, state: TableState) -> bool:
        is_other, self.state = state != self.state, state
        return is_other

    def keys(self, writer: RecordWriter) -> RowKeys:
        """Those of the version that this writer writes."""
        if self._keys is None or self._keys_of is not writer:
            self._keys, self._keys_of = RowKeys.of(writer), writer
        return self._keys

    @property
    def unread(self) -> OpenChunk | None:
        """The chunk that is being read."""
        return self.chunks[-1] if self.chunks and self.chunks[-1].read is None else None

    @property
    def may_read_on(self) -> bool:
        """Whether another chunk may be opened beside those that are open: the range after the last one."""
        if not self.chunks:
            return True
        last = self.chunks[-1]
        is_read = last.read is not None and not last.read.is_last
        is_void = any(chunk.window.void is not None for chunk in self.chunks)
        return is_read and not is_void and not self.state.reads_listed and len(self.chunks) < OPEN_MAX

    def open_chunk(self, before: Before, limits: Producer) -> ChunkWanted:
        """Open the window of the next chunk, and say what to read."""
        assert self.found is not None
        assert self.writer is not None
        rows_max, bytes_max = self._limits(limits)
        asked = self._asked(rows_max) if not self.chunks and self.state.reads_listed else None
        after = self._bound()  # last, since keys that cannot be asked for begin the reading anew
        window = Window(self.keys(self.writer), replace(before, begun=max(before.begun, self.begun)))
        self.chunks.append(OpenChunk(window, self.writer, asked))
        return ChunkWanted(
            self.found.table,
            self.found.shape,
            window.before,
            after,
            None if asked is None else tuple(asked.values()),
            rows_max,
            bytes_max,
            RowFormat(self.writer.relation, self.writer.incremental_source),
        )

    def _bound(self) -> Bound | None:
        """What was read last."""
        assert self.state.copy is not None
        if self.chunks and (read := self.chunks[-1].read) is not None:
            return read.bound
        return None if self.state.copy.bound is None else Bound(self.state.copy.bound)

    def _limits(self, limits: Producer) -> tuple[int, int]:
        """Rows and bytes that a chunk may have."""
        assert self.state.copy is not None
        bytes_max = min(self.size.size_bytes, limits.batch_bytes_max)
        if limits.copy_bytes_per_s:
            # The other tables wait while a chunk enters: a copy that is to go slowly takes small ones.
            bytes_max = min(bytes_max, max(limits.copy_bytes_per_s // LIMITED_CHUNKS_PER_S, SMALLEST_BYTES))
        rows_max = min(self.size.row_count, limits.batch_rows_max)
        reads = [chunk.read for chunk in self.chunks if chunk.read is not None]
        rows = self.state.copy.rows + sum(read.row_count for read in reads)
        size_bytes = self.state.copy.bytes + sum(read.size_bytes for read in reads)
        average = size_bytes // rows if rows else bytes_max // FIRST_ROWS
        return min(rows_max, max(SMALLEST_ROWS, bytes_max // max(average, 1))), bytes_max

    def _asked(self, rows_max: int) -> dict[bytes, Bound] | None:
        """What the next chunk reads of what is listed."""
        assert self.state.copy is not None
        if not self.state.corrects:
            return self._listed()
        return {key: self._bound_of(key) for key in islice(self.state.copy.listed, rows_max)}

    def _bound_of(self, key: bytes) -> Bound:
        assert self.found is not None
        values = key_values(key)
        return Bound(tuple(values[name] for name in self.found.key_names or ()))

    def fits(self, found: TableFound) -> bool:
        """Whether the keys that an operator listed are of the key that the table has."""
        assert self.state.copy is not None
        names = set(found.key_names or ())
        return bool(names) and all(key_values(key).keys() == names for key in self.state.copy.listed)

    def _listed(self) -> dict[bytes, Bound] | None:
        """The listed keys; None where they cannot be told as text: then the copy goes on from the first row."""
        assert self.found is not None
        assert self.writer is not None
        assert self.state.copy is not None
        names = [column.name for column in self.writer.relation.table.columns]
        asked = {}
        for key, row in self.state.copy.listed.items():
            values = dict(zip(names, decode_tuple(row), strict=True))
            texts = [values[name] for name in self.found.key_names or ()]
            if not all(isinstance(text, bytes) for text in texts):
                self.state = self.state.read_anew()  # in binary
                return None
            asked[key] = Bound(tuple(text.decode() for text in texts if isinstance(text, bytes)))
        return asked

    def close_chunks(self, first: int = 0) -> None:
        """These are void, or the copy is over."""
        for chunk in self.chunks[first:]:
            chunk.close()
        del self.chunks[first:]

    def close_unread(self) -> None:
        """The chunk that is being read is void."""
        if self.unread is not None:
            del self.chunks[-1]
