"""A table that no key orders is copied in one piece beside the stream, through load and kills (I1, I4, I7, I8)."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import psycopg
import pytest

from tests.faults.copies.test_table_copied import state_of
from tests.faults.copies.test_table_copied_again import ask_for_copy
from tests.faults.kill_points import WHOLE
from tests.faults.left_over import check_nothing_is_left
from tests.faults.seed import fault_seed
from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.topic_reader import Topics
from tests.wait import wait_until

pytestmark = pytest.mark.fault

VALUES = 40
MADE = """
    CREATE TABLE u (n int, v text);
    ALTER TABLE u ALTER v SET STORAGE EXTERNAL;
    ALTER TABLE u REPLICA IDENTITY FULL;
    INSERT INTO u SELECT i % 40, repeat('v', 2500) FROM generate_series(1, {rows}) i
"""
WITHOUT_ORDER = """
    CREATE TYPE strange;
    CREATE FUNCTION strange_in(cstring) RETURNS strange LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
    CREATE FUNCTION strange_out(strange) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
    CREATE TYPE strange (INPUT = strange_in, OUTPUT = strange_out, LIKE = int4);
    CREATE FUNCTION strange_cmp(strange, strange) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
    CREATE FUNCTION strange_lt(strange, strange) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
    CREATE OPERATOR < (LEFTARG = strange, RIGHTARG = strange, FUNCTION = strange_lt);
    CREATE OPERATOR CLASS strange_ops DEFAULT FOR TYPE strange USING btree
        AS OPERATOR 1 <, FUNCTION 1 strange_cmp(strange, strange)
