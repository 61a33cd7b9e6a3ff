"""The changes of one table while a chunk of its rows is read, laid over the rows.

In: the table's changes in the order of their commits, from a moment before the chunk's snapshot was
taken up to E, the end of a transaction of the stream at which the chunk enters its topic; and the
rows that were read. Out: the rows that were read as they were at E, and the keys whose rows have to
be read again; or why the chunk is void.

OPEN --show--> READING --finish_reading--> READ --rows_at_end--> done; each may become VOID.

Why the rows are those of E: the snapshot S sees every transaction that was received before the
window opened (else it is void), and of those received in it exactly what ``Snapshot.contains`` says.
The others were committed after S, and are laid over the rows here, in the order of their commits.
Two transactions that change one row wait for each other until the first is visible: S never lacks
the first and contains the second. What S contains was in the WAL before the insert position that
was asked for after S, and the window is read once the stream has been received up to there.

No two keys are compared for their order. A key that was touched in the window and is not among the
rows read is outside of the range, where another chunk reads it, or it came after S, and then the
topic holds its row from the stream. The topic lacks it in one case: its row came from another key
with unchanged TOAST values. Such a key gets its row here if the other key's row was read, and else
has to be read again.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from walbridge.producer.copying.row_keys import KeyNotSent, RowKeys, Step
from walbridge.producer.copying.visibility import Before, Snapshot
from walbridge.producer.pgoutput.messages import Change, Truncate
from walbridge.producer.pgoutput.tuple_data import fill
from walbridge.schemas.position import Lsn

WINDOW_BYTES_MAX = 32 * 2**20
_VOID_BYTES = 100


class Void(StrEnum):
    """Why a chunk is read again."""

    IN_PROGRESS = "a transaction that was open when the copy began or went on is still open"
    NOT_VISIBLE = "a commit that was received is not visible yet: it may wait for a synchronous standby"
    TRUNCATED = "the table was truncated meanwhile"
    ALTERED = "the table has another shape now"
    LEFT = "the table was dropped or left the publication"
    TOO_LARGE = "the table changed by more than a window may hold"
    READ_ANEW = "more of its rows changed their keys than can be listed"
    KEY_NOT_SENT = "a change came without the value of its key"


class Window:
    """One chunk's window; it opens when it is made, before the chunk's snapshot is taken.

    Args:
        before: what was received until now (``ReceivedTransactions.before``).
    """

    def __init__(self, keys: RowKeys, before: Before, bytes_max: int = WINDOW_BYTES_MAX) -> None:
        self.void: Void | None = None
        self.read_again: dict[bytes, bytes] = {}
        """After the rows: keys whose rows neither they nor the topic hold, with their key tuples."""
        self.moved: set[bytes] = set()
        """After the rows: keys among them whose rows came with unknown values from another key."""
        self.touched: set[bytes] = set()
        """After the rows: keys that the window changes. A listed key neither among them nor read is not there at E."""
        self._keys = keys
        self.before = before
        self._bytes_max = bytes_max
        self._snapshot: Snapshot | None = None
        self._read_until: Lsn | None = None
        self._waiting: list[tuple[int, Step | Void]] = []
        """Until the snapshot is known: a TRUNCATE that it contains spoils nothing."""
        self._steps: list[Step] = []
        self._size_bytes = 0

    def receive(self, xid: int, change: Change) -> None:
        """A change of the table, of a committed transaction with this top-level xid of 32 bits."""
        if self.void is not None or (self._snapshot is not None and self._snapshot.contains_received(xid)):
            return
        step = self._step(change)
        self._size_bytes += _VOID_BYTES if isinstance(step, Void) else step.size_bytes
        if self._size_bytes > self._bytes_max:
            self.spoil(Void.TOO_LARGE)
        elif self._snapshot is None:
            self._waiting.append((xid, step))
        else:
            self._hold(step)

    def show(self, snapshot: Snapshot) -> None:
        """The snapshot with which the rows are read: what it contains is let go."""
        self._snapshot = snapshot
        if not self.before.has_ended_in(snapshot):
            self.spoil(Void.IN_PROGRESS)
        elif not self.before.is_contained_in(snapshot):
            self.spoil(Void.NOT_VISIBLE)
        for xid, step in self._waiting:
            if not snapshot.contains_received(xid):
                self._hold(step)
        self._waiting = []
        self._size_bytes = sum(step.size_bytes for step in self._steps)

    @property
    def waits_for(self) -> int | None:
        """The xid, of 32 bits, of a transaction that the snapshot should contain and does not."""
        return None if self._snapshot is None else self.before.missing_from(self._snapshot)

    def finish_reading(self, insert_lsn: Lsn) -> None:
        """All rows are read; ``insert_lsn`` is the WAL insert position, asked for after the snapshot was taken."""
        self._read_until = insert_lsn

    def is_read(self, received: Lsn) -> bool:
        """Whether the chunk may enter at the LSN up to which the stream has been received, between transactions."""
        return self.void is None and self._read_until is not None and received >= self._read_until

    def spoil(self, why: Void) -> None:
        """The chunk is void. The first reason stays. Another shape is told before the first change that has it."""
        self.void = self.void or why
        self._waiting, self._steps = [], []

    def touched_keys(self) -> set[bytes]:
        """Those that the window changes: rows of all others are those that were read."""
        return {key for step in self._steps for key in (step.old, step.new) if key is not None}

    def rows_at_end(self, read: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Key and row, as of E, of each row that was read and is still there; the touched ones at the end.

        Only keys are looked at, and the rows of those that were touched.
        """
        assert self.void is None
        assert self._read_until is not None
        self.touched = self.touched_keys()
        rows: dict[bytes, bytes] = {}
        for key, row in read:
            if key in self.touched:
                rows[key] = row
            else:
                yield key, row
        laid_over = _LaidOver(rows)
        for step in self._steps:
            laid_over.take(step)
        self.read_again = {key: self._keys.key_tuple(row) for key, row in laid_over.unknown.items()}
        self.moved = laid_over.moved & laid_over.missing
        yield from ((key, laid_over.rows[key]) for key in laid_over.missing)

    def _step(self, change: Change) -> Step | Void:
        if isinstance(change, Truncate):
            return Void.TRUNCATED
        try:
            return self._keys.step(change)
        except KeyNotSent:
            return Void.KEY_NOT_SENT

    def _hold(self, step: Step | Void) -> None:
        if isinstance(step, Void):
            self.spoil(step)
        elif self.void is None:
            self._steps.append(step)


