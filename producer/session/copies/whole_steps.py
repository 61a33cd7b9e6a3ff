"""The steps of a copy in one piece: its beginning, rows, the changes that waited for them, its end.

In: a table that no key orders, as the reader found it, and its rows as they come. Out: each step in its topic, in a
Kafka transaction of its own with the progress that goes with it.

    copy_begin at (L, -1) ──▶ rows at (L, -1) ⟲ ──▶ changes at their own positions ⟲ ──▶ copy_end at (E, -1)

L is how far the stream was received when the copy began. Its changes are set aside from there on, so the rows' snapshot
is later, and every change that it lacks has a position above L. The order of positions is that of the topic, as ever.
A copy that does not come to its end, for whatever reason, begins anew with another ``copy_begin``, which voids it.

The other tables flow meanwhile: each step takes no more than a batch. To a table that was current, ``dropped`` says
before ``copy_begin`` that it is so no longer: its changes come late.
"""

import time
from collections.abc import Callable

import structlog

from walbridge.producer.copying.copy_share import seconds_left
from walbridge.producer.copying.copy_state import Chunk, TableState
from walbridge.producer.copying.table_record import with_state
from walbridge.producer.copying.window import Void
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.errors.rows import UnfitRow
from walbridge.producer.guards.doubts.rewrites import with_labels
from walbridge.producer.postgres.copy_beside.copy_protocol import TableFound
from walbridge.producer.session.copies.start import NotYet
from walbridge.producer.session.copies.state.tables_to_copy import AGAIN_S
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.producer.session.copies.step_parts import StepParts
from walbridge.schemas.control.table_progress import (
    COPYING,
    CURRENT,
    IN_ONE_PIECE,
    TableProgress,
    restarts_each_session,
)
from walbridge.schemas.position import format_lsn
from walbridge.schemas.settings_sections import Producer

log = structlog.get_logger()

ROWS_BYTES = 2**20
"""Of rows that are here: then they are published, or when they have waited for a batch's time."""
REPORT_S = 10.0
_BYTES_PER_S = 20 * 2**20
"""That a copy is taken to read before anything of it is known."""


