"""What surrounds a pipeline changes under load, and the producer is killed at random around it (I1, I4, I7, I8).

Afterwards all is equal, once, and a table that the change does not concern was never anything but current. Slots that
are lost are in ``test_copy_all.py``, failovers in ``tests/soak``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from tests.faults.followed import settings_of, wait_until_current
from tests.faults.seed import fault_seed
from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest, Running
from walbridge.schemas.errors import COPY_ALL
from walbridge.tables.copy_all import copy_all

pytestmark = [pytest.mark.soak, pytest.mark.fault]
TABLES = ("t", "u", "late", "other")
KILLS = 3
TURNS_MAX = 300
ONCE_COPIED = ["copy_begin", "copy_end"]
ALL_OPERATIONS = "SET (publish = 'insert, update, delete, truncate')"


class Four(Writer):
    """Writes to all four tables in each transaction."""

    pause_s = 0.002

    def write(self, connection: psycopg.Connection[object]) -> None:
        with connection.transaction():
            for table in TABLES:
                connection.execute(f"INSERT INTO {table} VALUES ({self.count}, 0, 7)".encode())
                connection.execute(f"UPDATE {table} SET v = v + 1 WHERE id = {self.count // 2}".encode())
                connection.execute(f"DELETE FROM {table} WHERE id = {self.count // 3}".encode())


@dataclass
class Stage:
    """Publications ``a`` of ``t`` and ``u``, ``b`` of ``other``, ``c`` of ``late``. The first two are followed."""

    producer: ProducerUnderTest
    running: Running
    load: Writer
    dice: random.Random
    environ: Mapping[str, str] = field(default_factory=dict)

    def sql(self, statement: str) -> None:
        self.producer.database.execute(statement)
        self.load.wait_for(20)

    def set(self, section: str, **values: object) -> None:
        self.producer.settings.setdefault(section, {}).update(values)
        self.start_again()

    def start_again(self) -> None:
        self.running.kill()
        self.load.wait_for(self.dice.randint(1, TURNS_MAX // 10))
        self.running = self.producer.start(environ=self.environ)

    def through_kills(self) -> None:
        for _ in range(KILLS):
            self.load.wait_for(self.dice.randint(1, TURNS_MAX))
            self.start_again()


Change = Callable[[Stage], None]


def left_and_came_back(stage: Stage) -> None:
    stage.sql("ALTER PUBLICATION a DROP TABLE u")
    stage.through_kills()
    stage.sql("ALTER PUBLICATION a ADD TABLE u")


def left_operations_out_for_a_while(stage: Stage) -> None:
    stage.sql("ALTER PUBLICATION a SET (publish = 'insert')")
    stage.sql(f"ALTER PUBLICATION a {ALL_OPERATIONS}")


def left_operations_out_while_nobody_looked(stage: Stage) -> None:
    stage.running.kill()
    left_operations_out_for_a_while(stage)
    stage.running = stage.producer.start()


def was_made_again(stage: Stage) -> None:
    """The refusal says what to do, and it is done to the letter."""
    stage.sql("DROP PUBLICATION a; CREATE PUBLICATION a FOR TABLE t, u")
    stage.start_again()
    assert stage.running.exit_code() == 2
    assert COPY_ALL in stage.running.log
    assert copy_all(settings_of(stage.producer), wait=False, say=lambda line: None) == 0
    stage.running = stage.producer.start()


def was_dropped_and_is_named_no_more(stage: Stage) -> None:
    stage.set("postgres", publications=["a", "b", "c"])
    stage.through_kills()
    stage.set("postgres", publications=["a", "b"])
    stage.sql("DROP PUBLICATION c")


def has_another_name(stage: Stage) -> None:
    """The pipeline: it goes on from what it published under the one before."""
    stage.running.kill()
    of_before = stage.producer
    stage.producer = replace(of_before, name=f"{of_before.name}_b", _running=[])
    stage.producer.settings["postgres"]["slot"] = of_before.slot
    stage.environ = {"WALBRIDGE_FORMERLY": of_before.name}
    stage.running = stage.producer.start(environ=stage.environ)


def sql(statement: str) -> Change:
    return lambda stage: stage.sql(statement)


def setting(section: str, **values: object) -> Change:
    return lambda stage: stage.set(section, **values)


OF_ONE_TABLE: dict[str, tuple[Change, dict[str, str]]] = {
    "filter": (sql("ALTER PUBLICATION a SET TABLE t WHERE (id > 40), u"), {"public.t": "id > 40"}),
    "column list": (sql("ALTER PUBLICATION a SET TABLE t (id, v), u"), {}),
    "operations": (left_operations_out_for_a_while, {}),
    "operations, unseen": (left_operations_out_while_nobody_looked, {}),
    "generated columns": (sql("ALTER PUBLICATION a SET (publish_generated_columns = stored)"), {}),
    "table that comes": (sql("ALTER PUBLICATION b ADD TABLE late"), {}),
    "table that leaves and comes back": (left_and_came_back, {}),
    "table of two publications": (sql("ALTER PUBLICATION c ADD TABLE t; ALTER PUBLICATION b ADD TABLE late"), {}),
    "publication named in addition": (setting("postgres", publications=["a", "b", "c"]), {}),
    "publication named no more": (was_dropped_and_is_named_no_more, {}),
    "origin": (setting("postgres", origin="none"), {}),
}
OF_ALL_TABLES: dict[str, Change] = {
    "publication made again": was_made_again,
    "partitions": setting("topics", partitions=3),
    "name": has_another_name,
}


@pytest.fixture
def stage(producer: ProducerUnderTest) -> Stage:
    for table in TABLES:
        producer.database.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v int, w int, g int GENERATED ALWAYS AS (id + 1) STORED);"
            f"INSERT INTO {table} SELECT -i, i, 0 FROM generate_series(1, 2000) i"
        )
    producer.publish("t", "u", name="a")
    producer.publish("other", name="b")
    producer.publish("late", name="c")
    producer.settings |= {"postgres": {"publications": ["a", "b"]}, "producer": {"batch_rows_max": 100}}
    return Stage(producer, producer.start_streaming(), Four(producer), random.Random(fault_seed()))


def changed(stage: Stage, change: Change, filters: Mapping[str, str]) -> None:
    with stage.load as load:
        load.wait_for(20)
        change(stage)
        stage.through_kills()
        stage.running.wait_for_log("streaming")
        wait_until_current(stage.producer)
        load.wait_for(50)
    stage.producer.check_equal(filters=filters)
    assert stage.running.process.poll() is None, stage.running.log[-3000:]


@pytest.mark.parametrize(("change", "filters"), OF_ONE_TABLE.values(), ids=OF_ONE_TABLE)
def test_change_that_concerns_some_tables_leaves_all_equal_and_the_others_current(
    stage: Stage, change: Change, filters: dict[str, str]
) -> None:
    changed(stage, change, filters)

    with stage.producer.topics() as topics:
        kinds = [
            barrier.kind
            for cut in topics.cuts()
            for table in cut.tables
            for barrier in table.barriers
            if table.topic.endswith(".other") and barrier.kind != "shape"
        ]
    assert kinds == ONCE_COPIED


@pytest.mark.parametrize("change", OF_ALL_TABLES.values(), ids=OF_ALL_TABLES)
def test_change_that_concerns_all_tables_leaves_them_equal(stage: Stage, change: Change) -> None:
    changed(stage, change, {})
    stage.producer.kill_all()
