"""A walsender in miniature that streams, prepares and announces as pgoutput does.

In: steps, drawn at random. Out: the payloads of one session, and beside them what they say was
committed: transactions in order, each change with the columns that its table had when it was made.
Written from the notes on the server, not from the producer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.producer.pgoutput.encoder import encode_message, encode_streamed, tuple_data
from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Insert,
    Message,
    Prepare,
    Relation,
    RelationColumn,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from walbridge.schemas.position import Lsn

TABLES = (1, 2)
Change = tuple[int, int, bytes]
"""Table, number of its columns, the value in the first."""


@dataclass
class Open:
    """A transaction that is streamed: its subtransactions, each with its parent, and its changes."""

    xid: int
    changes: list[tuple[int, Change]] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    nested: list[int] = field(default_factory=list)
    announced: set[int] = field(default_factory=set)
    has_block: bool = False

    @property
    def current(self) -> int:
        return self.nested[-1] if self.nested else self.xid


@dataclass
class Server:
    """One session."""

    payloads: list[bytes] = field(default_factory=list)
    committed: list[tuple[int, list[Change]]] = field(default_factory=list)
    prepared: dict[int, tuple[list[Change], Lsn]] = field(default_factory=dict)
    streams: dict[int, Open] = field(default_factory=dict)
    _columns: int = 1
    _announced: set[int] = field(default_factory=set)
    _lsn: int = 1000
    _next_xid: int = 10
    _next_value: int = 0

    # -- steps -------------------------------------------------------------------------------

    def transaction(self, tables: list[int]) -> None:
        """An ordinary one."""
        xid, lsn = self._xid(), self._advance()
        self._send(Begin(lsn, 0, xid))
        changes = [self._plain(table) for table in tables]
        self._send(Commit(lsn, Lsn(lsn + 8), 0))
        self.committed.append((xid, changes))

    def begin(self) -> None:
        """One that will be streamed."""
        xid = self._xid()
        self.streams[xid] = Open(xid)

    def block(self, place: int, tables: list[int]) -> None:
        """Some of its changes; none is a block too."""
        one = self._pick(place)
        if one is None:
            return
        self._send(StreamStart(one.xid, not one.has_block))
        one.has_block = True
        for table in tables:
            if table not in one.announced:
                one.announced.add(table)
                self.payloads.append(encode_streamed(one.current, self._relation(table)))
            change = self._change(table)
            one.changes.append((one.current, change))
            self.payloads.append(encode_streamed(one.current, Insert(table, self._tuple(change))))
        self._send(StreamStop())

    def savepoint(self, place: int) -> None:
        one = self._pick(place)
        if one is not None:
            sub = self._xid()
            one.parents[sub] = one.current
            one.nested.append(sub)

    def release(self, place: int) -> None:
        """Its changes are its parent's from now on, under its own xid."""
        one = self._pick(place)
        if one is not None and one.nested:
            one.nested.pop()

    def roll_back_to(self, place: int) -> None:
        """Void, with all below it, released or not; the savepoint itself goes too."""
        one = self._pick(place)
        if one is None or not one.nested:
            return
        void = {one.nested.pop()}
        while more := {sub for sub, parent in one.parents.items() if parent in void} - void:
            void |= more
        for sub in sorted(void):
            if any(of == sub for of, _ in one.changes):
                self._send(StreamAbort(one.xid, sub))
                one.announced.clear()
        one.changes = [each for each in one.changes if each[0] not in void]

    def end(self, place: int, how: str) -> None:
        """commit, abort or prepare."""
        one = self._pick(place)
        if one is None:
            return
        del self.streams[one.xid]
        if not one.has_block:
            return
        lsn = self._advance()
        changes = [change for _, change in one.changes]
        if how == "commit":
            self._send(StreamCommit(one.xid, lsn, Lsn(lsn + 8), 0))
            self._announced |= one.announced
            self.committed.append((one.xid, changes))
        elif how == "prepare":
            self._send(StreamPrepare(lsn, Lsn(lsn + 8), 0, one.xid, "gid"))
            self.prepared[one.xid] = changes, lsn
        else:
            self._send(StreamAbort(one.xid, one.xid))

    def prepare(self, tables: list[int]) -> None:
        """One that is prepared without being streamed."""
        xid, lsn = self._xid(), self._advance()
        self._send(BeginPrepare(lsn, Lsn(lsn + 8), 0, xid, "gid"))
        changes = [self._plain(table) for table in tables]
        self._send(Prepare(lsn, Lsn(lsn + 8), 0, xid, "gid"))
        self.prepared[xid] = changes, lsn

    def end_prepared(self, place: int, how: str) -> None:
        if not self.prepared:
            return
        xid = sorted(self.prepared)[place % len(self.prepared)]
        changes, prepare_lsn = self.prepared.pop(xid)
        lsn = self._advance()
        if how == "commit":
            self._send(CommitPrepared(lsn, Lsn(lsn + 8), 0, xid, "gid"))
            self.committed.append((xid, changes))
        else:
            self._send(RollbackPrepared(Lsn(prepare_lsn + 8), Lsn(lsn + 8), 0, 0, xid, "gid"))

    def reshape(self) -> None:
        """Other columns are published from here on: every table is announced again."""
        self._columns = self._columns % 3 + 1
        self._announced.clear()
        for one in self.streams.values():
            one.announced.clear()

    # -- what it sends -----------------------------------------------------------------------

    def _plain(self, table: int) -> Change:
        if table not in self._announced:
            self._announced.add(table)
            self._send(self._relation(table))
        change = self._change(table)
        self._send(Insert(table, self._tuple(change)))
        return change

    def _change(self, table: int) -> Change:
        self._next_value += 1
        return table, self._columns, b"%d" % self._next_value

    def _tuple(self, change: Change) -> bytes:
        return tuple_data(*[change[2]] * self._columns)

    def _relation(self, table: int) -> Relation:
        columns = tuple(RelationColumn(n == 0, f"c{n}", 25, -1) for n in range(self._columns))
        return Relation(table, "public", f"t{table}", "d", columns)

    def _send(self, message: Message) -> None:
        self.payloads.append(encode_message(message))

    def _pick(self, place: int) -> Open | None:
        return self.streams[sorted(self.streams)[place % len(self.streams)]] if self.streams else None

    def _xid(self) -> int:
        self._next_xid += 1
        return self._next_xid

    def _advance(self) -> Lsn:
        self._lsn += 16
        return Lsn(self._lsn)
