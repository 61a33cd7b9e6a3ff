"""A producer that copies a table while it streams, made of the pure parts alone.

In: a ``SmallPostgres``. Out: events in a topic, and progress, in one commit each; what is not
committed is lost with ``kill``. Every method is one step; a step that is not due does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.producer.copying.small_postgres import KEYS, RELATION_ID, Row, SmallPostgres, data
from tests.producer.copying.topic_consumers import Consumer, Event, copied, events_of, marker
from tests.producer.written_record import FULL, KEYED, Written
from walbridge.producer.copying.copy_state import Chunk, TableState
from walbridge.producer.copying.row_keys import RowKeys
from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot
from walbridge.producer.copying.window import Window
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.schemas.control import table_progress as states
from walbridge.schemas.position import Lsn

WRITERS = {is_full: Written(replace(FULL if is_full else KEYED)).writer for is_full in (False, True)}


@dataclass(frozen=True)
class Progress:
    """What a restart finds."""

    done: Lsn
    table: TableState


@dataclass(frozen=True)
class Read:
    """What the reader of a chunk has, of which the producer hears bit by bit."""

    snapshot: Snapshot
    rows: list[tuple[bytes, bytes]]
    insert_lsn: Lsn
    bound: tuple[str, ...] | None
    is_last: bool
    asked: frozenset[bytes] | None


@dataclass
class Session:
    """What a kill takes away."""

    received_lsn: Lsn
    table: TableState
    transactions: ReceivedTransactions
    unsent: list[Event] = field(default_factory=list)
    window: Window | None = None
    read: Read | None = None


class Producer:
    """``voids``, and how many chunks entered, listed keys were asked for and moved rows were sent whole."""

    def __init__(self, source: SmallPostgres, chunk_rows: int, window_bytes_max: int) -> None:
        self.source = source
        self._chunk_rows = chunk_rows
        self._window_bytes_max = window_bytes_max
        self.keys = RowKeys.of(WRITERS[source.has_full_identity])
        old = dict.fromkeys(KEYS, (-1, -1))
        self.consumers = [Consumer(old, is_aside=False), Consumer(old, is_aside=True)]
        self.progress = Progress(source.wal_end, TableState.appeared(RELATION_ID, source.wal_end, "added"))
        self.voids: list[str] = []
        self.chunks = 0
        self.asked = self.moved = 0
        self.session = self._begin_session()

    def kill(self) -> None:
        """And start again from progress."""
        self.session = self._begin_session()

    def receive(self) -> None:
        """The next transaction of the stream, or how far it is."""
        session = self.session
        behind = [each for each in self.source.wal if each.end_lsn > session.received_lsn]
        if not behind:
            session.received_lsn = self.source.wal_end
            return
        transaction, ordinal = behind[0], 0
        session.transactions.receive(transaction.xid & 0xFFFFFFFF)
        for change in transaction.changes:
            ordinal += self._publish(transaction.xid & 0xFFFFFFFF, change, transaction.commit_lsn, ordinal)
        session.received_lsn = transaction.end_lsn

    def commit(self) -> None:
        """One Kafka transaction: events, progress, cut."""
        session = self.session
        for event in session.unsent:
            for consumer in self.consumers:
                consumer.apply(event)
        session.unsent = []
        self.progress = Progress(session.received_lsn, session.table)
        if session.table.state == states.CURRENT:
            for consumer in self.consumers:
                assert consumer.rows == self.source.at(session.received_lsn), (
                    "a published table differs from the source"
                )

    def look(self) -> None:
        self.session.transactions.look(Snapshot.parse(self.source.snapshot()))

    def begin_copy(self) -> None:
        session = self.session
        if session.table.state != states.COPYING:
            session.table = session.table.begin_copy(session.received_lsn)
            session.unsent.append(marker(session.received_lsn, "begin"))

    def go_on(self) -> None:
        """The step of the chunk that is due."""
        session = self.session
        if session.window is None:
            self.end_copy()
            self.open_window()
        elif session.read is None:
            self.read()
        elif session.window.void is None and not session.window.is_read(session.read.insert_lsn):
            self.show()
        else:
            self.enter()

    def open_window(self) -> None:
        session = self.session
        if session.table.copy is not None and session.window is None and not session.table.copy.is_whole:
            session.window, session.read = (
                Window(self.keys, session.transactions.before(), self._window_bytes_max),
                None,
            )

    def read(self) -> None:
        """Lock, snapshot, rows, and where the WAL stood, at the source."""
        session = self.session
        copy = session.table.copy
        if session.window is None or session.read is not None or copy is None:
            return
        snapshot = Snapshot.parse(self.source.snapshot())
        asked: frozenset[bytes] | None = None
        if copy.listed and (copy.has_all_ranges or copy.chunks % 2):
            asked = frozenset(copy.listed)
            of = {self._key(key): key for key in KEYS}
            rows = self.source.rows_of(sorted(of[key] for key in asked))
        elif copy.has_all_ranges:
            # A TRUNCATE took the listed keys for which the window was opened: nothing is left to read.
            session.window = None
            return
        else:
            rows = self.source.rows_behind(int(copy.bound[0]) if copy.bound else 0, self._chunk_rows)
        bound = (str(rows[-1][0]),) if rows else None
        pairs = [(self._key(key), data(key, *row)) for key, row in rows]
        session.read = Read(snapshot, pairs, self.source.wal_end, bound, len(rows) < self._chunk_rows, asked)

    def show(self) -> None:
        """The snapshot reaches the producer; the rows follow."""
        if self.session.read is not None and self.session.window is not None:
            self.session.window.show(self.session.read.snapshot)
            self.session.window.finish_reading(self.session.read.insert_lsn)

    def enter(self) -> None:
        """The chunk goes into its topic, or is void."""
        session = self.session
        window, read = session.window, session.read
        if window is None or read is None:
            return
        if window.void is not None:
            self.voids.append(window.void)
            session.window = None
        elif window.is_read(session.received_lsn):
            self._enter(window, read)
            session.window = None

    def end_copy(self) -> None:
        session = self.session
        if session.table.copy is not None and session.table.copy.is_whole and session.window is None:
            session.table = session.table.end_copy(session.received_lsn)
            session.unsent.append(marker(session.received_lsn, "end"))
            self.commit()

    def _enter(self, window: Window, read: Read) -> None:
        session = self.session
        truth = self.source.at(session.received_lsn)
        sent = [copied(session.received_lsn, row) for _, row in window.rows_at_end(read.rows)]
        for event in sent:
            assert event.key in truth, "a copied row that the source has not"
            assert event.row == truth[event.key], "a copied row as it was at another time"
        asked = read.asked
        chunk = Chunk(len(sent), 0, read.bound, read.is_last, asked, window.moved, window.read_again)
        session.table = session.table.enter(chunk)
        session.unsent += sent
        self.chunks += 1
        self.moved += len(window.moved)
        self.asked += len(asked or ())
        self.commit()

    def _publish(self, xid: int, change: Change, commit_lsn: Lsn, ordinal: int) -> int:
        session = self.session
        if session.window is not None:
            session.window.receive(xid, change)
        if not session.table.is_followed:
            return 0
        if isinstance(change, Truncate):
            session.table = session.table.truncate()
        elif (step := self.keys.step(change)).moves_unknown and step.new is not None and step.row is not None:
            listed = {step.new: self.keys.key_tuple(step.row)}
            session.table = session.table.list_moved(commit_lsn, listed)
        events = events_of(change, commit_lsn, ordinal)
        session.unsent += events
        return len(events)

    def _begin_session(self) -> Session:
        transactions = ReceivedTransactions(self.source.assigned_xid())
        return Session(self.progress.done, self.progress.table, transactions)

    def _key(self, key: int) -> bytes:
        encoded = self.keys.key_of(data(key, *UNUSED))
        assert encoded is not None
        return encoded


UNUSED: Row = (0, 0)
