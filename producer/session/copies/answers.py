"""What becomes of the answers of the copies' reader: what was found, rows, and what could not be read.

In: answers, and whether the changes of the stream have made a chunk void. Out: what can be published, or when it is
asked for again. A table of which no copy can be made is stale, with the reason, and is tried again now and then. Faults
of the server itself count among its troubles: where they come each time, it is quarantined.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from walbridge.producer.copying.troubles import is_copied_too_often, with_fault
from walbridge.producer.copying.window import Void
from walbridge.producer.errors.tables import Unreadable, cannot_be_read
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Answer,
    ChunkAltered,
    ChunkRead,
    ChunkShown,
    Failed,
    TableFound,
    TablesFound,
)
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.reading import PUBLICATION
from walbridge.producer.session.copies.state.tables_to_copy import AGAIN_S
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.producer.session.copies.step_parts import StepParts
from walbridge.schemas.control.table_progress import (
    COPYING,
    DROPPED,
    FIRST_COPY_WAITS,
    QUARANTINED,
    STALE,
    TableProgress,
    restarts_each_session,
)
from walbridge.schemas.errors import OperatorError, RetryableError, ServerFault

log = structlog.get_logger()


class CopyAnswers:
    """Takes the answers of one session.

    Args:
        policy: ``on_table_error``, for tables of a pipeline's first copy.
        doubt: told a followed table whose copy cannot go on: the next cut leaves it.
    """

    def __init__(self, parts: StepParts, policy: str, doubt: Callable[[int, OperatorError], None]) -> None:
        self._policy, self._changes, self._doubt = policy, parts.changes, doubt
        self._reading, self._stream, self._out = parts.reading, parts.stream, parts.out
        self._last_reasons: dict[int, str] = {}
        """By table: the last reason why it cannot be copied."""

    def take(self, answer: Answer) -> None:
        """One answer to what was asked for."""
        match answer:
            case TablesFound(tables):
                self._reading.asked = None
                self._note_missing(self._reading.to_copy.note_publication(tables))
            case TableFound():
                self._reading.found = answer
            case Failed(error):
                asked = self._reading.asked or PUBLICATION
                self._reading.end()
                self.put_off(asked, error)
            case _ if (copied := self._reading.table) is not None:
                self._take_of_chunk(answer, copied)

    def take_of_whole(self, answer: Answer, whole: WholeCopy) -> None:
        """One answer about the table that is copied in one piece."""
        if isinstance(answer, Failed):
            self.put_off(whole.relation_id, answer.error)
            return
        if isinstance(answer, ChunkShown):
            self._reading.look(answer.snapshot)
        whole.take(answer)

    def _note_missing(self, relation_ids: Iterable[int]) -> None:
        """These tables were not in the publication when it was listed; they may be back by now.

        Whether a followed table left is for the source watch to say, and a quarantined table stays so. Both are looked
        up again. A stale table is dropped, and is new if it comes back.
        """
        reading = self._reading
        for relation_id in relation_ids:
            known = self._out.tracker.progress.tables.get(relation_id)
            if known is None or known.state in (STALE, DROPPED):
                if known is not None and known.state == STALE:
                    self._leave(known)
                reading.requested.give_up(relation_id)
            elif known.state == COPYING or relation_id in reading.requested.to_copy or relation_id in reading.copied:
                pause_s = reading.to_copy.pause_s(relation_id, is_refused=known.state == QUARANTINED)
                reading.to_copy.put_off(relation_id, pause_s)

    def _leave(self, table: TableProgress) -> None:
        gone = replace(table, state=DROPPED, since=self._stream.received, why=None)
        self._out.tracker.remember_tables({table.relation_id: gone})
        log.info("table left before it was copied", table=table.name, relation_id=table.relation_id)

    def _take_of_chunk(self, answer: Answer, copied: CopiedTable) -> None:
        chunk = copied.unread
        match answer:
            case _ if chunk is None:
                if isinstance(answer, ChunkRead):
                    answer.rows.close()
            case ChunkAltered():
                self._reading.end()
                copied.close_chunks()
                copied.is_altered = True
            case ChunkShown(snapshot):
                self._reading.look(snapshot)
                chunk.window.show(snapshot)
                chunk.labels = answer.labels
            case ChunkRead():
                chunk.finish_reading(answer)
                self._reading.throttle(answer.size_bytes, self._reading.asked_s)
                self._reading.end()

    def put_off(self, relation_id: int, error: BaseException) -> None:
        """The table cannot be read now. This error does not end the session."""
        if relation_id == PUBLICATION:
            self._reading.to_copy.note_list_failed()
            if isinstance(error, RetryableError):
                self._reading.waits.log_all(error)
            return
        known = self._out.tracker.progress.tables.get(relation_id)
        is_wanted = known is None or known.state != QUARANTINED or relation_id in self._reading.requested.to_copy
        if not is_wanted:
            self._reading.to_copy.forget(relation_id)  # by the very cut that its copy would have begun in
            return
        table = self._reading.to_copy.published.get(relation_id)
        if isinstance(error, ServerFault) and known is not None:
            error = self._count_fault(known, table, error)
        refusal = error if isinstance(error, OperatorError) else None
        why = refusal.what if refusal else str(error)
        pause_s = self._reading.to_copy.pause_s(relation_id, is_refused=isinstance(error, OperatorError | ServerFault))
        self._reading.to_copy.put_off(relation_id, pause_s)
        if self._reading.whole is not None and self._reading.whole.relation_id == relation_id:
            self._reading.end_whole()
        if relation_id in self._reading.copied:
            self._wait(self._reading.copied[relation_id], pause_s, why, refusal)
        elif self._is_published(relation_id):
            self._stay_current(relation_id, why, refusal)
        elif refusal is None and known is not None and known.state == STALE:
            self._log_wait(relation_id, why)  # it stays stale for what it was
        elif table is not None:
            self._stay_stale(table, why, refusal)

    def _count_fault(
        self, known: TableProgress, table: PublishedTable | None, fault: ServerFault
    ) -> Unreadable | ServerFault:
        """The fault; once it has come each time, why only a person can mend it."""
        counted = with_fault(known, time.time())
        self._out.tracker.remember_tables({known.relation_id: counted})
        name = table.qualified_name if table is not None else str(known.name)
        return cannot_be_read(name, fault) if is_copied_too_often(counted.troubles) else fault

    def _wait(self, copied: CopiedTable, pause_s: float, why: str, refusal: OperatorError | None) -> None:
        """Pause a copy that has begun. Until it goes on, the table's record says what a person has to mend."""
        copied.wait(pause_s)
        relation_id, tracker = copied.state.relation_id, self._out.tracker
        self._log_wait(relation_id, why, refusal)
        known = tracker.progress.tables[relation_id]
        if refusal is not None and known.state == COPYING and known.why != why:
            copied.state = replace(copied.state, why=why)
            tracker.remember_tables({relation_id: replace(known, why=why)})
        if isinstance(refusal, Unreadable) and known.state == COPYING:
            self._doubt(relation_id, refusal)

    def _is_published(self, relation_id: int) -> bool:
        known = self._out.tracker.progress
        return relation_id in known.relation_ids and not restarts_each_session(known.tables[relation_id])

    def _stay_current(self, relation_id: int, why: str, refusal: OperatorError | None) -> None:
        """A followed table cannot be copied again: it stays current, since what it has is right."""
        if refusal is None:
            self._log_wait(relation_id, why)
            return
        self._reading.requested.refuse(relation_id, why)
        self._reading.to_copy.forget(relation_id)
        log.warning("table is not copied again", relation_id=relation_id, reason=why, remedy=refusal.remedy)

    def _log_wait(self, relation_id: int, why: str, refusal: OperatorError | None = None) -> None:
        known = self._out.tracker.progress.tables.get(relation_id)
        name, remedy = known and known.name, _remedy(refusal)
        log.warning("copy of a table waits", table=name, relation_id=relation_id, reason=why, **remedy)

    def _stay_stale(self, published: PublishedTable, why: str, refusal: OperatorError | None) -> None:
        relation_id = published.relation_id
        known = self._out.tracker.progress.tables.get(relation_id)
        is_first = refusal is not None and known is not None and known.why == FIRST_COPY_WAITS
        if is_first and refusal is not None and self._policy == "stop":
            raise refusal
        if refusal is not None:
            self._reading.requested.give_up(relation_id)  # it is tried again all the same, as any stale table
        is_told, self._last_reasons[relation_id] = self._last_reasons.get(relation_id) == why, why
        if is_told and known is not None and known.state == STALE and known.why == why:
            return
        since = (known.since if known is not None and known.state == STALE else None) or self._stream.received
        name, table = published.qualified_name, known or TableProgress(relation_id, STALE)
        is_given_up = isinstance(refusal, Unreadable) or (is_first and self._policy == "quarantine")
        state = QUARANTINED if is_given_up else STALE
        left = replace(table, state=state, name=name, since=since, why=why, copy=None)
        self._out.tracker.remember_tables({relation_id: left})
        self._changes.leave_out(relation_id)
        if state == QUARANTINED:
            self._reading.forget(relation_id)
        log.warning("table is not published: it cannot be copied now", table=name, reason=why, **_remedy(refusal))

    def read_void_chunks_again(self) -> None:
        """Read void chunks and those after them again, or begin the copy again."""
        for copied in self._reading.copied.values():
            for number, chunk in enumerate(copied.chunks):
                if chunk.window.void is not None:
                    self._reread(copied, number, chunk.window.void)
                    break

    def _reread(self, copied: CopiedTable, number: int, void: Void) -> None:
        log.debug("chunk is read again", relation_id=copied.state.relation_id, reason=void.value)
        if void is Void.TOO_LARGE:
            copied.size = copied.size.after_too_large()
        elif void in (Void.IN_PROGRESS, Void.NOT_VISIBLE):
            copied.wait(AGAIN_S)
            assert copied.found is not None
            name, xid = copied.found.table.qualified_name, copied.chunks[number].window.waits_for
            self._reading.waits.log(copied.state.relation_id, name, void, xid)
        if copied.unread is not None:
            self._reading.end()
        copied.close_chunks(number)


def _remedy(refusal: OperatorError | None) -> dict[str, str]:
    """What a line of the log says besides, where a person has something to mend."""
    return {"remedy": refusal.remedy} if refusal else {}
