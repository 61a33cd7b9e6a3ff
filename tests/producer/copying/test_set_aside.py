"""A table without a key that is copied in one piece equals the source at every published cut (I8).

The source is the small Postgres of the other copies, of which only a part of each row is shown, so that rows are
equal and nobody can tell them apart. Its consumer reads the topic in its order, and never finds a row that is to go
missing.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.examples import examples
from tests.in_soak import in_soak
from tests.producer.copying.small_postgres import KEYS, RELATION_ID, Row, SmallPostgres
from walbridge.producer.copying.copy_state import Chunk, TableState
from walbridge.producer.copying.set_aside import SetAside
from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot
from walbridge.producer.copying.window import Void
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Change, Delete, Insert, Truncate, Update
from walbridge.schemas.control import table_progress as states
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

Shown = tuple[int, int]
"""A row of a table without a key."""


@dataclass(frozen=True)
class Event:
    """``kind``: begin, end, t, r, or change, which takes one row away and brings one."""

    position: Position
    kind: str
    old: Shown | None = None
    new: Shown | None = None


def shown(key: int, row: Row) -> Shown:
    return key % 2, row[0] % 2


def shown_tuple(data: bytes | None) -> Shown | None:
    if data is None:
        return None
    key, small, _ = decode_tuple(data)
    assert isinstance(key, bytes)
    assert isinstance(small, bytes)
    return int(key) % 2, int(small) % 2


def event_of(change: Change, position: Position) -> Event:
    match change:
        case Insert(new=new):
            return Event(position, "change", new=shown_tuple(new))
        case Update(old=old, new=new):
            return Event(position, "change", shown_tuple(old), shown_tuple(new))
        case Delete(old=old):
            return Event(position, "change", old=shown_tuple(old))
    return Event(position, "t")


class Changes:
    """A queue in memory."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, Event]] = deque()

    def append(self, xid: int, record: Event) -> None:
        self._changes.append((xid, record))

    def take(self) -> tuple[int, Event] | None:
        return self._changes.popleft() if self._changes else None

    def __len__(self) -> int:
        return len(self._changes)


class Consumer:
    """Builds a copy aside, and puts it into the table's place at its end."""

    def __init__(self) -> None:
        self.rows = Counter[Shown]()
        self._aside: Counter[Shown] | None = None
        self._last = Position(Lsn(0), COPIED_ORDINAL)

    def apply(self, event: Event) -> None:
        assert event.position >= self._last, "an earlier event follows a later one"
        self._last = event.position
        rows = self.rows if self._aside is None else self._aside
        match event:
            case Event(kind="begin"):
                self._aside = Counter()
            case Event(kind="end"):
                assert self._aside is not None
                self.rows, self._aside = self._aside, None
            case Event(kind="t"):
                rows.clear()
            case _:
                if event.old is not None:
                    assert rows[event.old] > 0, "a row goes that was never there"
                    rows[event.old] -= 1
                if event.new is not None:
                    rows[event.new] += 1


@dataclass
class Session:
    """What a kill takes away. ``unread`` rows come bit by bit; ``read``: whether a snapshot was taken for them."""

    received: Lsn
    table: TableState
    transactions: ReceivedTransactions
    unsent: list[Event] = field(default_factory=list)
    aside: SetAside[Event] | None = None
    shown: bool = False
    read: tuple[Snapshot, Lsn] | None = None
    unread: list[Shown] = field(default_factory=list)


