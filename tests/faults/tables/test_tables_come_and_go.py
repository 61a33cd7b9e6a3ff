"""Tables that are made, filled, emptied, dropped and made again while producer and server are killed (I1, I4, I7, I8).

``make fault SEED=7`` draws the same again.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter

import psycopg
import pytest

from tests.faults.copies.test_table_copied import progress_of
from tests.faults.seed import fault_seed
from tests.fix_producer import ProducerUnderTest, Running
from tests.wait import wait_until

pytestmark = pytest.mark.fault
TABLES_MAX = 5
KILLS, SOAK_KILLS = 4, 60
SETTLED_S = 240.0
"""A table made again waits for the look that finds the one before it gone, each time."""

MADE = """
    CREATE TABLE {0} (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, v text);
    ALTER TABLE {0} ALTER v SET STORAGE EXTERNAL
"""
FILLED = "INSERT INTO {0} SELECT i, 0, repeat('v', 2500) FROM generate_series(1, {1}) i"


class Owner:
    """Changes tables and their rows until left; a server that dies takes a statement with it, no more."""

    def __init__(self, producer: ProducerUnderTest, dice: random.Random) -> None:
        self._producer, self._dice = producer, dice
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="owner")
        self.done = Counter[str]()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(psycopg.OperationalError), self._producer.database.connect() as connection:
                while not self._stop.wait(0.005):
                    self._act(connection)

    def _act(self, connection: psycopg.Connection[object]) -> None:
        dice = self._dice
        query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'come%' ORDER BY 1"
        there = [str(row[0]) for row in connection.execute(query).fetchall()]  # type: ignore[index]
        name, what = f"come{dice.randrange(TABLES_MAX)}", dice.random()
        statements: list[str]
        if name not in there:
            kind, statements = "made", [MADE.format(name), FILLED.format(name, dice.choice((0, 10, 600)))]
        elif what < 0.01:
            kind, statements = "dropped", [f"DROP TABLE {name}"]
        elif what < 0.02:
            kind, statements = "made again", [f"DROP TABLE {name}", MADE.format(name), FILLED.format(name, 50)]
        elif what < 0.03:
            kind, statements = "emptied", [f"TRUNCATE {name}", FILLED.format(name, dice.choice((0, 300)))]
        else:
            kind, statements = "written", [self._change(name)]
        with connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())
        self.done[kind] += 1

    def _change(self, name: str) -> str:
        dice = self._dice
        id_, to = dice.randint(1, 600), dice.randint(1, 1200)
        return dice.choice(
            (
                f"UPDATE {name} SET n = n + 1 WHERE id = {id_}",
                f"UPDATE {name} SET id = {to} WHERE id = {id_} AND NOT EXISTS (SELECT FROM {name} WHERE id = {to})",
                f"DELETE FROM {name} WHERE id = {id_}",
                f"INSERT INTO {name} VALUES ({id_}, -1, repeat('n', 2500)) ON CONFLICT (id) DO NOTHING",
            )
        )

    def wait_for(self, more: int) -> None:
        wanted = self.done.total() + more
        wait_until(lambda: self.done.total() >= wanted or not self._thread.is_alive(), f"{more} more transactions")
        assert self._thread.is_alive()

    def __enter__(self) -> Owner:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()


def _run(producer: ProducerUnderTest, kills: int) -> None:
    seed = fault_seed()
    dice = random.Random(seed)
    producer.settings["producer"] = {"batch_rows_max": 100}
    database = producer.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    with Owner(producer, random.Random(seed)) as owner:
        for _ in range(kills):
            owner.wait_for(dice.randint(50, 400))
            running = _strike(producer, running, dice)
        owner.wait_for(100)
    _settle(producer)
    print(f"{dict(owner.done)}, seed {seed}")


def _strike(producer: ProducerUnderTest, running: Running, dice: random.Random) -> Running:
    if dice.random() < 0.7:
        running.kill()
        return producer.start()
    producer.database.server.kill()
    producer.database.server.start()
    return running


def _settle(producer: ProducerUnderTest) -> None:
    """Every table is current and the source's; of tables that are gone nothing is called current."""
    query = "SELECT oid::int, relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    there: dict[int, str] = dict(producer.database.rows(query))

    def states() -> dict[int, str]:
        with producer.topics() as topics:
            producer.caught_up(topics)
            return {each: table.state for each, table in progress_of(topics).tables.items()}

    wanted = dict.fromkeys(there, "current")
    wait_until(
        lambda: {each: state for each, state in states().items() if state in ("current", "copying")} == wanted,
        "every table to be current",
        SETTLED_S,
    )
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
        topics.check_nothing_else()
    for relation_id, name in there.items():
        rows = sorted(tuple(row.values()) for row in replayed.tables[relation_id].rows)
        assert rows == producer.database.rows(f"SELECT * FROM {name} ORDER BY 1"), f"{name} differs"


def test_tables_that_come_and_go_are_whole_after_kills(producer: ProducerUnderTest) -> None:
    _run(producer, KILLS)


@pytest.mark.soak
def test_tables_that_come_and_go_are_whole_after_many_kills(producer: ProducerUnderTest) -> None:
    _run(producer, SOAK_KILLS)


def test_producer_starts_again_over_a_table_that_was_dropped_and_made_again(producer: ProducerUnderTest) -> None:
    """Progress knows both, and they have one topic."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (1)")
    producer.check_equal()
    execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (2)")
    running.wait_for_log("table is copied")
    running.stop()

    producer.start_streaming()
    execute("INSERT INTO t VALUES (3)")
    _settle(producer)
