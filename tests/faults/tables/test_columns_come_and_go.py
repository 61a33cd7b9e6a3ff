"""Columns that come and go under one name, or are called otherwise: a table called current equals its source (I8)."""

from __future__ import annotations

import pytest

from tests.faults.tables.test_table_trouble import barriers_of, states
from tests.faults.tables.test_unsaid_rows import act
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, others_in_variants
from tests.wait import wait_until

pytestmark = pytest.mark.fault

CAME = "ALTER TABLE t ADD c int; INSERT INTO t SELECT i, 'new', i FROM generate_series(11, 15) i"
REPLACED = {
    "dropped and added": "BEGIN; ALTER TABLE t DROP c; ALTER TABLE t ADD c int; COMMIT",
    "another took its name": "BEGIN; ALTER TABLE t ADD x int; ALTER TABLE t RENAME c TO y; ALTER TABLE t RENAME x TO c;"
    "ALTER TABLE t DROP y; COMMIT",
}


@pytest.mark.parametrize("how", [in_soak("running"), "stopped"])
@pytest.mark.parametrize("replaced", others_in_variants(REPLACED, ["another took its name"]))
def test_column_that_came_and_was_replaced_before_anybody_looked(
    producer: ProducerUnderTest, replaced: str, how: str
) -> None:
    """The catalogue knows the second one only, and what the stream tells of both is byte for byte the same."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    producer.database.execute("INSERT INTO t SELECT i, 'a' FROM generate_series(1, 10) i")
    producer.publish("t")
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    act(producer, f"{CAME}; {REPLACED[replaced]}")
    act(producer, "INSERT INTO t VALUES (16, 'newer', 16)")
    if how == "stopped":
        producer.start_streaming()
    wait_until(lambda: "copy_end" in barriers_of(producer, "t"), "the table to be copied again")
    wait_until(lambda: states(producer) == {"current"}, "it to be current")
    producer.check_equal()


QUIET = {
    "added": "ALTER TABLE {0} ADD d int",
    "dropped": "ALTER TABLE {0} DROP b",
    "renamed": "ALTER TABLE {0} RENAME b TO d",
    "swapped": "ALTER TABLE {0} RENAME a TO d; ALTER TABLE {0} RENAME b TO a; ALTER TABLE {0} RENAME d TO b",
    "of another type": "ALTER TABLE {0} DROP b; ALTER TABLE {0} ADD b bool",
    "longer": "ALTER TABLE {0} ALTER b TYPE varchar(20)",
    "renamed and dropped": "ALTER TABLE {0} DROP a; ALTER TABLE {0} RENAME b TO a",
}


@pytest.mark.variant(of="test_column_that_came_and_was_replaced_before_anybody_looked")
@pytest.mark.parametrize("how", [in_soak("running"), "stopped"])
def test_columns_of_a_table_that_nobody_writes_are_those_of_the_source(producer: ProducerUnderTest, how: str) -> None:
    """Without a change no Relation comes, and names would be those of other columns' values. No table is copied."""
    tables = {f"t{number}": statements for number, statements in enumerate(QUIET.values())}
    for name in tables:
        producer.database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, a text, b varchar(10)); INSERT INTO {name} VALUES (1, 'a', 'b')"
        )
    producer.publish(*tables)
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, statements in tables.items():
        # In one transaction: a look between two statements would tell of the table twice.
        producer.database.execute(statements.format(name))
    if how == "stopped":
        running = producer.start_streaming()
    wait_until(lambda: running.log.count("table is altered") == len(tables), "the columns to be told")
    producer.check_equal()
    assert {name: barriers_of(producer, name) for name in tables} == {name: [] for name in tables}
    for name in tables:
        producer.database.execute(f"INSERT INTO {name} (id) VALUES (2); UPDATE {name} SET id = 3 WHERE id = 1")
    producer.check_equal()


@pytest.mark.variant(of="test_column_that_came_and_was_replaced_before_anybody_looked")
def test_table_that_was_altered_and_dropped_unread_is_not_current_before_its_drop(producer: ProducerUnderTest) -> None:
    """Nobody knows any more which column a value was of. It is not copied, and the others flow."""
    producer.settings["producer"] = {"batch_rows_max": 2}
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    running = producer.start_streaming()
    producer.check_equal()
    running.stop()
    act(producer, f"{CAME}; {REPLACED['dropped and added']}; ALTER TABLE t ALTER c TYPE int USING -c")
    for number in range(5):
        act(producer, f"INSERT INTO t VALUES ({20 + number}, 'b', 1); INSERT INTO u VALUES ({number})")
    act(producer, "DROP TABLE t; INSERT INTO u VALUES (9)")
    with producer.topics() as topics:
        known = len(topics.cuts())
    running = producer.start_streaming()
    wait_until(lambda: states(producer) == {"current", "dropped"}, "it to be left")
    producer.database.execute("INSERT INTO u VALUES (10)")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert {row["id"] for row in topics.replay().rows("public", "u")} == {*range(5), 9, 10}
        told = [[each.topic.rpartition(".")[2] for each in cut.tables] for cut in topics.cuts()[known:] if cut.complete]
    assert sum("t" in tables for tables in told) == 1, "the cut that says so is the last one"
    assert barriers_of(producer, "t") == ["dropped"]
    assert "table is copied" not in running.log