class WholeSteps:
    """Takes the steps of one session's copies in one piece.

    Args:
        put_off: told the relation id of a table whose copy cannot go on, and why.
    """

    def __init__(self, limits: Producer, parts: StepParts, put_off: Callable[[int, BaseException], None]) -> None:
        self._limits, self._changes, self._put_off = limits, parts.changes, put_off
        self._reading, self._stream, self._out = parts.reading, parts.stream, parts.out
        self._arrival, self._start, self._records = parts.arrival, parts.start, parts.records
        self._reported_s = self._entered_s = 0.0
        self._changes_left: int | None = None

    def begin(self, found: TableFound, writer: RecordWriter, begun: int) -> None:
        """``copy_begin``.

        Raises:
            NotYet: its copy cannot begin now.
        """
        relation_id, name, lsn = found.table.relation_id, found.table.qualified_name, self._stream.received
        known = self._start.record_of(found)
        is_fed = known.state in (CURRENT, COPYING) and not restarts_each_session(known)
        state = TableState.appeared(relation_id, lsn, "").begin_copy(lsn, found.shape, in_one_piece=True)
        self._changes.follow(relation_id)
        self._reading.requested.end(relation_id)
        self._records.begin(writer, with_state(known, state), lsn, leaves=is_fed)
        if self._out.tracker.progress.tables[relation_id].state != COPYING:
            raise NotYet(f"table {name} left the publication meanwhile")
        self._reading.whole = WholeCopy(
            found,
            writer,
            state,
            begun,
            self._changes.queue(),
            self._reading.whole_reader.give_back,
            self._out.refuse_too_large,
        )
        self._reported_s = self._entered_s = time.monotonic()
        self._changes_left = None
        size_bytes = _size_bytes(found)
        log.warning(
            "table is read in one piece, since no key orders it: this holds vacuum back, and ALTER of it waits",
            table=name,
            relation_id=relation_id,
            lsn=format_lsn(lsn),
            estimated_bytes=size_bytes,
            estimated_seconds=1 + size_bytes // min(_BYTES_PER_S, self._limits.copy_bytes_per_s or _BYTES_PER_S),
        )

    def step(self) -> None:
        """Do what can be done now."""
        whole = self._reading.whole
        if whole is None or whole.aside is None:
            return
        if isinstance(whole.failure, UnfitRow):
            if self._records.end_batch() and self._reading.whole is whole:
                self._records.leave(whole.writer, whole.failure, self._stream.received)
        elif whole.failure is not None:
            self._abandon(whole)
            self._put_off(whole.relation_id, whole.failure)
        elif whole.aside.void is not None:
            self._begin_again(whole, whole.aside.void)
        else:
            self._go_on(whole)

    def _abandon(self, whole: WholeCopy) -> None:
        self._changes.leave_out(whole.relation_id)
        self._reading.end_whole()

    def _begin_again(self, whole: WholeCopy, void: Void) -> None:
        if void in (Void.IN_PROGRESS, Void.NOT_VISIBLE):
            # Told with the snapshot, before the first row.
            self._reading.whole_reader.cancel()
            xid = None if whole.aside is None else whole.aside.waits_for
            whole.wait(AGAIN_S)
            self._reading.waits.log(whole.relation_id, whole.name, void, xid)
            return
        self._abandon(whole)
        self._reading.to_copy.put_off(whole.relation_id, AGAIN_S)
        log.info("copy of a table begins again", table=whole.name, reason=void.value)

    def _go_on(self, whole: WholeCopy) -> None:
        self._report(whole)
        assert whole.aside is not None
        if self._are_rows_due(whole):
            if not self._records.end_batch():
                return
            if self._reading.whole is whole:
                self._enter_rows(whole)
        if self._reading.whole is not whole:
            return  # left with a batch, or for a row that cannot be published
        if whole.read is not None and not whole.rows_due:
            whole.aside.finish_reading(whole.read.insert_lsn)
        while self._reading.whole is whole and whole.aside.is_read and self._enter_changes(whole):
            pass
        if self._reading.whole is not whole or whole.read is None or len(whole.aside):
            return
        if self._arrival.has_come(whole.read.insert_lsn) and whole.is_drained(self._stream.received):
            self._end(whole)

    def _are_rows_due(self, whole: WholeCopy) -> bool:
        waited_s = time.monotonic() - self._entered_s
        is_late = whole.read is not None or waited_s * 1000 >= self._limits.batch_ms_max
        return (
            whole.rows_due > 0
            and not self._reading.throttled_s
            and (is_late or whole.bytes_due >= ROWS_BYTES or whole.rows_due >= self._limits.batch_rows_max)
        )

    def _enter_rows(self, whole: WholeCopy) -> None:
        assert whole.state.copy is not None
        rows, size_bytes = whole.rows_taken, whole.bytes_taken

        def progress() -> TableProgress:
            return self._entered(whole, Chunk(whole.rows_taken - rows, whole.bytes_taken - size_bytes, IN_ONE_PIECE))

        at = whole.state.copy.begun_lsn
        if not self._records.enter_rows(whole.writer, whole.rows(), at, progress, self._stream.received):
            return
        self._reading.throttle(whole.bytes_taken - size_bytes, self._entered_s)
        self._entered_s = time.monotonic()

    def _enter_changes(self, whole: WholeCopy) -> bool:
        """One batch of them; whether another one has to follow at once, so that more leave than come."""
        assert whole.aside is not None
        waiting = len(whole.aside)
        if not waiting:
            self._changes_left = None
            return False
        if not self._records.end_batch() or self._reading.whole is not whole:
            return False
        target = None if self._changes_left is None else self._changes_left - self._limits.batch_rows_max
        progress = self._out.tracker.progress.tables[whole.relation_id]
        self._records.enter_changes(whole.writer, whole.changes(), progress, self._stream.received)
        left = len(whole.aside)
        if target is not None and left > max(target, 0):
            return True
        self._changes_left = left
        return False

    def _entered(self, whole: WholeCopy, chunk: Chunk) -> TableProgress:
        whole.state = whole.state.enter(chunk)
        known = self._out.tracker.progress.tables[whole.relation_id]
        return with_labels(with_state(known, whole.state), whole.labels)

    def _end(self, whole: WholeCopy) -> None:
        if not self._records.end_batch() or self._reading.whole is not whole or whole.state.copy is None:
            return  # the batch that ended was the table's last
        lsn, rows = self._stream.received, whole.state.copy.rows
        whole.state = whole.state.enter(Chunk(0, 0, IN_ONE_PIECE, is_last=True)).end_copy(lsn)
        known = self._out.tracker.progress.tables[whole.relation_id]
        self._records.end(whole.writer, with_state(known, whole.state), lsn)
        if self._out.tracker.progress.tables[whole.relation_id].state != CURRENT:
            return  # this very cut says that it left, or is in trouble again
        self._reading.end_copy(whole.relation_id)
        log.info("table is copied", table=whole.name, rows=rows, lsn=format_lsn(lsn))

    def _report(self, whole: WholeCopy) -> None:
        """While it is read. How much of it is published, all copies tell (``copy_progress.py``)."""
        now_s = time.monotonic()
        if whole.read is not None or now_s - self._reported_s < REPORT_S:
            return
        self._reported_s = now_s
        size, seconds = whole.found.size, now_s - whole.asked_s
        share = None if size is None else size.share(whole.rows_read, whole.bytes_read)
        left_s = seconds_left(share, 0.0, seconds)
        log.warning(
            "table is still being read in one piece, which holds vacuum back",
            table=whole.name,
            seconds=round(seconds),
            bytes_read=whole.bytes_read,
            estimated_bytes=_size_bytes(whole.found),
            seconds_left=None if left_s is None else round(left_s),
            changes_set_aside=0 if whole.aside is None else len(whole.aside),
        )


def _size_bytes(found: TableFound) -> int:
    return 0 if found.size is None else found.size.size_bytes
