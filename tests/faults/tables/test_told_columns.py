"""Where DDL is told, columns are known by their numbers whenever the producer reads it: no value that was kept costs a
copy (I8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.faults.tables.test_ddl_told import tell, wait_for_copies
from tests.faults.tables.test_unsaid_rows import act, check_copied
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, in_variants

pytestmark = pytest.mark.fault

NEWEST = 0
AGAIN = "ALTER TABLE {0} DROP a; ALTER TABLE {0} ADD a int"
TOLD = {
    "made again between rows": f"UPDATE {{0}} SET a = 70 WHERE id = 2; {AGAIN}; UPDATE {{0}} SET a = 71 WHERE id = 3",
    "made again with a value": f"UPDATE {{0}} SET a = 70 WHERE id = 2; {AGAIN} DEFAULT 7;INSERT INTO {{0}} VALUES (20)",
    "made again in one command": "UPDATE {0} SET a = 70 WHERE id = 2; ALTER TABLE {0} DROP a, ADD a int DEFAULT 9;"
    "UPDATE {0} SET v = 'later' WHERE id = 3",
    "made again among rows": "BEGIN; UPDATE {0} SET a = 10 WHERE id = 1; ALTER TABLE {0} DROP a;"
    "UPDATE {0} SET v = 'between' WHERE id = 2; ALTER TABLE {0} ADD a int; UPDATE {0} SET a = 30 WHERE id = 3;"
    "ALTER TABLE {0} DROP a; ALTER TABLE {0} ADD a int DEFAULT 7; INSERT INTO {0} (id) VALUES (20); COMMIT",
    "made again in a table that rests": f"{AGAIN} DEFAULT 7",
    "made again after a savepoint": f"BEGIN; UPDATE {{0}} SET a = 1 WHERE id = 1; SAVEPOINT s; {AGAIN} DEFAULT 8;"
    f"UPDATE {{0}} SET a = 2 WHERE id = 2; ROLLBACK TO s; UPDATE {{0}} SET a = 3 WHERE id = 3; {AGAIN} DEFAULT 9;"
    "UPDATE {0} SET v = 'end' WHERE id = 4; COMMIT",
    "swapped": "UPDATE {0} SET a = 70 WHERE id = 2; BEGIN; ALTER TABLE {0} RENAME a TO c;"
    "ALTER TABLE {0} RENAME b TO a; ALTER TABLE {0} RENAME c TO b; COMMIT; UPDATE {0} SET a = 71 WHERE id = 3",
    "swapped and dropped": "UPDATE {0} SET a = 70 WHERE id = 2; ALTER TABLE {0} RENAME a TO c;"
    "ALTER TABLE {0} RENAME b TO a; UPDATE {0} SET a = 71 WHERE id = 3; ALTER TABLE {0} DROP c;"
    "ALTER TABLE {0} ADD b int; UPDATE {0} SET b = 72 WHERE id = 4",
    "a value that is gone": "ALTER TABLE {0} ADD x int DEFAULT 5; UPDATE {0} SET a = 70 WHERE id = 2;"
    "ALTER TABLE {0} DROP x; UPDATE {0} SET a = 71 WHERE id = 3",
    "a value under another name": "ALTER TABLE {0} ADD x int DEFAULT 5; UPDATE {0} SET a = 70 WHERE id = 2;"
    "ALTER TABLE {0} RENAME x TO y; ALTER TABLE {0} ALTER y SET DEFAULT 6; INSERT INTO {0} (id) VALUES (20);"
    "ALTER TABLE {0} RENAME a TO x; UPDATE {0} SET x = 71 WHERE id = 3",
    "a value of another type": "ALTER TABLE {0} ADD x varchar(5) DEFAULT 'five'; UPDATE {0} SET a = 70 WHERE id = 2;"
    "ALTER TABLE {0} ALTER x TYPE varchar(9); UPDATE {0} SET x = 'six' WHERE id = 3",
    "a migration": "ALTER TABLE {0} ADD a_new bigint; UPDATE {0} SET a_new = a WHERE id < 5;"
    "UPDATE {0} SET a_new = a WHERE id >= 5; BEGIN; ALTER TABLE {0} RENAME a TO a_old;"
    "ALTER TABLE {0} RENAME a_new TO a; COMMIT; UPDATE {0} SET a = 80 WHERE id = 2; ALTER TABLE {0} DROP a_old;"
    "UPDATE {0} SET a = 81 WHERE id = 3",
}
OF_ROOTS = ("made again between rows", "made again with a value", "made again among rows", "swapped", "a migration")
UNTOLD = {
    "made again while nothing told it": "UPDATE {0} SET a = 70 WHERE id = 2;"
    f"ALTER EVENT TRIGGER walbridge_ddl_end DISABLE; {AGAIN}; UPDATE {{0}} SET a = 71 WHERE id = 3;"
    "ALTER EVENT TRIGGER walbridge_ddl_end ENABLE ALWAYS; UPDATE {0} SET a = 72 WHERE id = 4",
    "made again untold, then altered": "UPDATE {0} SET a = 70 WHERE id = 2;"
    f"ALTER EVENT TRIGGER walbridge_ddl_end DISABLE; {AGAIN}; UPDATE {{0}} SET a = 71 WHERE id = 3;"
    "ALTER EVENT TRIGGER walbridge_ddl_end ENABLE ALWAYS; ALTER TABLE {0} ALTER a SET DEFAULT 5;"
    "UPDATE {0} SET a = 72 WHERE id = 4",
}


LABELLED = {
    "a new label as value": ("", False),
    "a new label as value, renamed since": ("ALTER TYPE {0}_e RENAME VALUE 'late' TO 'later';", True),
    "a new label as value, whose name another one has": (
        "ALTER TYPE {0}_e RENAME VALUE 'late' TO 'later'; ALTER TYPE {0}_e ADD VALUE 'late';",
        True,
    ),
}


def followed(producer: ProducerUnderTest, names: list[str]) -> None:
    for name in names:
        producer.database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, a int, b int, v text);"
            f"INSERT INTO {name} SELECT i, i, -i, 'v' || i FROM generate_series(1, 9) i"
        )
    tell(producer.database)
    producer.publish(*names)


ON_OLDEST_AND_NEWEST = pytest.mark.parametrize(
    ("major", "how"),
    [in_variants(12, "stopped"), (NEWEST, "stopped"), in_soak(12, "running"), in_soak(NEWEST, "running")],
)


def check_acts(producer: ProducerUnderTest, acts: Mapping[str, str], how: str, *, are_copied: bool | None) -> None:
    """Each in a table of its own. ``are_copied``: None where that depends on when the producer looks."""
    tables = {f"t{number}": what for number, what in enumerate(acts)}
    followed(producer, [*tables])
    running = producer.start_streaming()
    producer.database.execute("UPDATE t0 SET v = 'first' WHERE id = 1")
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, what in tables.items():
        act(producer, acts[what].replace("{0}", name))
    if how == "stopped":
        running = producer.start_streaming()
    if are_copied is not None:
        check_copied(producer, running, dict.fromkeys(tables, are_copied))
    for name in tables:
        producer.database.execute(f"UPDATE {name} SET v = 'end' WHERE id < 3; DELETE FROM {name} WHERE id = 5")
    producer.check_equal()


@ON_OLDEST_AND_NEWEST
def test_columns_are_followed_by_their_numbers_where_they_are_told(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, how: str
) -> None:
    check_acts(producer_on(major) if major else producer, TOLD, how, are_copied=False)


@ON_OLDEST_AND_NEWEST
def test_table_with_a_column_that_was_added_and_not_told_is_copied(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, how: str
) -> None:
    """I8. A producer that runs may look in time, and then need no copy."""
    are_copied = True if how == "stopped" else None
    check_acts(producer_on(major) if major else producer, UNTOLD, how, are_copied=are_copied)


TYPE_ALTERED = (
    "UPDATE t SET a = 70 WHERE id = 2; ALTER TYPE t_t DROP ATTRIBUTE a CASCADE;"
    "ALTER TYPE t_t ADD ATTRIBUTE a int CASCADE; UPDATE t SET a = 71 WHERE id = 3;"
)
OF_TYPES = {
    "altered by its type": "UPDATE t SET a = 72 WHERE id = 4",
    "altered once more as it left its type": "BEGIN; ALTER TABLE t NOT OF; ALTER TABLE t ALTER a SET DEFAULT 5; COMMIT;"
    "UPDATE t SET a = 72 WHERE id = 4",
}


@pytest.mark.variant(of="test_columns_are_followed_by_their_numbers_where_they_are_told")
@pytest.mark.parametrize("left", OF_TYPES)
@pytest.mark.parametrize("major", [in_soak(12), NEWEST])
def test_columns_that_a_table_gets_by_its_type_are_followed_by_their_numbers(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, left: str
) -> None:
    producer = producer_on(major) if major else producer
    producer.database.execute(
        "CREATE TYPE t_t AS (id int, v text, a int); CREATE TABLE t OF t_t (PRIMARY KEY (id));"
        "INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 9) i"
    )
    tell(producer.database)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("UPDATE t SET v = 'first' WHERE id = 1")
    producer.check_equal()
    running.stop()
    act(producer, TYPE_ALTERED + OF_TYPES[left])
    running = producer.start_streaming()
    check_copied(producer, running, {"t": False})


@pytest.mark.variant(of="test_table_with_a_column_that_was_added_and_not_told_is_copied")
def test_table_whose_older_rows_have_a_label_that_was_renamed_before_a_look_is_copied(
    producer: ProducerUnderTest,
) -> None:
    """I8: the row that tells the value has the label's first name."""
    tables = {f"t{number}": each for number, each in enumerate(LABELLED.values())}
    for name in tables:
        producer.database.execute(
            f"CREATE TYPE {name}_e AS ENUM ('sad'); CREATE TABLE {name} (id int PRIMARY KEY, v {name}_e);"
            f"INSERT INTO {name} VALUES (1, 'sad'), (2, NULL)"
        )
    tell(producer.database)
    producer.publish(*tables)
    running = producer.start_streaming()
    producer.database.execute("UPDATE t0 SET v = NULL WHERE id = 1")
    producer.check_equal()
    running.stop()
    for name, (renamed, _) in tables.items():
        added = f"ALTER TABLE {name} ADD w {name}_e DEFAULT 'late'; INSERT INTO {name} VALUES (3, 'sad', 'sad');"
        act(producer, f"ALTER TYPE {name}_e ADD VALUE 'late'; {added}{renamed.format(name)}".rstrip(";"))
    running = producer.start_streaming()
    check_copied(producer, running, {name: is_copied for name, (_, is_copied) in tables.items()})


