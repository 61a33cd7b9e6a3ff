"""A small database for property tests: random transactions, their change events, their outcome.

``World`` is what Postgres would do and send; ``rows`` is what the lake must then hold. Values are
either plain or ``Text``: a value that its Avro type cannot hold, known by its Postgres text.
"""

import datetime
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.contract_writer import Event
from tests.spark_consumer.events import EPOCH, column, relation
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn, Position


class Text(str):
    """The Postgres text of a value that goes to ``exceptional``."""


Row = dict[str, Any]
DATES = [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), Text("infinity"), Text("-infinity")]
VALUES: Mapping[str, list[Any]] = {
    "body": ["", "x" * 50, "ä€😀", None],
    "tags": [[], [1, None], None, Text("{{1,2},{3,4}}"), Text("[0:1]={7,8}")],
    "amount": [Decimal("1.50"), Decimal("-0.01"), None, Text("NaN")],
    "n": [0, 1, 2**31 - 1, None],
}
TOASTABLE = ("body", "tags", "amount")
KEYED = relation(
    [
        column("id", "int4", is_key=True),
        column("on", "date", is_key=True),
        column("body"),
        column("tags", "_int4"),
        column("amount", "numeric", typmod=(10 << 16 | 2) + 4),
        column("n", "int4"),
    ]
)
MULTISET_VALUES: Mapping[str, list[Any]] = {
    "x": [0.0, -0.0, float("nan"), None, float("inf")],
    "xs": [[0.0], [-0.0], [float("nan"), None], None],
    "raw": [b"", b"\0", None],
    "on": [datetime.date(2024, 2, 29), Text("infinity"), None],
}
MULTISET = relation(
    [column("x", "float8"), column("xs", "_float8"), column("raw", "bytea"), column("on", "date")],
    name="bag",
    identity="f",
    relation_id=16500,
)


def plain(row: Row) -> Row:
    """The Avro values of a row."""
    return {name: None if isinstance(value, Text) else value for name, value in row.items()}


def texts(row: Row) -> dict[str, str] | None:
    """Its exceptional texts."""
    return {name: str(value) for name, value in row.items() if isinstance(value, Text)} or None