class _LaidOver:
    """The rows of touched keys. Each step makes of them what Postgres made."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.rows = rows
        """By key, whole ones only."""
        self.missing = set(rows)
        """Keys of those whose whole rows the topic does not hold."""
        self.moved: set[bytes] = set()
        """Keys of rows that came from another key, and whose values were filled in from the row that was read there."""
        self.unknown: dict[bytes, bytes] = {}
        """By key, rows that came to it with values that nobody here has."""

    def take(self, step: Step) -> None:
        """What one change makes of them: its row leaves the old key, and comes to the new one, if there is one."""
        was_missing, was_moved = step.old in self.missing, step.old in self.moved
        base, was_unknown = self._remove(step.old)
        if step.new is None or step.row is None:
            return
        if step.is_whole:
            # The topic has it from the stream; a key that was read stays among the rows all the same.
            self._put(step.new, step.row, is_missing=was_missing and step.old == step.new)
        elif base is not None:
            # The change left values out that the row of its old key has, and that row was read: it is whole from here
            # on. Under another key it is missing in the topic, where the stream brought it without those values.
            moves = step.new != step.old
            self._put(step.new, fill(step.row, base, None), is_missing=was_missing or moves)
            if moves or was_moved:
                self.moved.add(step.new)
        elif step.new != step.old or was_unknown:
            # Neither the change nor a row that was read has these values. A row that stays under its key is no trouble:
            # the topic holds it from the stream, or another chunk reads it.
            self.unknown[step.new] = step.row

    def _remove(self, key: bytes | None) -> tuple[bytes | None, bool]:
        """The whole row that was under the key, if there is one; and whether one with values that nobody has was."""
        if key is None:
            return None, False
        self.missing.discard(key)
        self.moved.discard(key)
        was_unknown = self.unknown.pop(key, None) is not None
        return self.rows.pop(key, None), was_unknown

    def _put(self, key: bytes, row: bytes, *, is_missing: bool) -> None:
        """A whole row is under the key now."""
        self.rows[key] = row
        self.unknown.pop(key, None)
        if is_missing:
            self.missing.add(key)
