"""One table of the first copy: its beginning, its rows, its end.

In: rows, as its snapshot shows them, in any order. Out: the same in its topic, between the records that begin and end
a copy. Rows come as TupleData that this process has read, or as blocks that a worker process has encoded. A line of the
log tells at least every 10 s how far it is.
"""

import time
from collections.abc import Callable, Iterable, Iterator

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.copy_share import LINE_S, TableSize, line_of, seconds_left
from walbridge.producer.copying.troubles import after_trouble
from walbridge.producer.encoding.copied_rows import CopiedBlock, EncodedRow
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.errors.rows import UnfitRow, unfit_row
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.control.cut import Cut, PartitionRange
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, TableProgress
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

log = structlog.get_logger()


class TableOfCopy:
    """A table of which a row cannot be published is left, unless that ``stops`` all.

    Args:
        size: an estimate, for who waits.
        check_stop: called where stopping loses nothing but the copy; raises to stop.
    """

    def __init__(
        self,
        writer: RecordWriter,
        at: Lsn,
        out: OpenBatch,
        check_stop: Callable[[], None],
        size: TableSize | None,
        *,
        stops: bool,
    ) -> None:
        self._writer, self._at, self._out, self._check_stop = writer, at, out, check_stop
        self._stops = stops
        self._size = size
        self._started_s = self._told_s = 0.0
        self._rows = self._bytes = 0
        self._source = out.copied_source(at)
        self._unfit: UnfitRow | None = None

    @property
    def is_left(self) -> bool:
        """One of its rows cannot be published: the others need not be."""
        return self._unfit is not None

    def begin(self) -> None:
        """``copy_begin`` and ``t``: what an unfinished copy left in the topic is void."""
        self._started_s = self._told_s = time.monotonic()
        out, writer = self._out, self._writer
        out.open()
        out.add_barrier(writer, "copy_begin", Position(self._at, COPIED_ORDINAL))
        out.send_to_all_partitions(writer, writer.truncate(self._source, COPIED_ORDINAL, out.ts_ms, copies=True))

    def send(self, copied: Iterator[bytes | None]) -> None:
        """Rows as TupleData; None after a silence. They are read to the end whatever they are: to break off would end
        the snapshot."""
        out = self._out
        out.open()
        for row in copied:
            if row is None and (row := self._after_silence(copied)) is None:
                break
            if self._unfit is None:
                self._send_row(row)
            self._rows += 1
            self._bytes += len(row)
            # The clock is asked now and then only; bytes always, since a row may have megabytes.
            if (self._rows % 100 == 0 or out.batch.byte_count >= out.bytes_max) and out.is_full:
                self._end_batch()
                out.open()

    def send_blocks(self, blocks: Iterable[CopiedBlock], size_bytes: int = 0) -> None:
        """Rows that are encoded, and lines of those that could not be; ``size_bytes``: of all of them as lines."""
        self._bytes += size_bytes
        columns = len(self._writer.relation.table.columns)
        for block in blocks:
            if self._unfit is not None:
                return
            self._out.open()
            self._send_encoded([row for row in block.rows if row is not None])
            for row, line in zip(block.rows, block.lines, strict=True):
                if row is None and self._unfit is None:
                    self._send_row(tuple_of_line(line, columns))
            self._rows += len(block.rows)
            if self._out.is_full:
                self._end_batch()

    def tell(self) -> None:
        """How far it is, if nothing told that for a while."""
        now_s = time.monotonic()
        if now_s - self._told_s < LINE_S or self.is_left:
            return
        self._told_s, seconds = now_s, now_s - self._started_s
        share = None if self._size is None else self._size.share(self._rows, self._bytes)
        left_s, name = seconds_left(share, 0, seconds), self._writer.relation.table.qualified_name
        log.info(
            "copy of a table goes on", **line_of(name, self._rows, self._bytes, share, self._rows / seconds, left_s)
        )

    def end(self) -> None:
        """``copy_end``, or the end of what was sent."""
        self._out.open()
        if self._unfit is None:
            self._out.add_barrier(self._writer, "copy_end", Position(self._at, COPIED_ORDINAL + 1))
        else:
            self._leave(self._unfit)
        if self._out.is_full:
            commit(self._out)
            self._check_stop()
        if self._unfit is None:
            seconds, name = round(time.monotonic() - self._started_s, 2), self._writer.relation.table.qualified_name
            log.info("copied", table=name, rows=self._rows, seconds=seconds)

    def _send_row(self, row: bytes) -> None:
        try:
            self._out.send_copied(self._writer, row, self._source, is_incremental=False)
        except (ProtocolError, UnfitRow) as error:
            self._give_up(error)

    def _send_encoded(self, rows: list[EncodedRow]) -> None:
        end = self._source.encoded + long_bytes(COPIED_ORDINAL) + self._out.plain_tails["r"]
        try:
            self._out.send_encoded(self._writer, rows, end)
        except (ProtocolError, UnfitRow) as error:
            self._give_up(error)

    def _give_up(self, error: ProtocolError | UnfitRow) -> None:
        """A row cannot be published."""
        self._unfit = unfit_row(self._writer.relation, Position(self._at, COPIED_ORDINAL), error)
        if self._stops:
            raise self._unfit from None

    def _end_batch(self) -> None:
        commit(self._out)
        self.tell()
        kill_point("copy:rows")
        self._check_stop()

    def _after_silence(self, rows: Iterator[bytes | None]) -> bytes | None:
        """The next row, None at the end. A row filter may pass none for hours."""
        row: bytes | None = None
        while row is None:
            end_silent_batch(self._out)
            self.tell()
            self._check_stop()
            row = next(rows, b"")
        self._out.open()
        return row or None

    def _leave(self, reason: UnfitRow) -> None:
        """A table that this copy does not hold: what was sent of it is void, and it waits for ``walbridge copy``."""
        out, relation, place = self._out, self._writer.relation, Position(self._at, COPIED_ORDINAL + 1)
        name = relation.table.qualified_name
        out.add_barrier(self._writer, "truncate", place)
        void = self._writer.truncate(self._source, place.ordinal, out.ts_ms, copies=True)
        out.send_to_all_partitions(self._writer, void)
        known = TableProgress(relation.table.relation_id, COPYING, relation.topic)
        known = out.tracker.progress.tables.get(known.relation_id, known)
        after = after_trouble(known, name, self._at, reason.what, may_copy=False, now_s=time.time())
        out.leave_table(relation, place, after)
        log.warning("table is quarantined", table=name, reason=reason.what, remedy=reason.remedy)


def end_silent_batch(out: OpenBatch) -> None:
    """Nothing has come for a while: Kafka would abort a batch that is open."""
    if out.is_open and out.is_full:
        commit(out)


def commit(out: OpenBatch, finished: tuple[int, ...] | None = None) -> None:
    """End the batch; ``finished``: the tables of the copy, which is whole with it."""

    def records(ranges: list[PartitionRange], metadata_end: int) -> tuple[Progress, Cut]:
        return out.tracker.close_copy(out.batch, ranges, metadata_end, time.time_ns() // 1000, finished)

    out.commit_batch(records)
