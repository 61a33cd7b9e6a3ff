"""One table of the first copy: its beginning, its rows, its end.

In: rows, as its snapshot shows them, in any order. Out: the same in its topic, between the records that begin and end
a copy. Rows come as lines that this process has read, or as blocks that a worker process has encoded. A line of the
log tells at least every 10 s how far it is.

``source.snapshot`` tells readers which rows are the first and the last, of all tables and of each: ``Ends``.
"""

import time
from collections.abc import Callable, Iterable

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.copy_share import LINE_S, TableSize, line_of, seconds_left
from walbridge.producer.copying.troubles import after_trouble
from walbridge.producer.encoding.copied_rows import CopiedBlock, EncodedRow, RowEncoder, RowFormat
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.errors.rows import UnfitRow, unfit_row
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.runtime.kill_points import kill_point
from walbridge.runtime.logs import progress_interval_s
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.control.cut import Cut, PartitionRange
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, TableProgress
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

log = structlog.get_logger()

FIRST, LAST, LAST_OF_TABLE, _MIDDLE = "first", "last", "last_in_data_collection", "true"


class Ends:
    """Which rows of a copy are the first and the last, in Debezium's words.

    No row is known to be the last of its table before the table has ended, so each holds its newest one back. Where it
    ends and no other table holds one, it waits: its row is the last of all, unless another table has one yet.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._holding: set[TableOfCopy] = set()
        self._waiting: TableOfCopy | None = None

    def first_row(self, table: "TableOfCopy") -> str:
        """A table has one; what that says, unless it is the last too."""
        self._holding.add(table)
        if self._waiting is not None:
            self._waiting.finish(LAST_OF_TABLE)
            self._waiting = None
        word = "first_in_data_collection" if self._has_begun else FIRST
        self._has_begun = True
        return word

    def left(self, table: "TableOfCopy") -> None:
        """It holds none any more."""
        self._holding.discard(table)

    def table_ends(self, table: "TableOfCopy") -> None:
        """It has no other row."""
        is_holding = table in self._holding
        self._holding.discard(table)
        if is_holding and not self._holding:
            self._waiting = table
        else:
            table.finish(LAST_OF_TABLE)

    def all_end(self) -> None:
        """No table has another row."""
        if self._waiting is not None:
            self._waiting.finish(LAST)


class TableOfCopy:
    """A table of which a row cannot be published is left, unless that ``stops`` all.

    Args:
        ends: of the copy that it is a part of.
        size: an estimate, for who waits.
        check_stop: called where stopping loses nothing but the copy; raises to stop.
    """

    def __init__(
        self,
        writer: RecordWriter,
        at: Lsn,
        out: OpenBatch,
        check_stop: Callable[[], None],
        ends: Ends,
        size: TableSize | None,
        *,
        stops: bool,
    ) -> None:
        self._writer, self._at, self._out, self._check_stop = writer, at, out, check_stop
        self._stops = stops
        self._ends, self._size = ends, size
        self._held: bytes | EncodedRow | None = None
        """The newest row, as TupleData or encoded as ``_MIDDLE``; it says ``_word`` if it is not the last."""
        self._word = ""
        self._started_s = self._logged_s = self._ended_s = 0.0
        self._rows = self._bytes = 0
        self._source = out.copied_source(at)
        self._unfit: UnfitRow | None = None

    @property
    def is_left(self) -> bool:
        """One of its rows cannot be published: the others need not be."""
        return self._unfit is not None

    def begin(self) -> None:
        """``copy_begin`` and ``t``: what an unfinished copy left in the topic is void."""
        self._started_s = self._logged_s = time.monotonic()
        out, writer = self._out, self._writer
        out.open()
        out.add_barrier(writer, "copy_begin", Position(self._at, COPIED_ORDINAL))
        out.send_to_all_partitions(writer, writer.truncate(self._source, COPIED_ORDINAL, out.ts_ms, copies=True))

    def send(self, copied: Iterable[list[bytes]]) -> None:
        """Rows as lines, many at a time; none after a silence. They are read to the end whatever they are: to break off
        would end the snapshot."""
        encoder = RowEncoder(RowFormat(self._writer.relation, self._writer.snapshot_source))
        for lines in copied:
            if not lines:
                self._hear_nothing()
                continue
            self._bytes += sum(map(len, lines))
            if self._unfit is None:
                self._encode(encoder, lines)

    def send_blocks(self, blocks: Iterable[CopiedBlock], size_bytes: int = 0) -> None:
        """Rows that are encoded, and lines of those that could not be; ``size_bytes``: of all of them as lines."""
        self._bytes += size_bytes
        for block in blocks:
            if self._unfit is not None:
                return
            self._take_rows(block)

    def _encode(self, encoder: RowEncoder, lines: list[bytes]) -> None:
        try:
            block = encoder.block(lines)
        except ProtocolError as error:
            self._give_up(error)
        else:
            self._take_rows(block)

    def _take_rows(self, block: CopiedBlock) -> None:
        """As many at a time as the batch has room for."""
        first = 0
        while first < len(block.rows) and self._unfit is None:
            self._out.open()
            end = first + max(self._out.rows_left, 1)
            rows = block.rows[first:end]
            self._take_block(CopiedBlock(rows, block.lines[first:end]))
            self._rows += len(rows)
            first = end
            if self._out.is_full:
                self._end_batch()

    def log_if_due(self) -> None:
        """How far it is, if nothing told that for a while."""
        now_s = time.monotonic()
        if now_s - self._logged_s < progress_interval_s(LINE_S) or self.is_left:
            return
        self._logged_s, seconds = now_s, now_s - self._started_s
        share = None if self._size is None else self._size.share(self._rows, self._bytes)
        left_s, name = seconds_left(share, 0, seconds), self._writer.relation.table.qualified_name
        log.info(
            "copy of a table goes on", **line_of(name, self._rows, self._bytes, share, self._rows / seconds, left_s)
        )

    def end(self) -> None:
        """No other row comes."""
        self._ended_s = time.monotonic()
        self._ends.table_ends(self)

    def finish(self, word: str) -> None:
        """``copy_end``, or the end of what was sent, after the row that was held back; ``word``: what it says."""
        self._out.open()
        if self._held is not None:
            self._send_held(self._held, FIRST if self._word == FIRST and word != LAST else word)
            self._held = None
        if self._unfit is None:
            self._out.add_barrier(self._writer, "copy_end", Position(self._at, COPIED_ORDINAL + 1))
        else:
            self._leave(self._unfit)
        if self._out.is_full:
            commit(self._out)
            self._check_stop()
        if self._unfit is None:
            seconds, name = round(self._ended_s - self._started_s, 2), self._writer.relation.table.qualified_name
            log.info("copied", table=name, rows=self._rows, seconds=seconds)

    def _take(self, row: bytes | EncodedRow) -> None:
        """Send the row before it."""
        held, self._held = self._held, row
        if held is None:
            self._word = self._ends.first_row(self)
            self._out.open()  # it may have ended the batch with the table before
        else:
            self._send_held(held, self._word)
            self._word = _MIDDLE

    def _take_block(self, block: CopiedBlock) -> None:
        """Send the row before it, and all of it but the last."""
        columns = len(self._writer.relation.table.columns)
        # Lines of encoded rows may be left out.
        encoded = [row for row in block.rows if row is not None]
        others = [
            tuple_of_line(line, columns) for row, line in zip(block.rows, block.lines, strict=True) if row is None
        ]
        if encoded:
            first = [encoded.pop(0)] if self._held is None else []
            for row in (*first, *encoded[-1:]):
                self._take(row)
            if self._unfit is None:
                self._send_encoded(encoded[:-1])
        for other in others:
            if self._unfit is None:
                self._take(other)

    def _send_held(self, row: bytes | EncodedRow, word: str) -> None:
        if isinstance(row, bytes):
            self._send_row(row, word)
            return
        key, value = row
        if word != _MIDDLE:
            writer = self._writer
            value = value[: -len(writer.snapshot_source)] + writer.source_part(word)
        self._send_encoded([(key, value)])

    def _send_row(self, row: bytes, word: str) -> None:
        writer = self._writer
        part = writer.snapshot_source if word == _MIDDLE else writer.source_part(word)
        try:
            self._out.send_copied(writer, row, self._source, part)
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
        self._held = None
        self._ends.left(self)
        if self._stops:
            raise self._unfit from None

    def _end_batch(self) -> None:
        commit(self._out)
        self.log_if_due()
        kill_point("copy:rows")
        self._check_stop()

    def _hear_nothing(self) -> None:
        """A row filter may pass no row for hours."""
        end_silent_batch(self._out)
        self.log_if_due()
        self._check_stop()

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
