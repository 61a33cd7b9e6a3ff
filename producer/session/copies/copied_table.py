"""One table that is copied beside the stream, in one session: its changes, and what the next chunk of it reads.

In: its changes as they are published, what the copy's reader found, chunks. Out: the table's state, the window of
the chunk that is read now, what to ask for next.
"""

import time
from dataclasses import dataclass, field, replace

from walbridge.producer.copying.chunk_size import SMALLEST_BYTES, SMALLEST_ROWS, ChunkSize
from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.row_keys import KeyNotSent, RowKeys
from walbridge.producer.copying.visibility import Before
from walbridge.producer.copying.window import Void, Window
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.producer.postgres.copy_reader import ChunkWanted, TableFound
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.key_order import Bound
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Producer

FIRST_ROWS = 1_000
"""Of a copy's first chunk: how large rows are is not known yet."""


@dataclass(slots=True)
class CopiedTable:
    """``found`` and ``writer`` are None until the reader has told, in this session, what the table is.

    ``begun``: as in ``ReceivedTransactions``; changes of transactions below it may be missing in the stream, since the
    table was not published yet. ``again_s``: nothing is asked for before then.
    """

    state: TableState
    found: TableFound | None = None
    writer: RecordWriter | None = None
    begun: int = 0
    window: Window | None = None
    asked: dict[bytes, Bound] | None = None
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
        """A change that is published, of a transaction with this top-level xid; whether progress has to be told."""
        if self.writer is not None and writer is not self.writer:
            self._begin_version(writer, self.writer)
        if self.window is not None:
            self.window.receive(xid, change)
        if isinstance(change, Truncate):
            if self.window is not None and self.asked is not None:
                self.window.spoil(Void.TRUNCATED)  # none of the keys is listed any more
            return self._become(self.state.truncate())
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
            return self._become(listed)
        if self.window is not None:
            self.window.spoil(Void.READ_ANEW)  # behind a bound that counts no more
        return self._become(self.state.read_anew())

    def is_renamed(self, table: PublishedTable) -> bool:
        """Whether the table is called otherwise than what was found, under which name it cannot be read any more."""
        return self.found is not None and self.found.table.qualified_name != table.qualified_name

    def _begin_version(self, writer: RecordWriter, before: RecordWriter) -> None:
        """A new version: the copy begins again, unless only the name is another one, and the table has a key."""
        if writer.has_key and writer.is_renamed(before.relation):
            self.writer = writer
            return
        self.is_altered = True
        if self.window is not None:
            self.window.spoil(Void.ALTERED)

    def _become(self, state: TableState) -> bool:
        is_other, self.state = state != self.state, state
        return is_other

    def keys(self, writer: RecordWriter) -> RowKeys:
        """Those of the version that this writer writes."""
        if self._keys is None or self._keys_of is not writer:
            self._keys, self._keys_of = RowKeys.of(writer), writer
        return self._keys

    def open_window(self, before: Before, limits: Producer) -> ChunkWanted:
        """Open the window of the next chunk, and say what to read."""
        assert self.found is not None
        assert self.writer is not None
        assert self.state.copy is not None
        if self.state.reads_listed and not self._lists():
            self.state = self.state.read_anew()
        copy = self.state.copy
        assert copy is not None
        self.window = Window(self.keys(self.writer), replace(before, begun=max(before.begun, self.begun)))
        bytes_max = min(self.size.size_bytes, limits.batch_bytes_max)
        if limits.copy_bytes_per_s:
            bytes_max = min(bytes_max, max(limits.copy_bytes_per_s, SMALLEST_BYTES))  # no second without a rest
        rows_max = min(self.size.row_count, limits.batch_rows_max)
        average = copy.bytes // copy.rows if copy.rows else bytes_max // FIRST_ROWS
        rows_max = min(rows_max, max(SMALLEST_ROWS, bytes_max // max(average, 1)))
        after = None if copy.bound is None else Bound(copy.bound)
        asked = None if self.asked is None else tuple(self.asked.values())
        return ChunkWanted(self.found.table, self.found.shape, self.window.before, after, asked, rows_max, bytes_max)

    def _lists(self) -> bool:
        """Take the listed keys as what the next chunk reads; False where they cannot be told as text."""
        assert self.found is not None
        assert self.writer is not None
        assert self.state.copy is not None
        names = [column.name for column in self.writer.relation.table.columns]
        asked = {}
        for key, row in self.state.copy.listed.items():
            values = dict(zip(names, decode_tuple(row), strict=True))
            texts = [values[name] for name in self.found.key_names or ()]
            if not all(isinstance(text, bytes) for text in texts):
                return False  # in binary
            asked[key] = Bound(tuple(text.decode() for text in texts if isinstance(text, bytes)))
        self.asked = asked
        return True

    def close_window(self) -> None:
        """The chunk entered, or is void."""
        self.window, self.asked = None, None