class Producer:
    """Made of the pure parts alone; each method is one step, and does nothing where it is not due."""

    def __init__(self, source: SmallPostgres) -> None:
        self.source, self.consumer = source, Consumer()
        self.progress = source.wal_end, TableState.appeared(RELATION_ID, source.wal_end, "added")
        self.voids: list[Void] = []
        self.followed_rows = self.copies = 0
        self.session = self._begin_session()

    def _begin_session(self) -> Session:
        done, table = self.progress
        return Session(done, table, ReceivedTransactions(self.source.assigned_xid()))

    def kill(self) -> None:
        self.session = self._begin_session()

    def look(self) -> None:
        self.session.transactions.look(Snapshot.parse(self.source.snapshot()))

    def receive(self) -> None:
        """The next transaction of the stream, or how far it is."""
        session = self.session
        behind = next((each for each in self.source.wal if each.end_lsn > session.received), None)
        if behind is None:
            session.received = self.source.wal_end
            return
        xid = behind.xid & 0xFFFFFFFF
        session.transactions.receive(xid)
        for ordinal, change in enumerate(behind.changes):
            event = event_of(change, Position(behind.commit_lsn, ordinal))
            if session.aside is not None:
                if isinstance(change, Truncate):
                    session.aside.spoil(Void.TRUNCATED)
                session.aside.receive(xid, event)
            elif session.table.state == states.CURRENT:
                session.unsent.append(event)
        session.received = behind.end_lsn

    def commit(self) -> None:
        """One Kafka transaction: events and progress."""
        session = self.session
        for event in session.unsent:
            self.consumer.apply(event)
        session.unsent = []
        self.progress = session.received, session.table
        if session.table.state == states.CURRENT:
            truth = Counter(shown(*each) for each in self.source.at(session.received).items())
            assert +self.consumer.rows == truth, "a published table differs from the source"

    def go_on(self) -> None:
        """The step of the copy that is due; a table that is current is copied again."""
        session = self.session
        if session.aside is None:
            self._begin()
        elif session.aside.void is not None:
            self._let_go(session.aside)
        elif session.read is None:
            self._read()
        elif not session.shown:
            session.shown = True
            session.aside.show(session.read[0])
        elif not session.aside.is_read:
            self._enter_rows(session.aside)
        elif session.aside.is_drained(session.received):
            self._end()
        else:
            self._enter_change(session.aside)

    def _begin(self) -> None:
        session = self.session
        self.commit()
        # One that a session before has begun begins anew: nothing of it is known any more.
        table = TableState.appeared(RELATION_ID, session.received, "")
        session.table = table.begin_copy(session.received, in_one_piece=True)
        session.unsent.append(Event(Position(session.received, COPIED_ORDINAL), "begin"))
        session.aside, session.read, session.shown = SetAside(session.transactions.before(), Changes()), None, False
        self.commit()

    def _let_go(self, aside: SetAside[Event]) -> None:
        assert aside.void is not None
        self.voids.append(aside.void)
        self.session.aside = None

    def _read(self) -> None:
        rows = [shown(*each) for each in self.source.visible.items()]
        self.session.read = Snapshot.parse(self.source.snapshot()), self.source.wal_end
        self.session.unread = rows

    def _enter_rows(self, aside: SetAside[Event]) -> None:
        session = self.session
        assert session.table.copy is not None
        assert session.read is not None
        at = Position(session.table.copy.begun_lsn, COPIED_ORDINAL)
        some, session.unread = session.unread[:2], session.unread[2:]
        session.unsent += [Event(at, "r", new=row) for row in some]
        session.table = session.table.enter(Chunk(len(some), 0, ()))
        if not session.unread:
            aside.finish_reading(session.read[1])
        self.commit()

    def _enter_change(self, aside: SetAside[Event]) -> None:
        event = aside.take()
        if event is not None:
            self.session.unsent.append(event)
            self.followed_rows += 1
        self.commit()

    def _end(self) -> None:
        session = self.session
        session.table = session.table.enter(Chunk(0, 0, (), is_last=True)).end_copy(session.received)
        session.unsent.append(Event(Position(session.received, COPIED_ORDINAL), "end"))
        session.aside = None
        self.copies += 1
        self.commit()


