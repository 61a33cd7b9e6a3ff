"""One table that no key orders, copied beside the stream in one piece, in one session.

In: what the copy's reader found and reads of it, the table's changes. Out: its rows, and after them the changes that
the rows lack, made into records when they came: with their own positions, which follow that of the rows.

Memory is bounded by what the reader reads ahead and what the queue has not written yet (I9). No change is published
before all rows are, so a reader of the topic finds every row before the change that takes it away.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator

from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.set_aside import SetAside
from walbridge.producer.copying.visibility import Before
from walbridge.producer.copying.window import Void
from walbridge.producer.encoding.kafka_record import KafkaRecord, event_count
from walbridge.producer.encoding.record import RecordWriter, records_of
from walbridge.producer.errors.disks import set_aside_full, set_aside_unwritable
from walbridge.producer.errors.rows import unfit_row
from walbridge.producer.pgoutput.messages import Delete, Insert, Update
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Answer,
    ChunkAltered,
    ChunkShown,
    RowsRead,
    TableFound,
    WholeRead,
    WholeWanted,
)
from walbridge.producer.session.copies.state.record_queue import QueueFull, RecordQueue
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.avro.codec import long_bytes
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.position import Lsn


class WholeCopy:
    """Between ``copy_begin`` and ``copy_end``.

    Attributes:
        state: with the LSN at which the copy began: the rows' position.
        failure: why it cannot go on, where a person has to do something.
        rows_due, bytes_due: of rows that are here, to be published next; what they take.
        rows_taken, bytes_taken: of those that were published.
        asked_s: when its rows were asked for, on the monotonic clock.

    Args:
        begun: a 64-bit xid above those of all transactions whose changes may be missing in the stream.
        queue: for the changes.
        give_back: told how much the rows took that were published.
        refuse_too_large: raises ``UnfitRow`` where Kafka would not take a record.
    """

    def __init__(
        self,
        found: TableFound,
        writer: RecordWriter,
        state: TableState,
        begun: int,
        queue: RecordQueue,
        give_back: Callable[[int], None],
        refuse_too_large: Callable[[RecordWriter, list[KafkaRecord]], None],
    ) -> None:
        self.found, self.writer, self.state = found, writer, state
        self.failure: OperatorError | None = None
        self.aside: SetAside[KafkaRecord] | None = None
        self.read: WholeRead | None = None
        """There are no more rows than those that are here."""
        self.rows_due = self.bytes_due = self.rows_taken = self.bytes_taken = 0
        self.labels: frozenset[str] = frozenset()
        """Those that its rows may hold (``ChunkShown``)."""
        self._pieces: deque[RowsRead] = deque()
        self._piece: Iterator[bytes] = iter(())
        self._begun, self._queue, self._give_back = begun, queue, give_back
        self._refuse_too_large = refuse_too_large
        self.asked_s = self._again_s = 0.0

    @property
    def relation_id(self) -> int:
        """Of the table."""
        return self.state.relation_id

    @property
    def name(self) -> str:
        """Of the table, with its schema."""
        return self.found.table.qualified_name

    @property
    def rows_read(self) -> int:
        """Published or not."""
        return self.rows_taken + self.rows_due

    @property
    def bytes_read(self) -> int:
        """What they take."""
        return self.bytes_taken + self.bytes_due

    @property
    def is_due(self) -> bool:
        """Whether its rows are to be asked for."""
        return self.aside is None and time.monotonic() >= self._again_s

    def open(self, before: Before) -> WholeWanted:
        """Set its changes aside from here on, and ask for its rows."""
        before = Before(max(before.begun, self._begun), before.received)
        self.aside, self.asked_s = SetAside(before, self._queue), time.monotonic()
        return WholeWanted(self.found.table, self.found.shape, before)

    def wait(self, pause_s: float) -> None:
        """What was set aside is void, and no row was published: ask again later."""
        self.aside = None
        self._queue.close()
        self._again_s = time.monotonic() + pause_s

    def take(self, answer: Answer) -> None:
        """An answer of the reader."""
        assert self.aside is not None
        match answer:
            case ChunkAltered():
                self.aside.spoil(Void.ALTERED)
            case ChunkShown(snapshot):
                self.aside.show(snapshot)
                self.labels = answer.labels
            case RowsRead(rows, size_bytes):
                self._pieces.append(answer)
                self.rows_due += len(rows)
                self.bytes_due += size_bytes
            case WholeRead():
                self.read = answer

    def truncate(self) -> None:
        """A TRUNCATE of the table: the rows that are read may be those before it."""
        if self.aside is not None:
            self.aside.spoil(Void.TRUNCATED)

    def receive(self, change: Insert | Update | Delete, writer: RecordWriter, transaction: OpenTransaction) -> None:
        """A change of the table."""
        aside = self.aside
        if aside is None or aside.void is not None or self.failure is not None:
            return
        if writer is not self.writer:
            aside.spoil(Void.ALTERED)
            return
        try:
            ts_ms = b"\x02" + long_bytes(time.time_ns() // 1_000_000)
            source = transaction.source_of(self.relation_id)
            records = records_of(change, writer, source, transaction.ordinal, ts_ms)
            self._refuse_too_large(writer, records)
            for record in records:
                aside.receive(transaction.begin.xid, record)
        except OperatorError as error:
            self.failure = error
        except ProtocolError as error:
            self.failure = unfit_row(writer.relation, transaction.position, error)
        except QueueFull as full:
            self.failure = set_aside_full(self.name, self._queue.folder, full.limit_bytes)
        except OSError as error:
            self.failure = set_aside_unwritable(self.name, self._queue.folder, error.strerror)
        else:
            count = event_count(records)
            transaction.count(self.relation_id, count, waits=True)
            transaction.ordinal += count

    def rows(self) -> Iterator[bytes]:
        """The rows that are here, each once, whoever asks."""
        while True:
            for row in self._piece:
                self.rows_due -= 1
                self.rows_taken += 1
                self.bytes_taken += len(row)
                yield row
            if not self._pieces:
                return
            piece = self._pieces.popleft()
            self.bytes_due -= piece.size_bytes
            self._give_back(piece.size_bytes)
            self._piece = iter(piece.rows)

    def changes(self) -> Iterator[KafkaRecord]:
        """The changes that the rows lack, as far as they have come, each once, whoever asks."""
        assert self.aside is not None
        while (record := self.aside.take()) is not None:
            yield record

    def is_drained(self, received: Lsn) -> bool:
        """Whether the topic holds all that was committed before this LSN."""
        return self.aside is not None and self.aside.is_drained(received)

    def close(self) -> None:
        """It is over."""
        self._pieces.clear()
        self._queue.close()