"""
ONE_OF = "ctid = (SELECT ctid FROM u WHERE n = %s LIMIT 1)"


class Habits(Writer):
    """Writes to ``t`` and ``u`` until left: rows that equal others come, one of several equal ones goes or changes."""

    pause_s = 0.005

    def __init__(self, producer: ProducerUnderTest) -> None:
        super().__init__(producer)
        self._random = random.Random(fault_seed())

    def write(self, connection: psycopg.Connection[Any]) -> None:
        dice = self._random
        some, other = dice.randrange(VALUES), dice.randrange(VALUES)
        with connection.transaction():
            connection.execute("INSERT INTO t (v) VALUES (%s)", (self.count,))
            if dice.random() < 0.5:
                connection.execute("INSERT INTO u VALUES (%s, repeat('v', 2500))", (some,))
            if dice.random() < 0.5:
                connection.execute(f"DELETE FROM u WHERE {ONE_OF}", (other,))
            if dice.random() < 0.5:
                connection.execute(f"UPDATE u SET n = %s WHERE {ONE_OF}", (some, other))
            if dice.random() < 0.2:
                connection.execute(f"UPDATE u SET v = NULL WHERE {ONE_OF}", (other,))


def barriers(topics: Topics) -> list[str]:
    """Kinds of those of ``u``."""
    found = [b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers if t.topic.endswith(".u")]
    return [kind for kind in found if kind != "shape"]


@pytest.mark.variant(of="test_copy_in_one_piece_killed_at_every_point_begins_anew_and_loses_nothing")
def test_table_without_a_key_is_copied_while_all_are_written(following: ProducerUnderTest) -> None:
    following.settings["producer"] = {"batch_rows_max": 200}
    running = following.start_streaming()
    following.database.execute(MADE.format(rows=2000))
    with Habits(following) as habits:
        habits.wait_for(20)
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    following.check_equal()
    assert state_of(following, "u") == "current"
    assert "estimated_bytes" in next(line for line in running.log.splitlines() if "holds vacuum back" in line)
    with following.topics() as topics:
        kinds = barriers(topics)
        snapshots = Counter(
            event.source["snapshot"]
            for cut in topics.cuts()
            for event in topics.events(cut)
            if event.relation.table.name == "u" and event.position.ordinal < 0
        )
    assert kinds == ["copy_begin", "copy_end"]
    assert snapshots.keys() == {"first_in_data_collection", "incremental", "last_in_data_collection"}


OF_THIS_KIND_ALONE = tuple(point for point in WHOLE if point.startswith("whole:"))
"""The others are those of a copy in chunks too (``test_table_copied.py``)."""


@pytest.mark.parametrize("points", [OF_THIS_KIND_ALONE, in_soak(WHOLE)], ids=["of this kind alone", "all"])
def test_copy_in_one_piece_killed_at_every_point_begins_anew_and_loses_nothing(
    following: ProducerUnderTest, points: tuple[str, ...]
) -> None:
    """I1, I4: nothing is confirmed but what Kafka holds, or what the next copy reads."""
    following.settings["producer"] = {"batch_rows_max": 150}
    following.start_streaming().stop()
    following.database.execute(MADE.format(rows=1500))
    with Habits(following) as habits:
        for point in points:
            habits.wait_for(5)
            following.run_until_killed(point)
            with following.topics() as topics:
                topics.check_held(following.confirmed_lsn())
    running = following.start_streaming()
    following.check_equal()
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        without_beginning = {"chunk:before-begin", "chunk:ended"}  # before it, or with the end that another one needs
        begun = len(points) + 1 - len(without_beginning.intersection(points))
        assert barriers(topics) == ["copy_begin"] * begun + ["copy_end"]
    check_nothing_is_left(following, running)


@pytest.mark.variant(of="test_copy_in_one_piece_killed_at_every_point_begins_anew_and_loses_nothing")
def test_table_with_a_key_is_copied_while_one_without_is_read(following: ProducerUnderTest) -> None:
    """I4, I8: that may take hours. Both share the rate that is allowed, and the producer is killed meanwhile."""
    execute = following.database.execute
    following.settings["producer"] = {"batch_rows_max": 150, "copy_bytes_per_s": 800_000}
    following.start_streaming().stop()
    execute(MADE.format(rows=1500))
    execute("CREATE TABLE k (id int PRIMARY KEY, v text); INSERT INTO k SELECT i, 'v' FROM generate_series(1, 400) i")
    with Habits(following) as habits:
        following.run_until_killed("whole:rows:2")
        following.start_streaming()
        wait_until(lambda: state_of(following, "k") == "current", "the table with a key to be copied")
        assert state_of(following, "u") == "copying"
        habits.wait_for(10)
        execute("UPDATE k SET v = 'w' WHERE id < 200; DELETE FROM k WHERE id % 7 = 0")
        wait_until(lambda: state_of(following, "u") == "current", "the table without a key to be copied")
    following.check_equal()


@pytest.mark.variant(of="test_copy_in_one_piece_killed_at_every_point_begins_anew_and_loses_nothing")
def test_table_without_a_key_that_is_copied_again_is_equal_and_is_not_current_meanwhile(
    following: ProducerUnderTest,
) -> None:
    """I8: its changes come late, and what it had is void once it is copied."""
    following.settings["producer"] = {"batch_rows_max": 150}
    following.database.execute(MADE.format(rows=1500))
    running = following.start_streaming()
    with Habits(following) as habits:
        habits.wait_for(20)
        ask_for_copy(following, "u")
        running.wait_for_log("table is copied")
        habits.wait_for(20)
    following.check_equal()
    assert state_of(following, "u") == "current"
    with following.topics() as topics:
        assert barriers(topics) == ["copy_begin", "copy_end", "dropped", "copy_begin", "copy_end"]


@pytest.mark.variant(of="test_table_that_is_altered_and_emptied_while_it_is_copied_begins_again")
def test_table_that_is_emptied_and_altered_while_it_is_read_begins_again(following: ProducerUnderTest) -> None:
    """What is read is that of before, or nobody knows."""
    execute = following.database.execute
    running = following.start_streaming("whole:rows:2")
    following.settings["producer"] = {"batch_rows_max": 100}
    with following.database.connect() as connection:
        # In progress when the copy begins, however soon that is: its rows wait until it has ended.
        connection.execute("BEGIN; SELECT txid_current()")
        execute(MADE.format(rows=1000))
        connection.execute("INSERT INTO u VALUES (1, 'open')")
        running.wait_for_log("copy of a table waits")
        connection.execute("COMMIT")
    execute("TRUNCATE t, u; INSERT INTO u VALUES (1, 'one'), (1, 'one')")
    running.kill()
    following.run_until_killed("chunk:before-end")
    execute("ALTER TABLE u ADD w int DEFAULT 5; UPDATE u SET v = 'two' WHERE ctid = (SELECT min(ctid) FROM u)")
    running = following.start_streaming()
    execute("TRUNCATE u; INSERT INTO u VALUES (2, 'three', 4), (2, 'three', 4)")
    running.wait_for_log("table is copied")
    execute("DELETE FROM u WHERE ctid = (SELECT min(ctid) FROM u)")
    with following.topics() as topics:
        following.caught_up(topics)  # by then a table that was altered meanwhile is left, and copied again
    wait_until(lambda: state_of(following, "u") == "current", "the table to be current")
    following.check_equal()


def test_key_without_an_order_is_no_hindrance_where_old_rows_are_complete(following: ProducerUnderTest) -> None:
    """I3: rows and changes have their keys all the same. Where they are not, the remedy makes them so."""
    execute = following.database.execute
    execute(WITHOUT_ORDER)
    running = following.start_streaming()
    execute("CREATE TABLE u (id strange PRIMARY KEY, v text)")
    running.wait_for_log("the key of public.u has no order to read its rows by")
    (remedy,) = set(re.findall(r"(ALTER TABLE \S+ REPLICA IDENTITY FULL), or give", running.log))
    execute(remedy.replace("\\", ""))
    execute("INSERT INTO u SELECT i::text::strange, 'v' FROM generate_series(1, 500) i")
    running.wait_for_log("table is copied")
    execute("UPDATE u SET id = (id::text::int + 1000)::text::strange WHERE id < '20'")
    execute("DELETE FROM u WHERE id::text::int % 7 = 0; UPDATE u SET v = 'w'")
    following.check_equal()
    assert state_of(following, "u") == "current"
