"""The steps of a copy beside the stream: its beginning, each chunk, its end. Those of single rows that are read again
are in ``corrections.py``.

In: what the reader found or read. Out: each step in its topic, in a Kafka transaction of its own with the progress that
goes with it, once the stream has been received up to where it belongs.
"""

import contextlib
from collections.abc import Callable

import structlog

from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.table_record import with_state
from walbridge.producer.copying.visibility import ReceivedTransactions
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.doubts.rewrites import with_labels
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.postgres.copy_beside.copy_protocol import ChunkRead, TableFound
from walbridge.producer.session.copies.chunk_rows import rows_at_end
from walbridge.producer.session.copies.corrections import Corrections
from walbridge.producer.session.copies.start import NotYet, Refused
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.open_chunk import OpenChunk
from walbridge.producer.session.copies.step_parts import StepParts
from walbridge.schemas.control.table_progress import COPYING, CURRENT, TableProgress
from walbridge.schemas.position import format_lsn

log = structlog.get_logger()


class CopySteps:
    """Takes the steps of one session's copies.

    Args:
        begin_whole: told a table that no key orders, its writer, and an xid above those of all transactions before.
        put_off: told the relation id of a table whose copy cannot begin now, and why.
    """

    def __init__(
        self,
        parts: StepParts,
        watch: SourceWatch,
        begin_whole: Callable[[TableFound, RecordWriter, int], None],
        put_off: Callable[[int, BaseException], None],
    ) -> None:
        self._reading, self._stream, self._out, self._watch = parts.reading, parts.stream, parts.out, watch
        self._arrival, self._start, self._records = parts.arrival, parts.start, parts.records
        self._corrections = Corrections(parts.reading, parts.stream, parts.out.tracker, parts.records)
        self._changes, self._begin_whole, self._put_off = parts.changes, begin_whole, put_off

    def publish_found(self) -> None:
        """Begin the copy of a table once every change that it had before it was described has been received."""
        found = self._reading.found
        if found is None or not self._arrival.has_come(found.lsn):
            return
        if not self._records.end_batch():
            return
        self._reading.end()
        relation_id = found.table.relation_id
        try:
            if self._changes.is_announced_since(relation_id, found.lsn):
                raise NotYet(f"table {found.table.qualified_name} may have been altered since it was described")
            writer = self._start.writer_of(found)
            begun = self._watch.now.next_xid()
            if self._reading.received is None:
                self._reading.received = ReceivedTransactions(begun)
            copied = self._reading.copied.get(relation_id)
            if copied is not None and copied.state.corrects:
                self._corrections.install(copied, found, writer, begun)
                return
            if found.key_names is None or not writer.has_key:
                self._begin_in_one_piece(found, writer, begun)
                return
            if copied is None or copied.is_altered or copied.shape != found.shape:
                copied = self._begin(found, writer)
            copied.install(found, writer, begun)
        except Refused as refused:
            self._put_off(relation_id, refused.reason)
        except NotYet as reason:
            self._put_off(relation_id, reason)

    def _begin_in_one_piece(self, found: TableFound, writer: RecordWriter, begun: int) -> None:
        relation_id = found.table.relation_id
        if self._reading.whole is not None:
            self._reading.after_whole.add(relation_id)
            return
        self._begin_whole(found, writer, begun)
        self._reading.copied.pop(relation_id, None)

    def _begin(self, found: TableFound, writer: RecordWriter) -> CopiedTable:
        relation_id, table = found.table.relation_id, found.table
        lsn, known = self._stream.received, self._start.record_of(found)
        state = TableState.appeared(relation_id, lsn, "").begin_copy(lsn, found.shape)
        self._changes.follow(relation_id)
        self._reading.requested.end(relation_id)
        self._records.begin(writer, with_state(known, state), lsn)
        if self._out.tracker.progress.tables[relation_id].state != COPYING:
            raise NotYet(f"table {table.qualified_name} left the publication meanwhile, or was altered")
        log.info("copy of a table begins", table=table.qualified_name, relation_id=relation_id, lsn=format_lsn(lsn))
        copied = self._reading.copied[relation_id] = CopiedTable(state)
        return copied

    def enter_chunks(self) -> None:
        """Send rows that were read, once the stream is where they are. The others flow between two chunks."""
        for copied in list(self._reading.copied.values()):
            if copied.chunks and (read := copied.chunks[0].read) is not None:
                self._enter_if_due(copied, copied.chunks[0], read)

    def _enter_if_due(self, copied: CopiedTable, chunk: OpenChunk, read: ChunkRead) -> None:
        window = chunk.window
        # What the rows show committed below that LSN. Sent earlier they would be ahead of the stream, and a cut after
        # them no state of the source.
        if not self._arrival.has_come(read.insert_lsn) or not window.is_read(self._stream.received):
            return
        is_due = self._records.end_batch()
        if not is_due or copied.state.relation_id not in self._reading.copied or copied.writer is None:
            return  # it waits, or the batch that ended was the table's last

        del copied.chunks[0]
        enter = self._corrections.enter if copied.state.corrects else self._enter
        with contextlib.closing(chunk):
            is_entered = enter(copied, copied.writer, chunk, read)
        if is_entered:
            copied.size = copied.size.after_entry()

    def _enter(self, copied: CopiedTable, writer: RecordWriter, chunk: OpenChunk, read: ChunkRead) -> bool:
        """Send the rows of a chunk. False where one of them cannot be published: the table is left there."""

        def progress_after() -> TableProgress:
            entered = copied.become(copied.state.enter(chunk.entered(read)), self._out.tracker.progress)
            return with_labels(entered, chunk.labels)

        # A version that came since the chunk was asked for has another writer: then the rows are encoded anew.
        rows = rows_at_end(read, chunk.window, writer, is_encoded=chunk.writer is writer)
        return self._records.enter(writer, rows, progress_after, self._stream.received)

    def end(self, copied: CopiedTable) -> None:
        """End a copy that is whole."""
        if copied.state.corrects:
            self._corrections.end_truncated(copied)
            return
        if not self._records.end_batch():
            return
        if copied.writer is None or copied.state.copy is None or copied.state.relation_id not in self._reading.copied:
            return  # the batch that ended was the table's last
        lsn, rows = self._stream.received, copied.state.copy.rows
        relation_id = copied.state.relation_id
        record = copied.become(copied.state.end_copy(lsn), self._out.tracker.progress)
        self._records.end(copied.writer, record, lsn)
        if self._out.tracker.progress.tables[relation_id].state != CURRENT:
            return  # this very cut says that it left, or is in trouble again
        self._reading.end_copy(relation_id)
        log.info("table is copied", table=copied.writer.relation.table.qualified_name, rows=rows, lsn=format_lsn(lsn))