class Run:
    """A source and its producer."""

    def __init__(self) -> None:
        self.source = SmallPostgres(has_full_identity=True)
        self.producer = Producer(self.source)

    def statement(self, which: int, kind: int, key: int) -> None:
        running = self.source.running
        at = self.source.begin() if which >= len(running) and len(running) < 4 else running[which % len(running)]
        match kind:
            case 0 | 1 | 2:
                self.source.insert(at, key)
            case 3 | 4 | 5:
                self.source.update(at, key, key, writes_big=True)
            case 6 | 7:
                self.source.delete(at, key)
            case _:
                self.source.truncate(at)

    def commit_logged(self, which: int) -> None:
        if running := self.source.running:
            self.source.log_commit(running[which % len(running)])

    def end_transaction(self, which: int) -> None:
        if running := self.source.running:
            self.source.end(running[which % len(running)])

    def write(self, kind: int, key: int) -> None:
        at = self.source.begin()
        self.statement(len(self.source.running) - 1, kind, key)
        self.source.log_commit(at)
        self.source.end(at)

    def finish(self) -> None:
        while self.source.running:
            self.commit_logged(0)
            self.end_transaction(0)
        producer, copies = self.producer, self.producer.copies
        for _ in range(200):
            while producer.session.received < self.source.wal_end:
                producer.receive()
            producer.look()
            producer.go_on()
            if producer.copies > copies:
                break
        assert producer.copies > copies, "the copy does not come to its end"


class CopyInOnePiece(RuleBasedStateMachine):
    """Any order of statements, commits, steps of a copy, and kills."""

    @initialize()
    def begin(self) -> None:
        self.run = Run()

    @rule(which=st.integers(0, 3), kind=st.sampled_from((*range(8), *range(8), 8)), key=st.sampled_from(KEYS))
    def statement(self, which: int, kind: int, key: int) -> None:
        self.run.statement(which, kind, key)

    @rule(kind=st.integers(0, 7), key=st.sampled_from(KEYS))
    def write(self, kind: int, key: int) -> None:
        self.run.write(kind, key)

    @rule(which=st.integers(0, 3))
    def log_commit(self, which: int) -> None:
        self.run.commit_logged(which)

    @rule(which=st.integers(0, 3))
    def end_transaction(self, which: int) -> None:
        self.run.end_transaction(which)

    @rule(step=st.sampled_from(("receive", "receive", "go_on", "go_on", "go_on", "look", "commit", "kill")))
    def step(self, step: str) -> None:
        getattr(self.run.producer, step)()

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.run.finish()


TestCopyInOnePiece = CopyInOnePiece.TestCase
TestCopyInOnePiece.settings = settings(max_examples=examples(100), stateful_step_count=60, deadline=None)


def run_seed(seed: int, steps: int = 150) -> Run:
    draw, run = random.Random(seed), Run()
    for _ in range(2):
        for _ in range(steps):
            dice, which, key = draw.random(), draw.randrange(4), draw.choice(KEYS)
            kind = 8 if draw.random() < 0.01 else draw.randrange(8)
            if dice < 0.15:
                run.statement(which, kind, key)
            elif dice < 0.25:
                run.commit_logged(which)
            elif dice < 0.33:
                run.end_transaction(which)
            elif dice < 0.48:
                run.write(kind, key)
            else:
                steps_of = ("receive", "receive", "go_on", "go_on", "go_on", "go_on", "look", "commit")
                getattr(run.producer, "kill" if draw.random() < 0.02 else draw.choice(steps_of))()
        run.finish()
    return run


def test_table_without_a_key_equals_the_source_at_every_cut() -> None:
    """And the runs come to what they are made for."""
    runs = [run_seed(seed) for seed in range(200)]

    voids = {why for run in runs for why in run.producer.voids}
    assert voids == {Void.IN_PROGRESS, Void.NOT_VISIBLE, Void.TRUNCATED}
    assert sum(run.producer.followed_rows for run in runs) > 500
    assert sum(run.producer.copies for run in runs) > 500


@pytest.mark.simulation
@pytest.mark.parametrize("seeds", [range(200, 1_000), in_soak(range(1_000, 10_000))], ids=repr)
def test_table_without_a_key_equals_the_source_at_every_cut_of_many_runs(seeds: range) -> None:
    for seed in seeds:
        run_seed(seed)
