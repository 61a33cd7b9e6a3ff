"""What the source committed: transactions as pgoutput sends them, and the events they must become.

Made from a seed, or by hand for a named case. The expected events are written from the contract
(position, operation, images), not from the producer. LSNs are laid out as Postgres does it: the
end of a commit record is often the first LSN of the next transaction, rows of one COPY share one,
and a Relation message carries 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tests.producer.pgoutput.encoder import encode_message, tuple_data
from walbridge.producer.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Unsent,
    Update,
)
from walbridge.schemas.position import Lsn

INT4, TEXT = 23, 25
CONSISTENT_POINT = Lsn(1_000)
"""The copy ended here; everything after it is streamed."""
KEYED, OTHER, KEYLESS = 16_384, 16_390, 16_396
TABLES = {KEYED: "keyed", OTHER: "other", KEYLESS: "keyless"}
COPIED = 16_402
"""A table that comes while the stream runs (``copied.py``)."""
NAMES = TABLES | {COPIED: "copied"}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One event that must be in its topic, once."""

    relation_id: int
    op: str
    commit_lsn: int
    ordinal: int
    before: Row | None
    after: Row | None
    unchanged: tuple[str, ...] = ()


class Piece(NamedTuple):
    """One message; the tables it speaks of must have been announced in that version."""

    lsn: int
    payload: bytes
    relation_ids: tuple[int, ...] = ()
    version: int = 1


