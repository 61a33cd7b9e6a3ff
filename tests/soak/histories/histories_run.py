"""Histories of many tables, played side by side under one pipeline.

In: a producer and histories. Out: an assertion that names each table that was called current and did not equal its
source (I8), each that was not current in the end, and each step that Postgres refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any

import psycopg
from psycopg import sql

from tests.faults.differential.followed_tables import FollowedTables
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, Running
from tests.replay import Row
from tests.soak.histories.histories import History
from tests.soak.histories.rows_as_copied import rows_as_copied
from tests.topic_reader import Topics
from tests.wait import wait_until
from walbridge.ddl_trigger import make
from walbridge.schemas.control.metadata_record import RelationRecord

BY_ROOTS = "WITH (publish_via_partition_root = true)"
SETTLED_S = 120.0
READ_S = 200.0
_PUBLISHED = """
    WITH listed AS (
      SELECT c.oid FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
      JOIN pg_class c ON c.relname = t.tablename AND c.relnamespace = n.oid
      WHERE n.nspname <> 'walbridge' AND t.pubname = ANY (%s))
    SELECT oid::bigint FROM listed leaf
    WHERE NOT EXISTS (SELECT FROM pg_partition_ancestors(leaf.oid) root WHERE root <> leaf.oid
                      AND root IN (SELECT oid FROM listed))"""
"""Without what another publication lists under its root's name."""
_PLACES = (
    "SELECT c.oid::bigint, n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
)


Source = Callable[[Database, RelationRecord], list[Row]]


class Way(StrEnum):
    """What happens while the steps are played."""

    FOLLOWED = "followed"
    SETTLED = "settled"
    """Each once all tables are current."""
    AWAY = "away"
    """The producer is killed before the first and started after the last."""
    RESTARTED = "restarted"
    """The producer is killed before each, and started after it."""
    CRASHED = "crashed"
    """Postgres is killed after each: what it had not flushed is lost, and later steps may be refused."""


class HistoriesRun:
    """Each history's next step, then a look at all tables, until all are over.

    Args:
        unfit: schemas whose tables cannot be followed in the end, with a remedy for their owner.
    """

    def __init__(
        self,
        producer: ProducerUnderTest,
        histories: Sequence[History],
        unfit: Collection[str] = (),
        source: Source = rows_as_copied,
    ) -> None:
        self._producer, self._unfit = producer, unfit
        version = int(producer.database.value("SHOW server_version_num")) // 10000
        self._histories = [each for each in histories if each.since <= version]
        postgres = producer.settings.get("postgres", {})
        self._publications = postgres.get("publications", [postgres.get("publication", "walbridge")])
        self._tables = FollowedTables(source)
        self._cut_count = 0
        self._places: dict[int, str] = {}
        self._running: Running
        self._connection: psycopg.Connection[Any] | None = None
        self._tolerates = False
        self.problems: list[str] = []

    def begin(self, options: str = BY_ROOTS, *, tells_ddl: bool = False) -> None:
        """Their tables, which one publication publishes; or those of the histories, where there are more."""
        database = self._producer.database
        with database.connect() as connection:
            if connection.info.server_version >= 130000:  # so that much is streamed before its commit
                connection.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'".encode())
            for each in self._histories:
                connection.execute(f'CREATE SCHEMA "{each.schema}"'.encode())
                self._play(connection, each, 0)
            if len(self._publications) == 1:
                name = sql.Identifier(*self._publications)
                made = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES {}").format(name, sql.SQL(options))
                connection.execute(made)
            if tells_ddl:
                with connection.transaction():
                    make(connection, lambda line: None)

    def play(self, way: Way = Way.FOLLOWED) -> None:
        """All steps, with a look at all tables after each."""
        self._tolerates = way is Way.CRASHED
        self._running = self._producer.start_streaming()
        with contextlib.ExitStack() as stack:
            topics = stack.enter_context(self._producer.topics())
            stack.callback(self.close)
            self._settle(topics, "at first")
            with self._absent(way is Way.AWAY):
                for number in self.numbers():
                    with self._absent(way is Way.RESTARTED):
                        self.step(number)
                    if way is Way.CRASHED:
                        self._crash()
                    if way is Way.SETTLED:
                        self._settle(topics, f"after step {number}")
                    elif way is not Way.AWAY:
                        self._compare(topics, f"after step {number}")
            self._settle(topics, "in the end")
        self._check()

    @contextlib.contextmanager
    def _absent(self, is_so: bool) -> Iterator[None]:
        """The producer, if so."""
        if not is_so:
            yield
            return
        self._running.kill()
        yield
        self._running = self._producer.start_streaming()

    def _crash(self) -> None:
        self._producer.database.server.kill()
        self.close()
        self._producer.database.server.start()

    def close(self) -> None:
        """End the session of the steps."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def numbers(self) -> range:
        """Of the steps that are played under the pipeline."""
        return range(1, max(len(each.steps) for each in self._histories))

    def step(self, number: int) -> None:
        """Those of this number, of all histories, in one session for all steps."""
        if self._connection is None:
            self._connection = self._producer.database.connect()
        for each in self._histories:
            if number < len(each.steps):
                self._play(self._connection, each, number)

    def _play(self, connection: psycopg.Connection[Any], history: History, number: int) -> None:
        connection.execute(f'SET search_path TO "{history.schema}", public'.encode())
        try:
            connection.execute(history.step(number).encode())
        except psycopg.Error as error:
            connection.execute(b"ROLLBACK")
            if not self._tolerates:
                self.problems.append(f"{history.name}: step {number} was refused: {error}")

    def _settle(self, topics: Topics, when: str) -> None:
        """Once every published table is current, and no other one."""
        with contextlib.suppress(AssertionError):  # with the table's name it says more
            wait_until(lambda: not self._unsettled(topics), "all to be current", SETTLED_S, 0.3)
        unsettled, progress = self._unsettled(topics), topics.progress()
        assert progress is not None
        for relation_id in unsettled:
            self._note(relation_id, when, f"not as published: {progress.tables.get(relation_id)}")
        self._compare(topics, when)

    def _unsettled(self, topics: Topics) -> set[int]:
        self._replay(topics)
        places = self._seen_places()
        published = {row[0] for row in self._producer.database.rows(_PUBLISHED, (self._publications,))}
        found = published ^ {each for each, state in self._tables.states.items() if state == "current"}
        return {each for each in found if places.get(each, "").partition(".")[0] not in self._unfit}

    def _compare(self, topics: Topics, when: str) -> None:
        self._replay(topics)
        self._seen_places()
        for relation_id, why in (self._tables.wrong | self._tables.differing(self._producer.database, ())).items():
            self._note(relation_id, when, why)
        self._tables.wrong.clear()

    def _replay(self, topics: Topics) -> None:
        """To a cut of a look that the stream has passed."""
        self._producer.caught_up(topics, READ_S)
        self._producer.caught_up(topics, READ_S, without_changes=True)
        cuts = topics.cuts()
        for cut in cuts[self._cut_count :]:
            topics.replay_cut(cut, self._tables)
        self._cut_count = len(cuts)

    def _seen_places(self) -> dict[int, str]:
        self._places |= dict(self._producer.database.rows(_PLACES))
        return self._places

    def _note(self, relation_id: int, when: str, what: str) -> None:
        self.problems.append(f"{self._places.get(relation_id, relation_id)} {when}: {what[:800]}")

    def _check(self) -> None:
        left = {self._places.get(each, each): count for each, count in self._tables.left.items() if count}
        print("tables left:", left)
        assert not self.problems, "\n".join(self.problems) + "\n" + self._running.log[-3000:]
