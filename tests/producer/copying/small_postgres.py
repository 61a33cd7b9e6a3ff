"""A Postgres of one table and a few keys, in which a commit is in the WAL before it is visible.

In: statements of several transactions, in any order that row locks allow. Out: the WAL with its
changes as pgoutput tells them, snapshots as text, rows as a snapshot sees them, and the truth: the
table at any LSN. No server: it is the model that the copies are held against.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tests.producer.pgoutput.encoder import tuple_data
from walbridge.producer.pgoutput.messages import Change, Delete, Field, Insert, Truncate, Unsent, Update
from walbridge.schemas.position import Lsn

RELATION_ID = 16_384
KEYS = range(1, 7)
FIRST_XID = (5 << 32) - 6
"""Soon after the start xids begin again at 3, in the next epoch."""

Row = tuple[int, int]
"""A small value, and a large one that is stored out of line."""
NULL, UNCHANGED = Unsent.NULL, Unsent.UNCHANGED_TOAST


@dataclass
class Transaction:
    """It runs until it is visible; ``is_logged`` once its commit is in the WAL."""

    xid: int
    rows: dict[int, Row | None] = field(default_factory=dict)
    has_truncated: bool = False
    changes: list[Change] = field(default_factory=list)
    is_logged: bool = False

    def locks(self, key: int) -> bool:
        return self.has_truncated or key in self.rows


@dataclass(frozen=True)
class Committed:
    """What the stream sends of a transaction."""

    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    changes: list[Change]


def data(key: int, small: int | Unsent, big: int | Unsent) -> bytes:
    """TupleData of a row."""
    return tuple_data(str(key).encode(), _field(small), _field(big))


def _field(value: int | Unsent) -> Field:
    return value if isinstance(value, Unsent) else str(value).encode()


class SmallPostgres:
    """``has_full_identity``: old rows come whole, else only their keys."""

    def __init__(self, *, has_full_identity: bool = False) -> None:
        self.has_full_identity = has_full_identity
        self.visible: dict[int, Row] = {key: (key, -key) for key in KEYS if key % 2}
        self.running: list[Transaction] = []
        self.wal: list[Committed] = []
        self.wal_end = Lsn(1_000)
        self._truth: list[tuple[Lsn, dict[int, Row]]] = [(Lsn(0), dict(self.visible))]
        self._next_xid, self._newest_ended = FIRST_XID, FIRST_XID - 1
        self._values = 0

    # Statements. Each does nothing where Postgres would let it wait.

    def begin(self) -> Transaction:
        """A transaction with its xid."""
        if self._next_xid & 0xFFFFFFFF < 3:
            self._next_xid += 3
        transaction = Transaction(self._next_xid)
        self._next_xid += 1
        self.running.append(transaction)
        return transaction

    def insert(self, at: Transaction, key: int) -> None:
        if self._may_write(at, key) and self._row(at, key) is None:
            row = at.rows[key] = (self._value(), self._value())
            at.changes.append(Insert(RELATION_ID, data(key, *row)))

    def update(self, at: Transaction, key: int, to: int, *, writes_big: bool) -> None:
        """Of the small value, of the large one too if told so, and of the key if it is another."""
        old = self._row(at, key)
        if old is None or not self._may_write(at, key, to) or (to != key and self._row(at, to) is not None):
            return
        new = self._value(), self._value() if writes_big else old[1]
        at.rows[key] = None
        at.rows[to] = new
        key_tuple = None if self.has_full_identity or key == to else data(key, NULL, NULL)
        old_tuple = data(key, *old) if self.has_full_identity else None
        sent = data(to, new[0], new[1] if writes_big else UNCHANGED)
        at.changes.append(Update(RELATION_ID, key_tuple, old_tuple, sent))

    def delete(self, at: Transaction, key: int) -> None:
        old = self._row(at, key)
        if old is not None and self._may_write(at, key):
            at.rows[key] = None
            whole = data(key, *old)
            at.changes.append(
                Delete(RELATION_ID, None, whole)
                if self.has_full_identity
                else Delete(RELATION_ID, data(key, NULL, NULL), None)
            )

    def truncate(self, at: Transaction) -> None:
        others = [each for each in self.running if each is not at and (each.rows or each.has_truncated)]
        if not at.is_logged and not others:
            at.rows, at.has_truncated = {}, True
            at.changes.append(Truncate(cascade=False, restart_identity=False, relation_ids=(RELATION_ID,)))

    def log_commit(self, at: Transaction) -> None:
        """The commit is in the WAL: it will be received, and counts, but nobody sees it yet."""
        if at.is_logged:
            return
        at.is_logged = True
        self.write_wal()
        commit_lsn = self.wal_end
        self.wal_end = Lsn(commit_lsn + 8)
        self.wal.append(Committed(at.xid, commit_lsn, self.wal_end, at.changes))
        self._truth.append((self.wal_end, self._with(self._truth[-1][1], at)))

    def write_wal(self) -> None:
        """Something that the stream sends nothing of."""
        self.wal_end = Lsn(self.wal_end + 8)

    def end(self, at: Transaction) -> None:
        """What is committed becomes visible; what is not, is rolled back."""
        self.running.remove(at)
        self._newest_ended = max(self._newest_ended, at.xid)
        if at.is_logged:
            self.visible = self._with(self.visible, at)

    # What a reader asks.

    def snapshot(self) -> str:
        """As ``pg_current_snapshot()`` prints it: nothing above the newest xid that has ended is in its list."""
        xmax = self._newest_ended + 1
        running = sorted(each.xid for each in self.running if each.xid < xmax)
        return f"{running[0] if running else xmax}:{xmax}:{','.join(map(str, running))}"

    def assigned_xid(self) -> int:
        """``pg_current_xact_id()``, of a transaction that ends at once."""
        transaction = self.begin()
        self.end(transaction)
        return transaction.xid

    def rows_behind(self, bound: int, limit: int) -> list[tuple[int, Row]]:
        """The next rows of the visible ones, in key order."""
        return sorted((key, row) for key, row in self.visible.items() if key > bound)[:limit]

    def rows_of(self, keys: Iterable[int]) -> list[tuple[int, Row]]:
        return [(key, self.visible[key]) for key in keys if key in self.visible]

    def at(self, lsn: Lsn) -> dict[int, Row]:
        """The table at the end of the last transaction at or below an LSN."""
        return next(rows for end_lsn, rows in reversed(self._truth) if end_lsn <= lsn)

    def _row(self, at: Transaction, key: int) -> Row | None:
        if key in at.rows or at.has_truncated:
            return at.rows.get(key)
        return self.visible.get(key)

    def _may_write(self, at: Transaction, *keys: int) -> bool:
        others = [each for each in self.running if each is not at]
        return not at.is_logged and not any(each.locks(key) for each in others for key in keys)

    def _value(self) -> int:
        self._values += 1
        return 100 + self._values

    @staticmethod
    def _with(rows: dict[int, Row], transaction: Transaction) -> dict[int, Row]:
        kept: Collection[int] = () if transaction.has_truncated else rows.keys() - transaction.rows.keys()
        written = {key: row for key, row in transaction.rows.items() if row is not None}
        return {key: rows[key] for key in kept} | written
