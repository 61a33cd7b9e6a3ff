"""Copies of tables beside the stream: which table, when, and each chunk into its topic.

In: tables that are published and not followed, what the copy's reader found of them, changes of those that are
copied. Out: records and barriers between transactions of the stream, each step in a Kafka transaction of its own
with the progress that goes with it, so that a restart goes on behind the last step that is committed.

    noticed ──▶ described ──copy_begin──▶ chunk ⟲ ──copy_end──▶ current

Everything is put into its topic at (E, -1), E being how far the stream has been received: behind all events of
transactions at or below E, before all later ones. Nothing here waits: what the reader has not answered yet, or
the stream has not brought yet, is looked for again at the next boundary between transactions.

A table of which a copy cannot be made is stale, with the reason, and is tried again now and then. One table is read
at a time; the changes of every table that is being copied are published as soon as its copy has begun.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.copy_state import Chunk, TableState
from walbridge.producer.copying.table_record import state_of, with_state
from walbridge.producer.copying.visibility import ReceivedTransactions
from walbridge.producer.copying.window import Void
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.messages import Change
from walbridge.producer.postgres.copy_reader import (
    Answer,
    ChunkAltered,
    ChunkRead,
    ChunkShown,
    CopyReader,
    Failed,
    TableFound,
    TablesFound,
    TablesWanted,
    TableWanted,
)
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.copied_table import CopiedTable
from walbridge.producer.session.copy_records import CopyRecords
from walbridge.producer.session.copy_start import CopyStart, NotYet, Refused
from walbridge.producer.session.tables_to_copy import AGAIN_S, TablesToCopy
from walbridge.producer.session.transaction import OpenTransaction
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_progress import COPYING, STALE, TableProgress

log = structlog.get_logger()

ANSWER_S = 0.02
"""How long the stream is waited for at most while an answer is due."""


class TableCopies:
    """The copies of one session.

    Args:
        follow, leave_out: told the relation id of a table whose changes are published from here on, or are not.
    """

    def __init__(
        self,
        settings: Settings,
        stream: ReplicationStream,
        tables: Tables,
        out: OpenBatch,
        watch: SourceWatch,
        reader: CopyReader,
        records: CopyRecords,
        follow: Callable[[int], None],
        leave_out: Callable[[int], None],
    ) -> None:
        self._settings, self._stream, self._out = settings, stream, out
        self._watch, self._reader, self._records = watch, reader, records
        self._start = CopyStart(tables, out.tracker, watch)
        self._follow, self._leave_out = follow, leave_out
        known = out.tracker.progress.tables.values()
        self._copied = {table.relation_id: CopiedTable(state_of(table)) for table in known if table.state == COPYING}
        left_out = {table.relation_id for table in known if table.state == STALE and table.name is not None}
        self._to_copy = TablesToCopy(left_out | self._copied.keys())
        self._asked: int | None = None
        """Whose answer is due; 0: that of the publication."""
        self._found: TableFound | None = None
        self._chunk: ChunkRead | None = None
        self._received: ReceivedTransactions | None = None
        self._waits_s = 0.0

    # What the session tells.

    @property
    def pause_s(self) -> float:
        """How long the session may wait for the stream."""
        return ANSWER_S if self._asked is not None else 1.0

    @property
    def is_at_rest(self) -> bool:
        """Nothing is left to be copied."""
        return not self._copied and self._to_copy.is_empty and self._asked is None

    def has_copy(self, relation_id: int) -> bool:
        """Whether the table is being copied: its changes have to be shown to ``receive``."""
        return relation_id in self._copied

    def notice(self, relation_id: int) -> None:
        """A table that is published and not followed."""
        self._to_copy.notice([relation_id])

    def let_go(self, relation_id: int) -> None:
        """The table is followed no more."""
        self._copied.pop(relation_id, None)
        self._to_copy.let_go(relation_id)
        if self._asked == relation_id:
            self._end_reading()

    def begin_transaction(self, xid: int) -> None:
        """Before the first change of any transaction."""
        if self._received is not None:
            self._received.receive(xid)

    def receive(self, change: Change, writer: RecordWriter, transaction: OpenTransaction) -> None:
        """A change that is published, of a table that is being copied: one of those of a Truncate."""
        relation_id = writer.relation.table.relation_id
        copied = self._copied[relation_id]
        if copied.receive(transaction.begin.xid, change, writer, transaction.begin.final_lsn):
            self._remember(copied.state)

    # Between transactions.

    def step(self) -> None:
        """Do what can be done now."""
        if self.is_at_rest and not self._watch.appeared:
            return
        progress = self._out.tracker.progress
        if progress.split is not None or self._stream.received < max(progress.done, progress.end_lsn):
            return
        if appeared := self._watch.take_appeared():
            self._to_copy.notice(appeared - set(progress.relation_ids))
        while (answer := self._reader.answer()) is not None:
            self._take(answer)
        self._let_go_void()
        self._publish_found()
        self._enter_chunk()
        if self._asked is None:
            self._ask()

    def _ask(self) -> None:
        if self._to_copy.take_list_due():
            self._asked = 0
            self._reader.ask(TablesWanted())
            return
        for copied in list(self._copied.values()):
            if copied.is_due and self._ask_of(copied):
                return
        for relation_id, table in self._to_copy.published.items():
            if relation_id not in self._copied:
                self._ask_what(table)
                return
        if not self._copied:
            self._received = None

    def _ask_of(self, copied: CopiedTable) -> bool:
        """The next question about a table whose copy has begun."""
        relation_id = copied.state.relation_id
        if copied.state.copy is not None and copied.state.copy.is_whole and not copied.is_altered and copied.writer:
            self._end(copied)
            return False
        table = self._to_copy.published.get(relation_id)
        if copied.found is None or copied.is_altered:
            if table is not None:
                self._ask_what(table)
            return table is not None
        assert self._received is not None
        self._asked = relation_id
        self._waits_s = 0.0
        self._reader.ask(copied.open_window(self._received.before(), self._settings.producer))
        return True

    def _ask_what(self, table: PublishedTable) -> None:
        self._asked = table.relation_id
        self._reader.ask(TableWanted(table))

    def _take(self, answer: Answer) -> None:
        match answer:
            case TablesFound(tables):
                self._asked = None
                self._to_copy.list_found(tables)
            case TableFound():
                self._found = answer
            case Failed(error):
                asked = self._asked or 0
                self._end_reading()
                self._put_off(asked, error)
            case _ if (copied := self._copied.get(self._asked or 0)) is not None:
                self._take_of_chunk(answer, copied)

    def _take_of_chunk(self, answer: Answer, copied: CopiedTable) -> None:
        match answer:
            case ChunkAltered():
                self._end_reading()
                copied.is_altered = True
            case ChunkShown(snapshot):
                if self._received is not None:
                    self._received.look(snapshot)
                if copied.window is not None:
                    copied.window.show(snapshot)
            case ChunkRead():
                self._chunk = answer
                if copied.window is not None:
                    copied.window.finish_reading(answer.insert_lsn)

    def _put_off(self, relation_id: int, error: BaseException) -> None:
        """It cannot be read now; the reader has told of nothing that is to end the session."""
        refusal = error if isinstance(error, OperatorError) else None
        why = refusal.what if refusal else str(error)
        if relation_id == 0:
            self._to_copy.list_failed()
            return
        pause_s = self._to_copy.pause_s(relation_id, is_refused=refusal is not None)
        table = self._to_copy.published.get(relation_id)
        self._to_copy.put_off(relation_id, pause_s)
        if relation_id in self._copied:
            self._copied[relation_id].wait(pause_s)
            log.warning("copy of a table waits", relation_id=relation_id, reason=why)
        elif table is not None:
            self._stay_stale(table, why, refusal.remedy if refusal else None)

    def _stay_stale(self, published: PublishedTable, why: str, remedy: str | None) -> None:
        relation_id = published.relation_id
        known = self._out.tracker.progress.tables.get(relation_id)
        if known is not None and known.state == STALE and known.why == why:
            return
        since = known.since if known is not None and known.state == STALE else self._stream.received
        name, table = published.qualified_name, known or TableProgress(relation_id, STALE)
        stale = replace(table, state=STALE, name=name, since=since, why=why, copy=None)
        self._out.tracker.remember_tables({relation_id: stale})
        self._leave_out(relation_id)
        log.warning("table is not published: it cannot be copied now", table=name, reason=why, remedy=remedy)

    def _let_go_void(self) -> None:
        """A chunk that will not enter is read again, or the copy begins again."""
        copied = self._copied.get(self._asked or 0)
        if copied is None or copied.window is None or copied.window.void is None:
            return
        void = copied.window.void
        log.debug("chunk is read again", relation_id=copied.state.relation_id, reason=void.value)
        if void is Void.TOO_LARGE:
            copied.size = copied.size.after_too_large()
        elif void in (Void.IN_PROGRESS, Void.NOT_VISIBLE):
            copied.wait(AGAIN_S)
            log.info("copy of a table waits", relation_id=copied.state.relation_id, reason=void.value)
        self._end_reading()

    def _end_reading(self) -> None:
        copied = self._copied.get(self._asked or 0)
        if copied is not None:
            copied.close_window()
        if self._chunk is not None:
            self._chunk.rows.close()
        self._asked = self._found = self._chunk = None
        self._reader.let_go()

    # What goes into the topics.

    def _publish_found(self) -> None:
        """Begin the copy of a table once every change that it had before it was described has been received."""
        found = self._found
        if found is None or not self._has_come(found.lsn):
            return
        self._records.end_batch()
        self._end_reading()
        relation_id = found.table.relation_id
        try:
            writer = self._start.writer_of(found)
            begun = self._watch.next_xid()
            self._received = self._received or ReceivedTransactions(begun)
            copied = self._copied.get(relation_id)
            if copied is None or copied.is_altered or copied.shape != found.shape:
                copied = self._begin(found, writer)
            copied.install(found, writer, begun)
        except Refused as refused:
            self._put_off(relation_id, refused.reason)
        except NotYet as reason:
            self._put_off(relation_id, reason)

    def _begin(self, found: TableFound, writer: RecordWriter) -> CopiedTable:
        relation_id, table = found.table.relation_id, found.table
        lsn, known = self._stream.received, self._start.record_of(table)
        state = TableState.appeared(relation_id, lsn, "").begin_copy(lsn, found.shape)
        self._follow(relation_id)
        self._records.begin(writer, with_state(known, state), lsn)
        if self._out.tracker.progress.tables[relation_id].state != COPYING:
            raise NotYet(f"table {table.qualified_name} left the publication meanwhile")
        log.info("copy of a table begins", table=table.qualified_name, relation_id=relation_id, lsn=lsn)
        copied = self._copied[relation_id] = CopiedTable(state)
        return copied

    def _has_come(self, lsn: Lsn) -> bool:
        """Whether the stream has been received up to there. What a server without commits has not flushed yet it does
        not send: then a transaction of ours makes it."""
        if self._stream.received >= lsn:
            self._waits_s = 0.0
            return True
        now_s = time.monotonic()
        self._waits_s = self._waits_s or now_s
        if now_s - self._waits_s > AGAIN_S / 2:
            self._watch.next_xid()
            self._waits_s = now_s
        return False

    def _enter_chunk(self) -> None:
        copied, chunk = self._copied.get(self._asked or 0), self._chunk
        if copied is None or chunk is None or copied.window is None or copied.writer is None:
            return
        if not self._has_come(chunk.insert_lsn) or not copied.window.is_read(self._stream.received):
            return
        self._records.end_batch()
        window, writer = copied.window, copied.writer
        if copied.state.relation_id not in self._copied:
            return  # the batch that ended was the table's last
        rows = window.rows_at_end(_with_keys(chunk, writer))

        def state_after() -> TableState:
            bound = chunk.bound.values if chunk.bound else None
            return copied.state.enter(
                Chunk(
                    chunk.row_count,
                    chunk.size_bytes,
                    bound,
                    chunk.is_last,
                    None if copied.asked is None else copied.asked.keys(),
                    window.moved,
                    window.read_again,
                )
            )

        self._records.enter(writer, rows, lambda: self._record(copied, state_after()), self._stream.received)
        copied.size = copied.size.after_entry()
        self._end_reading()

    def _record(self, copied: CopiedTable, state: TableState) -> TableProgress:
        copied.state = state
        return with_state(self._out.tracker.progress.tables[state.relation_id], state)

    def _end(self, copied: CopiedTable) -> None:
        self._records.end_batch()
        if copied.writer is None or copied.state.copy is None or copied.state.relation_id not in self._copied:
            return  # the batch that ended was the table's last
        lsn, rows = self._stream.received, copied.state.copy.row_count
        relation_id = copied.state.relation_id
        record = self._record(copied, copied.state.end_copy(lsn))
        self._records.end(copied.writer, record, lsn)
        self.let_go(relation_id)
        log.info("table is copied", table=copied.writer.relation.table.qualified_name, rows=rows, lsn=lsn)

    def _remember(self, state: TableState) -> None:
        tracker = self._out.tracker
        known = tracker.progress.tables[state.relation_id]
        tracker.remember_tables({state.relation_id: with_state(known, state)})


def _with_keys(chunk: ChunkRead, writer: RecordWriter) -> Iterator[tuple[bytes, bytes]]:
    for row in chunk.rows.rows():
        key = writer.row_key(row)
        assert key is not None
        yield key, row