@dataclass
class World:
    """Rows and the events that made them, transaction by transaction."""

    seed: int
    lsn: int = 0x1000
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.events: list[Event] = []
        self.barriers: list[Barrier] = []

    def pick(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def emit(self, of: RelationRecord, op: str, **values: Any) -> None:
        """Write one event at the next position; some are written twice, as they would never be."""
        ordinal = sum(event.commit_lsn == self.lsn for event in self.events)
        self.events.append(Event(of, op, self.lsn, ordinal, **values))

    def take(self) -> tuple[list[Event], list[Barrier]]:
        """Events and barriers since the last call."""
        taken = self.events, self.barriers
        self.events, self.barriers = [], []
        return taken

    def truncate(self, of: RelationRecord) -> None:
        self.lsn += 8
        self.emit(of, "t")
        self.barriers.append(Barrier("truncate", Position(Lsn(self.lsn), 0)))
        self.rows.clear()


@dataclass
class KeyedWorld(World):
    """A table with a primary key of which one column may be infinity.

    Without ``keys_change`` no update needs to know which row had the values before, and only
    columns without exceptional texts are left out of updates.
    """

    keys_change: bool = True

    def key(self) -> Row:
        return {"id": self.random.randrange(3), "on": self.pick(DATES)}

    def free_key(self) -> Row | None:
        taken = [(row["id"], row["on"]) for row in self.rows]
        free = [key for key in (self.key() for _ in range(9)) if (key["id"], key["on"]) not in taken]
        return free[0] if free else None

    def transaction(self) -> None:
        """Up to four statements."""
        self.lsn += 8
        for _ in range(self.random.randint(1, 4)):
            steps = [self.insert, self.update, self.update, self.delete]
            moves = [self.change_key, self.change_key, self.swap]
            self.pick(steps + moves if self.keys_change else steps)()

    def insert(self) -> None:
        key = self.free_key()
        if key is None:
            return
        row = key | {name: self.pick(values) for name, values in VALUES.items()}
        self.rows.append(row)
        self.emit(KEYED, "c", after=plain(row), exceptional=texts(row))

    def delete(self) -> None:
        if self.rows:
            row = self.rows.pop(self.random.randrange(len(self.rows)))
            self._gone(row)

    def update(self) -> None:
        if self.rows:
            row = self.pick(self.rows)
            after, unchanged = self._changed(row)
            self.emit(KEYED, "u", after=plain(after), exceptional=texts(after), unchanged=unchanged)

    def change_key(self) -> None:
        key = self.free_key()
        if key is not None and self.rows:
            self._move(self.pick(self.rows), key)

    def swap(self) -> None:
        """Two rows exchange their keys through a third one."""
        key = self.free_key()
        if key is None or len(self.rows) < 2:
            return
        one, other = self.random.sample(self.rows, 2)
        keys = [{name: row[name] for name in ("id", "on")} for row in (one, other)]
        self._move(one, key)
        self._move(other, keys[0])
        self._move(one, keys[1])

    def _move(self, row: Row, key: Row) -> None:
        old = {name: row[name] for name in ("id", "on")}
        self._gone(old)
        after, unchanged = self._changed(row, key)
        self.emit(
            KEYED,
            "c",
            before=plain(old),
            before_exceptional=texts(old),
            before_image="key",
            after=plain(after),
            exceptional=texts(after),
            unchanged=unchanged,
        )

    def _gone(self, row: Row) -> None:
        old = {name: row[name] for name in ("id", "on")}
        self.emit(KEYED, "d", before=plain(old), before_exceptional=texts(old), before_image="key")

    def _changed(self, row: Row, key: Row | None = None) -> tuple[Row, list[str] | None]:
        """Change a row; returns it as it is sent: unchanged columns left out, or not."""
        changed = {name for name in VALUES if self.random.random() < 0.4}
        row.update({name: self.pick(VALUES[name]) for name in changed}, **(key or {}))
        toastable = TOASTABLE if self.keys_change else ("body",)
        left_out = [name for name in toastable if name not in changed and self.random.random() < 0.8]
        return {name: None if name in left_out else value for name, value in row.items()}, left_out or None


class MultisetWorld(World):
    """A table without a key, identity FULL."""

    def transaction(self) -> None:
        self.lsn += 8
        for _ in range(self.random.randint(1, 6)):
            self.pick([self.insert, self.insert, self.update, self.delete])()

    def some_row(self) -> Row:
        # Few rows many times: equal ones are what this is about.
        seed = self.random.randrange(6)
        chooser = random.Random(seed)
        return {name: chooser.choice(values) for name, values in MULTISET_VALUES.items()}

    def insert(self) -> None:
        row = self.some_row()
        self.rows.append(row)
        self.emit(MULTISET, "c", after=plain(row), exceptional=texts(row))

    def delete(self) -> None:
        if self.rows:
            row = self.rows.pop(self.random.randrange(len(self.rows)))
            self.emit(MULTISET, "d", before=plain(row), before_exceptional=texts(row), before_image="full")

    def update(self) -> None:
        if self.rows:
            place = self.random.randrange(len(self.rows))
            old, new = self.rows[place], self.some_row()
            self.rows[place] = new
            self.emit(
                MULTISET,
                "u",
                before=plain(old),
                before_exceptional=texts(old),
                before_image="full",
                after=plain(new),
                exceptional=texts(new),
            )


def cut(cut_id: int, of: RelationRecord, records: int, barriers: list[Barrier], end_lsn: int, *, start: int = 0) -> Cut:
    """A cut of one table."""
    return Cut(
        EPOCH,
        cut_id,
        end_lsn,
        end_lsn,
        end_lsn,
        None,
        1,
        True,
        0,
        (PartitionRange(of.topic, 0, start, start + records, records),),
        (TableChanges(of.table.relation_id, of.topic, (of.schema_id,), records, tuple(barriers)),),
    )


def copy_barriers(of: RelationRecord) -> list[Barrier]:
    """The empty copy that every lake table begins with."""
    lsn = Lsn(EPOCH.consistent_point)
    return [Barrier("copy_begin", Position(lsn, -1), of.schema_id), Barrier("copy_end", Position(lsn, 0))]


def canonical(values: Row) -> tuple[Any, ...]:
    """Equal exactly for equal rows: NaN equals NaN, 0.0 is not -0.0, a Text is no str."""
    return tuple((type(value).__name__, repr(value)) for _, value in sorted(values.items()))


def lake_rows(found: list[Row]) -> Iterator[Row]:
    """Rows as read from the lake, in the form of ``World.rows``."""
    for row in found:
        exceptional = dict(row.pop("_walbridge")["exceptional"] or ())
        yield row | {name: Text(text) for name, text in exceptional.items()}
