"""One run: a database that is altered without end, a producer that is killed, and looks at what the topics tell.

In: a producer, a seed and how tables are published. Out: figures; a test that fails names the tables and what was done
to them.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import psycopg

from tests.faults.differential.followed_tables import FollowedTables, Key
from tests.faults.differential.owner import SETTINGS, Owner
from tests.faults.differential.places import SCHEMAS
from tests.faults.differential.statements import OTHER, SAME, TYPES, UNTOLD, untold_together
from tests.faults.differential.tables import PARTS, tables
from tests.fix_producer import ProducerUnderTest, Running
from tests.topic_reader import Topics
from tests.wait import wait_until
from walbridge.ddl_trigger import make

PUBLISHED = {
    "all": "FOR ALL TABLES WITH (publish_via_partition_root = true)",
    "leaves": "FOR ALL TABLES",
    "named": "WITH (publish_via_partition_root = true)",
}
TABLES_AT_FIRST = 12
KILLS_MIN, KILL_SHARE = 12, 0.006
DEAD_FOR = (0, 10, 80)
"""Steps of the owner."""
SETTLED_EACH = 4
"""Checks, of which the last waits until every table is current."""
SETTLED_S = 240.0
HISTORY = 25
_PUBLISHED = """
    SELECT c.oid::int FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relname = t.tablename AND c.relnamespace = n.oid WHERE n.nspname <> 'walbridge'"""


class Differential:
    """A source and what the topics tell of it, side by side."""

    def __init__(self, producer: ProducerUnderTest, seed: int, how: str, *, tells_ddl: bool = False) -> None:
        self._producer, self._dice, self._how, self._tells_ddl = producer, random.Random(seed), how, tells_ddl
        self._owner = Owner(self._dice, names_tables=how == "named")
        self._tables = FollowedTables()
        self._running: Running | None = None
        self._dead_for, self._kill_share = 0, 0.0
        self._figures = Counter[str]()
        self._accounted = Counter[int]()
        self._keys: dict[int, Key] = {}
        """By relation, the last one that it had when all was current."""
        self._copies = Counter[str]()
        self.needless: list[str] = []
        """Copies of tables of which every value was kept, and the stream or the catalogue told so."""

    def run(self, statements: int, checks: int) -> None:
        """Alter the database; at so many moments, look whether the topics tell the same."""
        self._kill_share = max(KILL_SHARE, KILLS_MIN / statements)
        database = self._producer.database
        database.execute(f"CREATE SCHEMA {PARTS}; CREATE SCHEMA {SCHEMAS[1]}; {TYPES}")
        database.execute(f"CREATE PUBLICATION walbridge {PUBLISHED[self._how]}")
        if self._tells_ddl:
            with database.connect() as connection, connection.transaction():
                make(connection, lambda line: None)
        with database.connect() as one, database.connect() as other, self._producer.topics() as topics:
            for connection in (one, other):
                connection.execute(SETTINGS.encode())
            while len(tables(one)) < TABLES_AT_FIRST:
                for _ in self._owner.transaction(one):
                    pass
            self._running = self._producer.start_streaming()
            for number in range(1, checks + 1):
                self._act([one, other], statements * number // checks)
                if number % SETTLED_EACH:
                    self._compare(topics)
                else:
                    self._settle(one, topics)
            self._settle(one, topics)
            written = self._owner.write_everywhere(one)
            self._settle(one, topics, written)

    def _act(self, connections: list[psycopg.Connection[Any]], until: int) -> None:
        """Up to two transactions are open at a time."""
        transactions: dict[int, Iterator[None]] = {}
        while transactions or self._owner.taken.total() < until:
            which = self._dice.choice((0, 0, 0, 1))
            if which not in transactions:
                if self._owner.taken.total() >= until:
                    which = next(iter(transactions))
                else:
                    transactions[which] = self._owner.transaction(connections[which])
            if next(transactions[which], "ended") == "ended":
                del transactions[which]
            self._kill_or_start()
        if self._running is None:  # what is compared now waits for it
            self._dead_for = 0
            self._kill_or_start()

    def _kill_or_start(self) -> None:
        if self._running is None:
            self._dead_for -= 1
            if self._dead_for <= 0:
                self._running = self._producer.start()
        elif self._dice.random() < self._kill_share:
            assert self._running.process.poll() is None, self._running.log[-5000:]
            self._running.kill()
            self._running, self._dead_for = None, self._dice.choice(DEAD_FOR)
            self._figures["kills"] += 1

    def _settle(self, connection: psycopg.Connection[Any], topics: Topics, named: Collection[int] = ()) -> None:
        """Once every published table is current, and no other one."""
        self._owner.mend(connection)
        with contextlib.suppress(AssertionError):  # with the tables' histories it says more
            wait_until(lambda: not self._unsettled(topics), "all to be current", SETTLED_S, 0.3)
        progress = topics.progress()
        assert progress is not None
        unsettled = {each: str(progress.tables.get(each)) for each in self._unsettled(topics)}
        assert not unsettled, self._told(unsettled)
        self._compare(topics, named)
        self._account()

    def _unsettled(self, topics: Topics) -> set[int]:
        self._replay(topics)
        published = {row[0] for row in self._producer.database.rows(_PUBLISHED)}
        return published ^ {each for each, state in self._tables.states.items() if state == "current"}

    def _compare(self, topics: Topics, named: Collection[int] = ()) -> None:
        self._replay(topics)
        wrong = self._tables.wrong | self._tables.differing(self._producer.database, named)
        self._tables.wrong.clear()
        self._figures["checks"] += 1
        self._figures["current tables compared"] += [*self._tables.states.values()].count("current")
        assert not wrong, self._told(wrong)
        mixed = {topic: schemas for topic, schemas in self._tables.key_schemas.items() if len(schemas) > 1}
        assert not mixed, f"a row may stand under two keys: {mixed}"

    def _replay(self, topics: Topics) -> None:
        """To a cut of a look that the stream has passed: it shows new columns also of a table that nobody writes."""
        self._producer.caught_up(topics, SETTLED_S)
        self._producer.caught_up(topics, SETTLED_S, without_changes=True)
        cuts = topics.cuts()
        for cut in cuts[self._figures["cuts"] :]:
            topics.replay_cut(cut, self._tables)
        self._figures["cuts"] = len(cuts)

    def _account(self) -> None:
        """Which copies were due since all was current before."""
        keys = {each: key for each in self._tables.states if (key := self._tables.key(each))}
        rekeyed = {each for each, key in keys.items() if self._keys.get(each, key) != key}
        self._keys |= keys
        # A partition that was emptied, or came and went, may be noticed only once rows come to it.
        late = {each: done[OTHER] for each, done in self._owner.done.items() if done[OTHER]}
        for relation_id, count in self._tables.left.items():
            new, self._accounted[relation_id] = count - self._accounted[relation_id], count
            if new:
                late.pop(relation_id, None)
            done = self._owner.done[relation_id]
            done[UNTOLD] |= untold_together(done[SAME], self._owner.types_altered)
            if done[OTHER] or relation_id in rekeyed:
                self._copies["due"] += new
            elif done[UNTOLD]:
                self._copies["kept by " + ", ".join(sorted(done[UNTOLD]))] += new
            elif new:
                self._copies["needless"] += new
                self.needless.append(self._told({relation_id: f"copied {new} times"}))
        self._owner.done.clear()
        self._owner.types_altered.clear()
        for relation_id, kinds in late.items():
            self._owner.done[relation_id][OTHER] |= kinds

    def _told(self, wrong: dict[int, str]) -> str:
        return "\n".join(
            "\n    ".join([f"{relation_id} {why}", *self._owner.history[relation_id][-HISTORY:]])
            for relation_id, why in wrong.items()
        )

    def report(self) -> str:
        """What was done and seen."""
        owner = self._owner
        figures = {
            "statements": owner.taken.total(),
            "refused by Postgres": owner.refused.total(),
            "tables": len(self._tables.states),
            **self._figures,
            "copies": self._tables.copied.total(),
            "tables left": dict(self._copies),
            "by kind": dict(owner.taken.most_common()),
        }
        return "\n".join(f"{name}: {figure}" for name, figure in figures.items())
