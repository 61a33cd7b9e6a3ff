"""A small database whose tables are copied while it changes, as the producer would tell of it.

``Source`` has the rows, and sends what happens as cuts; ``states`` is what it held at the end of each
complete cut. A copy reads its table range by range: each range as it is at that moment, behind all
transactions that were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from tests.contract_events import Event, copied, copy_begin, copy_end
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import MemoryPipeline
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn, Position

KEYS = range(6)
Row = dict[str, int | str | None]


def version(name: str, relation_id: int, *columns: str) -> RelationRecord:
    of = [column("id", "int4", is_key=True), column("n", "int4"), column("body"), *map(column, columns)]
    return relation(of, name=name, relation_id=relation_id)


VERSIONS = {name: (version(name, n), version(name, n, "more")) for n, name in enumerate("abc", 1)}


@dataclass
class Table:
    """``copying``: keys that the copy has not read yet, None without a copy. ``is_followed``: it was copied once."""

    name: str
    rows: dict[int, Row] = field(default_factory=dict)
    shape: int = 0
    copying: list[int] | None = None
    is_followed: bool = False
    announced: int | None = None

    @property
    def relation(self) -> RelationRecord:
        return VERSIONS[self.name][self.shape]

    @property
    def is_told(self) -> bool:
        """Whether its changes are sent."""
        return self.is_followed or self.copying is not None


@dataclass
class Source:
    """One database and its producer."""

    random: Random
    pipeline: MemoryPipeline = field(default_factory=MemoryPipeline)
    lsn: int = 0x2000
    events: list[Event] = field(default_factory=list)
    barriers: list[tuple[RelationRecord, Barrier]] = field(default_factory=list)
    states: dict[int, Mapping[str, list[Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = {name: Table(name) for name in VERSIONS}
        self.pipeline.announce(*(each for versions in VERSIONS.values() for each in versions))
        self.ordinal = 0
        self.send()

    def pick(self) -> Table:
        return self.tables[self.random.choice(sorted(self.tables))]

    def transaction(self) -> None:
        """A few changes; sometimes a cut ends inside of it."""
        self.lsn += 16
        self.ordinal = 0
        for _ in range(self.random.randint(1, 4)):
            self.random.choice([self.insert, self.update, self.update, self.delete, self.change_key])(self.pick())
            if self.random.random() < 0.1:
                self.send(complete=False)

    def insert(self, table: Table) -> None:
        free = [key for key in KEYS if key not in table.rows]
        if free:
            key = self.random.choice(free)
            table.rows[key] = self._row(table, key)
            self._change(table, "c", after=table.rows[key])

    def update(self, table: Table) -> None:
        """What is stored out of line is left out where it stays as it is."""
        if table.rows:
            key = self.random.choice(sorted(table.rows))
            old = table.rows[key]
            new = self._row(table, key)
            unchanged = [name for name in ("body",) if self.random.random() < 0.6]
            table.rows[key] = new | {name: old[name] for name in unchanged}
            after = {name: None if name in unchanged else value for name, value in new.items()}
            self._change(table, "u", after=after, unchanged=unchanged or None)

    def delete(self, table: Table) -> None:
        if table.rows:
            key = self.random.choice(sorted(table.rows))
            del table.rows[key]
            self._change(table, "d", before={"id": key}, before_image="key")

    def change_key(self, table: Table) -> None:
        free = [key for key in KEYS if key not in table.rows]
        if free and table.rows:
            old, new = self.random.choice(sorted(table.rows)), self.random.choice(free)
            row = table.rows.pop(old)
            table.rows[new] = row | {"id": new}
            self._change(table, "d", before={"id": old}, before_image="key")
            self._change(table, "c", before={"id": old}, before_image="key", after=table.rows[new])

    def truncate(self, table: Table) -> None:
        self.lsn += 16
        self.ordinal = 0
        table.rows.clear()
        if table.is_told:
            self.barriers.append((table.relation, Barrier("truncate", self._at())))
            self._change(table, "t")

    def alter(self, table: Table) -> None:
        """ADD COLUMN: its rows have null there."""
        if table.shape == 0:
            table.shape = 1
            table.rows = {key: row | {"more": None} for key, row in table.rows.items()}

    def reconnect(self) -> None:
        """The first event of each table carries its shape again."""
        for table in self.tables.values():
            table.announced = None

    def leave(self, table: Table) -> None:
        """The table leaves the publication: what its copy has read is void."""
        if table.is_told:
            self.lsn += 16
            self.ordinal = 0
            self.barriers.append((table.relation, Barrier("dropped", self._at())))
            table.copying, table.is_followed, table.announced = None, False, None

    def begin_copy(self, table: Table) -> None:
        """Also where a copy goes on: it begins anew."""
        if table.copying is not None:
            self.send()
        self._between()
        table.copying, table.announced = [*KEYS], table.shape
        marker, barrier = copy_begin(table.relation, self.lsn)
        self.events.append(marker)
        self.barriers.append(barrier)

    def copy_on(self, table: Table) -> None:
        """One more range; behind the last one the copy ends."""
        if table.copying is None:
            return
        self._between()
        count = self.random.randint(1, len(KEYS))
        read, table.copying = table.copying[:count], table.copying[count:]
        rows = [table.rows[key] for key in read if key in table.rows]
        if rows:
            self._announce(table, Position(Lsn(self.lsn), -1))
            self.events += copied(table.relation, self.lsn, *rows)
        if not table.copying:
            marker, barrier = copy_end(table.relation, self.lsn)
            self.events.append(marker)
            self.barriers.append(barrier)
            table.copying, table.is_followed = None, True

    def send(self, *, complete: bool = True) -> None:
        """One cut."""
        end = self.lsn + 8 if complete else self.pipeline.last.end_lsn
        cut = self.pipeline.send(*self.events, barriers=self.barriers, complete=complete, end_lsn=end)
        self.events, self.barriers = [], []
        if complete:
            self.lsn += 8
            self.states[cut.end_lsn] = {name: _copies(table.rows.values()) for name, table in self.tables.items()}

    def _between(self) -> None:
        """All transactions so far ended at or before this LSN."""
        self.lsn += 8

    def _at(self) -> Position:
        return Position(Lsn(self.lsn), self.ordinal)

    def _change(self, table: Table, op: str, **values: object) -> None:
        if table.is_told:
            if op != "t":
                self._announce(table, self._at())
            self.events.append(replace(Event(table.relation, op, self.lsn, self.ordinal), **values))  # type: ignore[arg-type]
        self.ordinal += 1

    def _announce(self, table: Table, at: Position) -> None:
        if table.announced != table.shape:
            self.barriers.append((table.relation, Barrier("shape", at, table.relation.schema_id)))
            table.announced = table.shape

    def _row(self, table: Table, key: int) -> Row:
        more: Row = {"more": self.random.choice(["m", None])} if table.shape else {}
        return {"id": key, "n": self.random.randrange(100), "body": self.random.choice(["long", "x", None])} | more


def _copies(rows: Iterable[Row]) -> list[Row]:
    return [dict(row) for row in rows]
