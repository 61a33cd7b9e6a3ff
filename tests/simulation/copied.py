"""A table that comes while the stream runs: what the source does with it, and who reads its rows for a copy.

In: dice. Out: a history in which every change finds the rows that it needs; snapshots in which a commit that is in the
WAL already may be missing, as while it waits for a standby; the table at any LSN. Stands for ``CopyReader``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from tests.producer.copy_lines import line_of
from tests.simulation.history import CHANGES, CONSISTENT_POINT, COPIED, INT4, TABLES, TEXT, Transaction, Writer
from tests.simulation.postgres import Server
from tests.simulation.world import World
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.encoding.copied_rows import CopiedBlock, EncodedRow, RowFormat
from walbridge.producer.encoding.transcoder import LineEncoder, make_line_encoder
from walbridge.producer.postgres.copy_beside.copy_protocol import (
    Answer,
    ChunkAltered,
    ChunkRead,
    ChunkShown,
    ChunkWanted,
    Failed,
    TableFound,
    TablesFound,
    TablesWanted,
    TableWanted,
    Wanted,
)
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.producer.postgres.publications.combined_publications import EVERY_TABLE
from walbridge.producer.postgres.table_reads.key_order import Bound
from walbridge.producer.postgres.table_reads.row_spool import RowSpool
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.position import Lsn

KEYS = range(1, 9)
XIDS_APART = 1_000
"""Between two transactions: some are taken for nothing else than their number."""
FACTS = TableFacts(
    "d",
    (
        ColumnFacts("id", INT4, -1, 1, False, True, True, None),
        ColumnFacts("note", TEXT, -1, 2, True, False, False, None),
    ),
    2,
    "public",
    "copied",
)
PUBLISHED = PublishedTable(COPIED, "public", "copied", "d", ("id", "note"), None, False)
Rows = dict[int, str]


@dataclass
class Effect:
    """What a transaction leaves of the table: rows by key, None where one is gone."""

    rows: dict[int, str | None] = field(default_factory=dict)
    has_truncated: bool = False

    def on(self, rows: Rows) -> Rows:
        kept = {} if self.has_truncated else {key: note for key, note in rows.items() if key not in self.rows}
        return kept | {key: note for key, note in self.rows.items() if note is not None}

    def conflicts(self, other: "Effect") -> bool:
        """Whether one of them waits until the other has ended."""
        is_any = (self.has_truncated and (other.rows or other.has_truncated)) or (other.has_truncated and self.rows)
        return bool(is_any or self.rows.keys() & other.rows.keys())


class CopiedSource:
    """The table in one run."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self.first: Rows = {key: f"first {key}" for key in KEYS if random.random() < 0.6}
        self.effects: list[Effect] = []
        self.history = self._history(random)
        self.chunk_rows = random.choice((1, 2, 3))
        self.lag_share = random.choice((0.0, 0.3, 0.7))
        """How often a commit is not visible at once."""
        self.answer_share = random.choice((0.6, 0.2))
        self.busy_share = random.choice((0.1, 0.5, 1.0))
        """How often the application commits while rows are read."""
        self.fail_share = random.choice((0.0, 0.05))
        self.listed_bytes = random.choice(((30, 70), (2**15, 2**18)))
        """Of keys that moved: from where on they are read first, and how many progress holds."""
        self.burst = random.choice((1, 2, 6))
        """How often the application may commit then: a chunk waits until the stream has brought all of it."""
        self.server: Server
        self._shown: set[int] = set()
        """Transactions that snapshots contain, by number."""
        self._committed = 0
        self._newest_ended = XIDS_APART - 1
        self._xids_taken = 0
        self._encoders: dict[str, LineEncoder] = {}

    def encoder_of(self, row_format: RowFormat) -> LineEncoder:
        schema_id = row_format.record.schema_id
        if schema_id not in self._encoders:
            self._encoders[schema_id] = make_line_encoder(row_format.record)
        return self._encoders[schema_id]

    # What was committed.

    def _history(self, random: Random) -> list[Transaction]:
        history: list[Transaction] = []
        rows, lsn, count = dict(self.first), int(CONSISTENT_POINT), random.randint(4, 20)
        order = sorted(range(count), key=lambda n: n + random.choice((0, 0, 0, 1.5, 2.5)))
        habits = random.choice((_HABITS, _MOVES, _HABITS[:-1]))
        for n in range(count):
            writer = Writer(XIDS_APART * (1 + order.index(n)), max(lsn - random.choice((0, 0, 60)), CONSISTENT_POINT))
            effect = Effect()
            for _ in range(random.choice((0, 1, 1, 2, 3, 5))):
                if random.random() < 0.3:
                    random.choice(CHANGES)(writer, random, random.choice(list(TABLES)))
                else:
                    random.choice(habits)(writer, random, effect, rows)
                    rows = effect.on(rows)
            history.append(writer.commit(lsn + random.choice((0, 0, 24)), random.choice((32, 48))))
            self.effects.append(effect)
            lsn = history[-1].end_lsn + random.choice((0, 0, 8, 128))
        return history

    def at(self, lsn: int) -> Rows:
        """The table at the end of the last transaction at or below an LSN."""
        rows = self.first
        for transaction, effect in zip(self.history, self.effects, strict=True):
            if transaction.end_lsn <= lsn:
                rows = effect.on(rows)
        return rows

    # What may be asked.

    def look(self) -> None:
        """Commits become visible, or not yet; never one before another that it waited for."""
        while self._committed < self.server.visible:
            n = self._committed
            for before in range(n):
                if self.effects[before].conflicts(self.effects[n]):
                    self._show(before)
            if not self._world.chance(self.lag_share):
                self._show(n)
            self._committed += 1
        for n in range(self._committed):
            if n not in self._shown and self._world.chance(0.3):
                self._show(n)

    def _show(self, n: int) -> None:
        self._shown.add(n)
        self._newest_ended = max(self._newest_ended, self.history[n].xid)

    def next_xid(self) -> int:
        """Of a transaction that ends at once."""
        self._world.step("next xid")
        self.look()
        committed = [each.xid for each in self.history[: self._committed]]
        self._xids_taken += 1
        xid = max(committed, default=0) // XIDS_APART * XIDS_APART + 1 + self._xids_taken
        self._newest_ended = max(self._newest_ended, xid)
        return xid

    def snapshot(self) -> Snapshot:
        xmax = self._newest_ended + 1
        running = [each.xid for n, each in enumerate(self.history) if n not in self._shown and each.xid < xmax]
        return Snapshot(min(running, default=xmax), xmax, frozenset(running))

    def visible(self) -> Rows:
        rows = self.first
        for n in sorted(self._shown):
            rows = self.effects[n].on(rows)
        return rows

    @property
    def shape(self) -> str:
        """A TRUNCATE gives the table another file."""
        return f"file {sum(self.effects[n].has_truncated for n in self._shown)}"

    @property
    def is_locked(self) -> bool:
        """Somebody who has emptied it has not ended yet."""
        return any(self.effects[n].has_truncated for n in range(self._committed) if n not in self._shown)

    def members(self, there: object) -> set[int]:
        assert isinstance(there, list)
        return {COPIED} - set(there)


