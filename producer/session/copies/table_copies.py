"""Copies of tables beside the stream: which table, when, and each chunk into its topic.

In: tables that are published and not followed, what the copy's reader found of them, changes of those that are
copied. Out: records and barriers between transactions of the stream, each step in a Kafka transaction of its own
with the progress that goes with it, so that a restart goes on after the last step that is committed.

    noticed ──▶ described ──copy_begin──▶ chunk ⟲ ──copy_end──▶ current

Everything is put into its topic at (E, -1), E being how far the stream has been received: after all events of
transactions at or below E, before all later ones. What the stream changed while a chunk was read is laid over its rows
(``copying/window.py``). A table that no key orders is copied in one piece instead (``whole_steps.py``). Nothing here
waits: what the reader has not answered yet, or the stream has not brought yet, is looked for again at the next boundary
between transactions.

Of a table that is current an operator may want single rows to be read again, listed by their keys. Such a chunk enters
as any other, without a beginning or an end: keys that the source lacks are deleted (``chunk_rows.py``).

A table of which a copy cannot be made is stale, with the reason, and is tried again now and then. One table is read
at a time, its next chunk while one enters, and beside it one in one piece; the changes of every table that is being
copied by chunks are published as soon as its copy has begun.
"""

from collections.abc import Iterable
from dataclasses import replace

import structlog

from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.table_record import state_of, with_state
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.messages import Change
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.copies.answers import CopyAnswers
from walbridge.producer.session.copies.questions import CopyQuestions
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.copy_progress import CopyProgress
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.producer.session.copies.step_parts import StepParts
from walbridge.producer.session.copies.steps import CopySteps
from walbridge.producer.session.copies.whole_steps import WholeSteps
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.table_progress import QUARANTINED, STALE, TableProgress
from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.schemas.settings_sections import Producer

log = structlog.get_logger()

ANSWER_S = 0.02
"""How long the stream is waited for at most while an answer is due."""
AT_ONCE_S = 0.001
"""The same while a chunk may enter: another one entered just now, and the stream comes between two."""


