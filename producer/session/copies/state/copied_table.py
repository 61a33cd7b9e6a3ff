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

from walbridge.producer.copying.chunk_size import ChunkSize
from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.row_keys import KeyNotSent, RowKeys
from walbridge.producer.copying.table_record import with_state
from walbridge.producer.copying.visibility import Before
from walbridge.producer.copying.window import Void, Window
from walbridge.producer.encoding.copied_rows import RowFormat
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkWanted, TableFound
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.session.copies.state.next_chunk import (
    chunk_limits,
    have_columns,
    keys_asked_for,
    last_key_read,
    moved_keys,
)
from walbridge.producer.session.copies.state.open_chunk import OpenChunk
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Producer

OPEN_MAX = 2
"""Chunks of one table: one that enters, one that is read."""


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
        assert self.state.copy is not None
        rows_max, bytes_max = chunk_limits(self.state.copy, self.chunks, self.size, limits)
        asked = self._listed_keys(self.found, self.writer, rows_max) if self._reads_listed else None
        after = last_key_read(self.state.copy, self.chunks)  # last: listed keys may have begun the reading anew
        window = Window(self.keys(self.writer), replace(before, begun=max(before.begun, self.begun)))
        wanted = ChunkWanted(
            self.found.table,
            self.found.shape,
            window.before,
            after,
            None if asked is None else tuple(asked.values()),
            rows_max,
            bytes_max,
            RowFormat(self.writer.relation, self.writer.incremental_source),
        )
        self.chunks.append(OpenChunk(window, self.writer, asked))
        return wanted

    @property
    def _reads_listed(self) -> bool:
        return not self.chunks and self.state.reads_listed

    def _listed_keys(self, found: TableFound, writer: RecordWriter, rows_max: int) -> dict[bytes, Bound] | None:
        """What the next chunk reads of the listed keys; None where they cannot be asked for: then the copy goes on from
        the first row."""
        assert self.state.copy is not None
        listed, key_names = self.state.copy.listed, found.key_names or ()
        if self.state.corrects:
            return keys_asked_for(listed, key_names, rows_max)
        asked = moved_keys(listed, [column.name for column in writer.relation.table.columns], key_names)
        if asked is None:
            self.state = self.state.read_anew()
        return asked

    def fits(self, found: TableFound) -> bool:
        """Whether the keys that an operator listed are of the key that the table has."""
        assert self.state.copy is not None
        return have_columns(self.state.copy.listed, found.key_names or ())

    def close_chunks(self, first: int = 0) -> None:
        """These are void, or the copy is over."""
        for chunk in self.chunks[first:]:
            chunk.close()
        del self.chunks[first:]

    def close_unread(self) -> None:
        """The chunk that is being read is void."""
        if self.unread is not None:
            del self.chunks[-1]