@dataclass(slots=True)
class Transaction:
    """One committed transaction; ``messages`` as (WAL position, version of its tables, change)."""

    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    messages: list[tuple[int, int, Message]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    first_lsn: int = 0
    origin: str | None = None
    prepare_lsn: int | None = None
    """Of its PREPARE TRANSACTION, if there was one."""
    encoded: list["Piece"] | None = None


def relation(relation_id: int, version: int = 1) -> Relation:
    """A table's announcement. Version 2 has a column more."""
    full = relation_id == KEYLESS
    columns = [RelationColumn(True, "id", INT4, -1), RelationColumn(full, "note", TEXT, -1)]
    if version == 2:
        columns.append(RelationColumn(full, "extra", INT4, -1))
    return Relation(relation_id, "public", NAMES[relation_id], "f" if full else "d", tuple(columns))


class Writer:
    """Builds one transaction, change by change, and counts its positions."""

    def __init__(self, xid: int, first_lsn: int, version: int = 1) -> None:
        self.version = version
        """Of all tables, from the next change on."""
        self._lsn = first_lsn
        self._events: list[tuple[int, str, Row | None, Row | None, tuple[str, ...]]] = []
        self._messages: list[tuple[int, int, Message]] = []
        self.xid, self.first_lsn = xid, first_lsn

    def _expect(
        self, relation_id: int, op: str, before: Row | None, after: Row | None, unchanged: tuple[str, ...] = ()
    ) -> None:
        self._events.append((relation_id, op, before, after, unchanged))

    def _tuple(self, *fields: object) -> bytes:
        padded = [*fields, *([None] * (self.version - 1))]
        return tuple_data(
            *(
                each if isinstance(each, Unsent) else Unsent.NULL if each is None else str(each).encode()
                for each in padded
            )
        )

    def _row(self, id_: int, note: str | None) -> Row:
        return {"id": id_, "note": note} | ({"extra": None} if self.version == 2 else {})

    def _add(self, message: Message, *, shares_lsn: bool = False) -> None:
        self._messages.append((self._lsn, self.version, message))
        if not shares_lsn:
            self._lsn += 16

    def insert(self, relation_id: int, id_: int, note: str, *, shares_lsn: bool = False) -> None:
        """One row; ``shares_lsn``: the next one lies at the same LSN, as rows of a COPY do."""
        self._add(Insert(relation_id, self._tuple(id_, note)), shares_lsn=shares_lsn)
        self._expect(relation_id, "c", None, self._row(id_, note))

    def update(self, relation_id: int, id_: int, note: str, old_note: str) -> None:
        """The key stays. Only a table of identity FULL sends the old row."""
        new = self._tuple(id_, note)
        if relation_id == KEYLESS:
            self._add(Update(relation_id, None, self._tuple(id_, old_note), new))
            self._expect(relation_id, "u", self._row(id_, old_note), self._row(id_, note))
        else:
            self._add(Update(relation_id, None, None, new))
            self._expect(relation_id, "u", None, self._row(id_, note))

    def update_toast(self, relation_id: int, id_: int) -> None:
        """The note was not touched and lies out of line: it is not sent."""
        self._add(Update(relation_id, None, None, self._tuple(id_, Unsent.UNCHANGED_TOAST)))
        self._expect(relation_id, "u", None, self._row(id_, None), ("note",))

    def move(self, relation_id: int, old_id: int, new_id: int, note: str) -> None:
        """A key change: a delete of the old key and a create of the new, two positions."""
        before = self._row(old_id, None)
        self._add(Update(relation_id, self._tuple(old_id, None), None, self._tuple(new_id, note)))
        self._expect(relation_id, "d", before, None)
        self._expect(relation_id, "c", before, self._row(new_id, note))

    def move_toast(self, relation_id: int, old_id: int, new_id: int) -> None:
        """A key change of a row whose note was not touched and lies out of line."""
        before = self._row(old_id, None)
        self._add(Update(relation_id, self._tuple(old_id, None), None, self._tuple(new_id, Unsent.UNCHANGED_TOAST)))
        self._expect(relation_id, "d", before, None)
        self._expect(relation_id, "c", before, self._row(new_id, None), ("note",))

    def delete(self, relation_id: int, id_: int, note: str) -> None:
        """With the key, or the whole old row."""
        if relation_id == KEYLESS:
            self._add(Delete(relation_id, None, self._tuple(id_, note)))
            self._expect(relation_id, "d", self._row(id_, note), None)
        else:
            self._add(Delete(relation_id, self._tuple(id_, None), None))
            self._expect(relation_id, "d", self._row(id_, None), None)

    def truncate(self, relation_ids: Sequence[int]) -> None:
        """One position a table."""
        self._add(Truncate(False, False, tuple(relation_ids)))
        for relation_id in relation_ids:
            self._expect(relation_id, "t", None, None)

    def commit(self, not_before: int = 0, record_bytes: int = 48, origin: str | None = None) -> Transaction:
        """The whole transaction; its commit record lies behind its rows, and not before that LSN."""
        commit_lsn = Lsn(max(self._lsn, not_before))
        done = Transaction(self.xid, commit_lsn, Lsn(commit_lsn + record_bytes), self._messages)
        done.first_lsn, done.origin = self.first_lsn, origin
        done.events = [
            Event(relation_id, op, commit_lsn, ordinal, before, after, unchanged)
            for ordinal, (relation_id, op, before, after, unchanged) in enumerate(self._events)
        ]
        return done


def pieces_of(transaction: Transaction) -> list[Piece]:
    """Everything from Begin to Commit, encoded once."""
    if transaction.encoded is None:
        time_us = 1_700_000_000_000_000 + transaction.xid
        begin = Begin(transaction.commit_lsn, time_us, transaction.xid)
        pieces = [Piece(transaction.first_lsn, encode_message(begin))]
        if transaction.origin is not None:
            pieces.append(Piece(0, encode_message(Origin(Lsn(transaction.commit_lsn + 7), transaction.origin))))
        for lsn, version, message in transaction.messages:
            named = message.relation_ids if isinstance(message, Truncate) else (getattr(message, "relation_id"),)  # noqa: B009
            pieces.append(Piece(lsn, encode_message(message), named, version))
        commit = Commit(transaction.commit_lsn, transaction.end_lsn, time_us)
        transaction.encoded = [*pieces, Piece(transaction.end_lsn, encode_message(commit))]
    return transaction.encoded


def _note(random: Random) -> str:
    return "x" * random.choice((1, 5, 5, 200))


def _insert(writer: Writer, random: Random, table: int) -> None:
    writer.insert(table, random.randrange(6), _note(random))


def _copy_in(writer: Writer, random: Random, table: int) -> None:
    for _ in range(random.randint(2, 4)):
        writer.insert(table, random.randrange(6), "copied", shares_lsn=True)


def _update(writer: Writer, random: Random, table: int) -> None:
    writer.update(table, random.randrange(6), _note(random), "old")


def _move(writer: Writer, random: Random, table: int) -> None:
    if table == KEYLESS:
        _update(writer, random, table)
    elif random.random() < 0.3:
        writer.update_toast(table, random.randrange(6))
    else:
        old = random.randrange(6)
        writer.move(table, old, (old + random.randint(1, 5)) % 6, _note(random))


def _delete(writer: Writer, random: Random, table: int) -> None:
    writer.delete(table, random.randrange(6), "gone")


def _truncate(writer: Writer, random: Random, table: int) -> None:
    writer.truncate([table] if random.random() < 0.6 else [KEYED, table] if table != KEYED else [KEYED, KEYLESS])


CHANGES: list[Callable[[Writer, Random, int], None]] = [
    *[_insert] * 6,
    *[_update] * 4,
    *[_move] * 3,
    *[_delete] * 2,
    _copy_in,
    _truncate,
]
_SIZES = (0, 1, 1, 1, 2, 2, 3, 5, 9)
"""Changes of one transaction; those of none come from Postgres 12 to 14."""


def make_history(random: Random) -> list[Transaction]:
    """Some transactions, one after the other in the WAL."""
    history: list[Transaction] = []
    lsn: int = CONSISTENT_POINT + random.choice((0, 0, 64))
    tables = list(TABLES)[: random.randint(1, 3)]
    version = 1
    for n in range(random.randint(2, 7)):
        # One that was begun early and commits late has rows before the commits of others.
        early = random.choice((0, 0, 0, 100))
        writer = Writer(700 + n, max(lsn - early, CONSISTENT_POINT), version)
        for _ in range(random.choice(_SIZES)):
            if random.random() < 0.01:
                writer.version = version = 2
            random.choice(CHANGES)(writer, random, random.choice(tables) if len(tables) > 1 else KEYED)
        origin = "node" if random.random() < 0.1 else None
        done = writer.commit(lsn + random.choice((0, 0, 24)), random.choice((32, 48)), origin)
        history.append(done)
        lsn = done.end_lsn + random.choice((0, 0, 0, 8, 128))
    return history