class Reader:
    """Stands for ``CopyReader`` in one session."""

    def __init__(self, source: CopiedSource, world: World) -> None:
        self._source, self._world = source, world
        self._answers: Iterator[Answer] | None = None
        self._reads_rows = False

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cancel()

    def ask(self, wanted: Wanted) -> None:
        self._answers = self._answered(wanted)
        self._reads_rows = isinstance(wanted, ChunkWanted)

    def cancel(self) -> None:
        self._answers = None

    def answer(self) -> Answer | None:
        if self._answers is None:
            return None
        if self._reads_rows and self._world.chance(self._source.busy_share):
            for _ in range(self._source.burst):
                self._source.server.work()
        if not self._world.chance(self._source.answer_share):
            return None
        self._world.step("copy reader")
        answer = next(self._answers, None)
        if self._world.trace is not None:
            self._world.note(f"copy reader: {answer}")
        return answer

    def _answered(self, wanted: Wanted) -> Iterator[Answer]:
        source = self._source
        source.look()
        lsn = Lsn(source.server.wal_end)
        if self._world.chance(source.fail_share) or (source.is_locked and not isinstance(wanted, TablesWanted)):
            yield Failed(RetryableError("simulated"))
            return
        match wanted:
            case TablesWanted():
                yield TablesFound((PUBLISHED,))
            case TableWanted():
                yield TableFound(PUBLISHED, FACTS, {}, source.shape, ("id",), lsn, membership=EVERY_TABLE)
            case ChunkWanted():
                yield from self._chunk(wanted, lsn)

    def _chunk(self, wanted: ChunkWanted, lsn: Lsn) -> Iterator[Answer]:
        source = self._source
        if wanted.shape != source.shape:
            yield ChunkAltered()
            return
        snapshot, rows = source.snapshot(), source.visible()
        is_read = wanted.before.has_ended_in(snapshot) and wanted.before.is_contained_in(snapshot)
        yield ChunkShown(snapshot, is_read)
        if not is_read:
            return
        if self._world.chance(source.fail_share):
            yield Failed(RetryableError("simulated"))
            return
        if wanted.asked is not None:
            asked = [int(each.values[0]) for each in wanted.asked]
            yield self._read(wanted, [(key, rows[key]) for key in asked if key in rows], lsn, None, is_last=False)
            return
        after = int(wanted.after.values[0]) if wanted.after else 0
        found = sorted((key, note) for key, note in rows.items() if key > after)[: source.chunk_rows]
        bound = Bound((str(found[-1][0]),)) if found else wanted.after
        yield self._read(wanted, found, lsn, bound, is_last=len(found) < source.chunk_rows)

    def _read(
        self, wanted: ChunkWanted, rows: list[tuple[int, str]], lsn: Lsn, bound: Bound | None, *, is_last: bool
    ) -> ChunkRead:
        """Some chunks are encoded by the reader, of others all rows are left to the writer."""
        lines, row_format = [line_of(str(key).encode(), note.encode()) for key, note in rows], wanted.row_format
        encoded: list[EncodedRow | None] = [None] * len(lines)
        if self._world.chance(0.7):
            encoder = self._source.encoder_of(row_format)
            encoded = [encoder(line, row_format.part) for line in lines]
        block = CopiedBlock(encoded, lines)
        spool = cast(RowSpool, SimpleNamespace(blocks=lambda: iter([block]), close=lambda: None))
        return ChunkRead(spool, lsn, len(rows), sum(map(len, lines)), bound, is_last)


