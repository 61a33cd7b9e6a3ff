"""A table's topic, and two who read it by the contract alone.

In: events as a producer commits them. Out: the table as a reader has it who applies everything to the
rows that it held before the copy, and as one has it who builds the copy aside from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.producer.copying.small_postgres import Row
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Change, Delete, Insert, Unsent, Update
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position

Known = tuple[int, int | None]
"""A row of which the large value may be unknown."""


@dataclass(frozen=True)
class Event:
    """``kind``: begin, end, t, d, r, or put for c and u. ``old``: the key that the row had before."""

    position: Position
    kind: str
    key: int | None = None
    row: Known | None = None
    old: int | None = None


def events_of(change: Change, commit_lsn: Lsn, ordinal: int) -> list[Event]:
    """What the pipeline publishes of a change: of a changed key a ``d`` and a ``c``."""
    position, following = Position(commit_lsn, ordinal), Position(commit_lsn, ordinal + 1)
    match change:
        case Insert(new=new):
            return [Event(position, "put", *_read(new))]
        case Delete():
            return [Event(position, "d", _key(change.old or change.key or b""))]
        case Update():
            key, row = _read(change.new)
            whole = change.old
            if row[1] is None and whole is not None:
                row = row[0], _read(whole)[1][1]
            old = _key(change.old or change.key or change.new)
            if old == key:
                return [Event(position, "put", key, row, key)]
            return [Event(position, "d", old), Event(following, "put", key, row, old)]
    return [Event(position, "t")]


def copied(lsn: Lsn, row: bytes) -> Event:
    return Event(Position(lsn, COPIED_ORDINAL), "r", *_read(row))


def marker(lsn: Lsn, kind: str) -> Event:
    return Event(Position(lsn, COPIED_ORDINAL), kind)


def _key(row: bytes) -> int:
    field = decode_tuple(row)[0]
    assert isinstance(field, bytes)
    return int(field)


def _read(row: bytes) -> tuple[int, Known]:
    _, small, big = decode_tuple(row)
    assert isinstance(small, bytes)
    if big is Unsent.UNCHANGED_TOAST:
        return _key(row), (int(small), None)
    assert isinstance(big, bytes)
    return _key(row), (int(small), int(big))


class Consumer:
    """It never sees more than the events, in the order of their positions."""

    def __init__(self, rows: dict[int, Row], *, is_aside: bool) -> None:
        self.rows: dict[int, Known] = dict(rows)
        self._is_aside = is_aside
        self._named: set[int] = set()
        self._moving: tuple[int, Known | None] | None = None
        self._last = Position(Lsn(0), COPIED_ORDINAL)

    def apply(self, event: Event) -> None:
        assert event.position >= self._last, "an earlier event follows a later one"
        self._last = event.position
        self._named |= {event.key} if event.key is not None else set()
        match event:
            case Event(kind="begin"):
                self.rows = {} if self._is_aside else self.rows
                self._named = set()
            case Event(kind="end"):
                self.rows = {key: row for key, row in self.rows.items() if key in self._named}
            case Event(kind="t"):
                self.rows = {}
            case Event(kind="d", key=int(key)):
                self._moving = key, self.rows.pop(key, None)
            case Event(kind="put", key=int(key), row=(small, None), old=int(old)):
                moving = self._moving[1] if self._moving and old != key else self.rows.get(key)
                self.rows[key] = small, moving[1] if moving else None
            case Event(key=int(key), row=tuple(row)):
                self.rows[key] = row