class TableCopies:
    """The copies of one session."""

    def __init__(self, limits: Producer, parts: StepParts, tables: Tables, watch: SourceWatch) -> None:
        self._reading, self._stream, self._out = parts.reading, parts.stream, parts.out
        self._changes, self._tables, self._watch = parts.changes, tables, watch
        self._answers = CopyAnswers(parts, limits.on_table_error, self._doubt)
        self._whole = WholeSteps(limits, parts, self._answers.put_off)
        self._steps = CopySteps(parts, watch, self._whole.begin, self._answers.put_off)
        self.progress = CopyProgress()
        self._questions = CopyQuestions(self._reading, limits, self._steps.end)

    # What the session tells.

    @property
    def pause_s(self) -> float:
        """How long the session may wait for the stream."""
        open_chunks = [copied.chunks[0] for copied in self._reading.copied.values() if copied.chunks]
        if any(chunk.window.is_read(self._stream.received) for chunk in open_chunks):
            return AT_ONCE_S
        is_whole_asked = self._reading.whole is not None and self._reading.whole.aside is not None
        if self._reading.asked is not None or is_whole_asked or open_chunks:
            return ANSWER_S
        return min(self._reading.throttled_s or 1.0, 1.0)

    @property
    def is_at_rest(self) -> bool:
        """Nothing is left to be copied."""
        reading = self._reading
        return not reading.copied and reading.whole is None and reading.to_copy.is_empty and reading.asked is None

    @property
    def whole(self) -> WholeCopy | None:
        """The table that is copied in one piece: its changes are to be shown to it, and not published."""
        return self._reading.whole

    def has_copy(self, relation_id: int) -> bool:
        """Whether the table is being copied: its changes have to be shown to ``receive``."""
        return relation_id in self._reading.copied

    def notice(self, relation_id: int) -> None:
        """A table that is published and not followed."""
        self._notice([relation_id])

    def forget(self, relation_id: int) -> None:
        """The table is followed no more."""
        self._reading.forget(relation_id)

    def begin_transaction(self, xid: int) -> None:
        """Before the first change of any transaction."""
        if self._reading.received is not None:
            self._reading.received.receive(xid)

    def receive(self, change: Change, writer: RecordWriter, transaction: OpenTransaction) -> None:
        """A change that is published, of a table that is being copied: one of those of a Truncate."""
        relation_id = writer.relation.table.relation_id
        copied = self._reading.copied[relation_id]
        if copied.receive(transaction.begin.xid, change, writer, transaction.begin.final_lsn):
            self._remember(copied.state)

    # Between transactions.

    def step(self) -> None:
        """Do what can be done now."""
        for relation_id in self._reading.requested.take():
            self._reading.forget_listed_rows(relation_id)
            self._reading.to_copy.retry_now(relation_id)
        # A copy that was asked for together with rows of its table is that of all of them.
        for relation_id in self._reading.requested.take_to_correct() - self._reading.requested.to_copy:
            self._correct(relation_id)
        is_at_rest = self.is_at_rest  # as it is after nearly every transaction
        self.progress.look({} if is_at_rest else self._reading.begun)
        if is_at_rest and not self._watch.news.appeared:
            return
        progress = self._out.tracker.progress
        # A step ends with a complete cut, which would forget the split, and E may not lie below what is published.
        if progress.split is not None or self._stream.received < max(progress.done, progress.end_lsn):
            return
        if appeared := self._watch.news.take_appeared():
            self._notice(appeared - set(progress.relation_ids))
        while (answer := self._reading.reader.answer()) is not None:
            self._answers.take(answer)
        self._take_whole()
        self._answers.read_void_chunks_again()
        self._steps.publish_found()
        # Before a chunk enters, so that the next one is read meanwhile.
        if self._reading.asked is None:
            self._questions.read_on()
        self._steps.enter_chunks()
        # A chunk is asked for before the table that is copied in one piece takes all that may be read in a second.
        self._ask()
        self._whole.step()
        self._questions.ask_whole()
        self._ask()

    def _ask(self) -> None:
        if self._reading.asked is None:
            self._questions.ask()

    def _take_whole(self) -> None:
        while (whole := self._reading.whole) is not None:
            answer = self._reading.whole_reader.answer()
            if answer is None:
                return
            self._answers.take_of_whole(answer, whole)

    def _notice(self, relation_ids: Iterable[int]) -> None:
        known, wanted = self._out.tracker.progress.tables, {*relation_ids}
        for record in self._tables.versions.newest(wanted & known.keys()):
            relation_id = record.table.relation_id
            if record.table.is_archive and relation_id not in self._reading.requested.to_copy:
                self._quarantine(known[relation_id], record.table.qualified_name)
                wanted.discard(relation_id)
        self._reading.to_copy.notice(wanted)

    def _quarantine(self, archive: TableProgress, name: str) -> None:
        """An archive is back: a copy would take away what its source has no more, so an operator has to ask for it."""
        if archive.state == QUARANTINED:
            return
        why = "an archive is back in the publication after it left"
        since = archive.since if archive.state == STALE else self._stream.received
        after = replace(archive, state=QUARANTINED, name=name, since=since, why=why)
        self._out.tracker.remember_tables({archive.relation_id: after})
        self._changes.leave_out(archive.relation_id)
        log.warning("table is quarantined", table=name, reason=why, remedy=copy_command(name))

    def _doubt(self, relation_id: int, reason: OperatorError) -> None:
        self._watch.doubts.add({relation_id: reason})
        self._watch.now.next_xid()  # WAL: else no cut would tell, where nobody writes

    def _correct(self, relation_id: int) -> None:
        """Rows of a table that is current are to be read again: its changes are shown to their windows from here on."""
        state = state_of(self._out.tracker.progress.tables[relation_id])
        copied = self._reading.copied.get(relation_id)
        if copied is not None:
            copied.state = state
            return
        self._reading.copied[relation_id] = CopiedTable(state)
        self._changes.follow(relation_id)
        self._reading.to_copy.retry_now(relation_id)

    def _remember(self, state: TableState) -> None:
        tracker = self._out.tracker
        known = tracker.progress.tables[state.relation_id]
        tracker.remember_tables({state.relation_id: with_state(known, state)})