# What the application does. Every change finds what it needs, or is left.


def _insert(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    if free := [key for key in KEYS if key not in rows]:
        key, note = random.choice(free), f"new {random.random()}"
        writer.insert(COPIED, key, note)
        effect.rows[key] = note


def _update(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    if rows:
        key, note = random.choice(list(rows)), f"other {random.random()}"
        writer.update(COPIED, key, note, "")
        effect.rows[key] = note


def _touch(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    if rows:
        key = random.choice(list(rows))
        writer.update_toast(COPIED, key)
        effect.rows[key] = rows[key]


def _move(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    free = [key for key in KEYS if key not in rows]
    if rows and free:
        old, new = random.choice(list(rows)), random.choice(free)
        if random.random() < 0.7:
            writer.move_toast(COPIED, old, new)
            note = rows[old]
        else:
            note = f"moved {random.random()}"
            writer.move(COPIED, old, new, note)
        effect.rows |= {old: None, new: note}


def _delete(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    if rows:
        key = random.choice(list(rows))
        writer.delete(COPIED, key, "")
        effect.rows[key] = None


def _truncate(writer: Writer, random: Random, effect: Effect, rows: Rows) -> None:
    if random.random() < 0.5:
        writer.truncate([COPIED])
        effect.has_truncated = True
        effect.rows.clear()


_HABITS = (_insert, _insert, _update, _touch, _move, _move, _move, _delete, _truncate)
_MOVES = (_move, _move, _move, _delete, _insert)