@pytest.mark.variant(of="test_columns_are_followed_by_their_numbers_where_they_are_told")
def test_columns_of_partitions_are_followed_by_those_of_their_root(producer: ProducerUnderTest) -> None:
    """Each partition has numbers of its own; the values of older rows are theirs."""
    roots = {f"r{number}": what for number, what in enumerate(OF_ROOTS)}
    for name in roots:
        producer.database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, x int, a int, b int, v text) PARTITION BY RANGE (id);"
            f"ALTER TABLE {name} DROP x; CREATE TABLE {name}_1 (v text, id int PRIMARY KEY, b int, y int, a int);"
            f"ALTER TABLE {name}_1 DROP y; ALTER TABLE {name} ATTACH PARTITION {name}_1 FOR VALUES FROM (0) TO (5);"
            f"CREATE TABLE {name}_2 PARTITION OF {name} DEFAULT;"
            f"INSERT INTO {name} SELECT i, i, -i, 'v' || i FROM generate_series(1, 9) i"
        )
    tell(producer.database)
    producer.publish(*roots, options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    producer.database.execute("UPDATE r0 SET v = 'first' WHERE id = 1")
    producer.check_equal()
    running.stop()
    for name, what in roots.items():
        act(producer, TOLD[what].replace("{0}", name))
    running = producer.start_streaming()
    check_copied(producer, running, dict.fromkeys(roots, False))
    for name in roots:
        producer.database.execute(f"UPDATE {name} SET v = 'end' WHERE id IN (2, 8); DELETE FROM {name} WHERE id = 5")
    producer.check_equal()


@pytest.mark.variant(of="test_columns_are_followed_by_their_numbers_where_they_are_told")
def test_columns_are_followed_by_number_after_a_restart_at_any_place(producer: ProducerUnderTest) -> None:
    """What the stream told before a kill is remembered with the cut that it came before."""
    followed(producer, ["t"])
    running = producer.start_streaming()
    for number in range(4):
        producer.database.execute(f"UPDATE t SET a = {number} WHERE id = 2")
        producer.check_equal()
        running.kill()
        act(producer, AGAIN.format("t") + f" DEFAULT {number}; UPDATE t SET v = 'again' WHERE id = 3")
        running = producer.start_streaming()
        act(producer, "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b")
    check_copied(producer, running, {"t": False})


@pytest.mark.variant(of="test_trigger_that_tells_nothing_leaves_a_rewrite_to_the_looks")
def test_earlier_trigger_that_tells_no_columns_leaves_them_to_the_catalogue(producer: ProducerUnderTest) -> None:
    followed(producer, ["t"])
    producer.database.execute(
        "CREATE OR REPLACE FUNCTION walbridge.tell_columns(relation bigint, first_xid bigint, "
        "own_xids bigint, tag text) RETURNS void LANGUAGE sql AS ''"
    )
    running = producer.start_streaming()
    producer.database.execute("UPDATE t SET a = 1 WHERE id = 1")
    producer.check_equal()
    running.stop()
    act(producer, "UPDATE t SET a = 70 WHERE id = 2; " + AGAIN.format("t") + "; UPDATE t SET a = 71 WHERE id = 3")
    running = producer.start_streaming()
    wait_for_copies(running)
    check_copied(producer, running, {"t": True})
