"""What a copy beside the stream puts into its topic: markers, barriers, rows; each step a Kafka transaction.

In: rows as they are at E, and the table's record of progress after the step. Out: a committed cut. The caller is
between transactions of Postgres, and E is how far the stream has been received, so all that committed before it is in
this cut or an earlier one, and it ends there.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.copying.troubles import with_copy_begun, with_copy_ended
from walbridge.producer.encoding.copied_rows import EncodedRow
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.errors.rows import UnfitRow, unfit_row
from walbridge.producer.pgoutput.messages import Delete
from walbridge.producer.relations.tables import Tables
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.avro.value_encoders import NULL
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

FIRST, LAST = "first_in_data_collection", "last_in_data_collection"
_ALIVE_ROWS = 1_000
Each = TypeVar("Each")


class CopyRecords:
    """Publishes the copies of one session.

    Args:
        keep_alive: called now and then, since the stream is not read meanwhile.
        leave: told a table of which no copy can be made before a person mends what is told, and from where on.
    """

    def __init__(
        self,
        out: OpenBatch,
        tables: Tables,
        cuts: CutMaker,
        keep_alive: Callable[[], None],
        leave: Callable[[RelationRecord, Position, UnfitRow], None],
    ) -> None:
        self._out, self._tables, self._cuts, self._keep_alive = out, tables, cuts, keep_alive
        self._leave = leave

    def end_batch(self) -> bool:
        """End what is open: each step has a batch of its own. A table that left may be let go by that.

        False where the step is to wait for a moment, as in ``CutMaker.close``.
        """
        return self._cuts.prepare_step()

    def begin(self, writer: RecordWriter, progress: TableProgress, lsn: Lsn, *, leaves: bool = False) -> None:
        """``copy_begin``: it names the shape, so the first event after it needs no barrier.

        Args:
            leaves: nothing of the table is published until its rows are: it equals the source no longer.
        """
        source = self._open(lsn)
        self._tables.writers.take_shape_barrier(progress.relation_id)
        if leaves:
            self._out.add_barrier(writer, "dropped", Position(lsn, COPIED_ORDINAL))
        self._out.add_barrier(writer, "copy_begin", Position(lsn, COPIED_ORDINAL))
        self._out.send_to_all_partitions(writer, writer.marker(FIRST, source, self._out.ts_ms))
        kill_point("chunk:before-begin")
        self._close(with_copy_begun(progress, time.time()), lsn)
        kill_point("chunk:begun")

    def enter(
        self,
        writer: RecordWriter,
        rows: Iterable[list[EncodedRow] | bytes],
        progress_after: Callable[[], TableProgress],
        lsn: Lsn,
        gone: Iterable[bytes] = (),
    ) -> bool:
        """One chunk: blocks of encoded rows, and rows as TupleData. ``progress_after`` is asked when all are taken.

        Args:
            gone: keys, as Postgres sends an old one, that are to be deleted.

        False where one of them cannot be published: the table is left there.
        """
        kill_point("chunk:read")
        source, out = self._open(lsn), self._out
        if self._tables.writers.take_shape_barrier(writer.relation.table.relation_id):
            out.add_barrier(writer, "shape", Position(lsn, COPIED_ORDINAL))
        end = source.encoded + long_bytes(COPIED_ORDINAL) + out.plain_tails["r"]
        if (unfit := self._send(writer, self._send_encoded_rows(writer, rows, end), source, lsn)) is not None:
            self.leave(writer, unfit, lsn)
            return False
        for key in gone:
            delete = Delete(writer.relation.table.relation_id, key=key, old=None)
            for record in writer.delete(delete, source, COPIED_ORDINAL, out.ts_ms):
                out.send(writer, record)
        kill_point("chunk:rows")
        self._close(progress_after(), lsn)
        kill_point("chunk:entered")
        return True

    def enter_rows(
        self,
        writer: RecordWriter,
        rows: Iterable[bytes],
        at: Lsn,
        progress_after: Callable[[], TableProgress],
        lsn: Lsn,
    ) -> bool:
        """As many rows of a table that is copied in one piece as a batch holds, at the LSN at which its copy began.

        False where one of them cannot be published: the table is left there.
        """
        self._open(lsn)
        source = self._out.copied_source(at)
        if (unfit := self._send(writer, self._until_full(rows), source, lsn)) is not None:
            self.leave(writer, unfit, lsn)
            return False
        kill_point("whole:rows")
        self._close(progress_after(), lsn)
        kill_point("whole:rows-entered")
        return True

    def enter_changes(
        self, writer: RecordWriter, changes: Iterable[KafkaRecord], progress: TableProgress, lsn: Lsn
    ) -> None:
        """As many changes that waited for those rows as a batch holds."""
        self._open(lsn)
        for number, record in enumerate(self._until_full(changes)):
            self._out.send(writer, record)
            if number % _ALIVE_ROWS == 0:
                self._keep_alive()
        kill_point("whole:changes")
        self._close(progress, lsn)
        kill_point("whole:changes-entered")

    def _until_full(self, each: Iterable[Each]) -> Iterator[Each]:
        """The items up to the point where the batch is full; later ones stay in the iterator."""
        taken = iter(each)
        while not self._out.is_full and (one := next(taken, None)) is not None:
            yield one

    def _send_encoded_rows(
        self, writer: RecordWriter, rows: Iterable[list[EncodedRow] | bytes], end: bytes
    ) -> Iterator[bytes]:
        """Send the encoded rows; yields the rows that are not encoded yet.

        Raises:
            UnfitRow: one is too large.
        """
        for each in rows:
            if isinstance(each, bytes):
                yield each
            elif each:
                self._out.send_encoded(writer, each, end)
                self._keep_alive()

    def _send(
        self, writer: RecordWriter, rows: Iterable[bytes], source: TransactionSource, lsn: Lsn
    ) -> UnfitRow | None:
        """Queue rows. Returns why one of them cannot be published; None where all can."""
        try:
            for number, row in enumerate(rows):
                self._out.send_copied(writer, row, source, writer.incremental_source)
                if number % _ALIVE_ROWS == 0:
                    self._keep_alive()
        except (ProtocolError, UnfitRow) as error:
            return unfit_row(writer.relation, Position(lsn, COPIED_ORDINAL), error)
        return None

    def leave(self, writer: RecordWriter, reason: UnfitRow, lsn: Lsn) -> None:
        """End the copy, and leave the table. The rows of it in the open batch are right, but will not be used.

        Raises:
            OperatorError: settings say that this stops all.
        """
        self._open(lsn)
        self._leave(writer.relation, Position(lsn, 0), reason)
        self._out.batch.end_lsn = lsn
        self._cuts.close_without_look()

    def end(self, writer: RecordWriter, progress: TableProgress, lsn: Lsn) -> None:
        """``copy_end``."""
        source = self._open(lsn)
        self._out.add_barrier(writer, "copy_end", Position(lsn, COPIED_ORDINAL))
        self._out.send_to_all_partitions(writer, writer.marker(LAST, source, self._out.ts_ms))
        kill_point("chunk:before-end")
        self._close(with_copy_ended(progress, time.time()), lsn)
        kill_point("chunk:ended")

    def _open(self, lsn: Lsn) -> TransactionSource:
        # A copied row has no origin, whatever the last transaction of the stream had.
        self._out.set_origin(NULL)
        self._out.open()
        return self._out.copied_source(lsn)

    def _close(self, progress: TableProgress, lsn: Lsn) -> None:
        # Into the Kafka transaction of the step itself: a restart goes on after the last step that is committed.
        self._out.tracker.remember_tables({progress.relation_id: progress})
        self._out.batch.end_lsn = lsn
        self._cuts.close_without_look()
