"""A label that came and was renamed while nobody looked has its table copied again, one that only came has not (I8)."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.faults.tables.test_unsaid_rows import act, check_copied
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak

pytestmark = pytest.mark.fault

TABLE = """
    CREATE TYPE {0}_e AS ENUM ('sad', 'ok'); CREATE DOMAIN {0}_d AS {0}_e; CREATE TYPE {0}_c AS (n int, e {0}_e[]);
    CREATE TYPE {0}_r AS RANGE (subtype = {0}_e);
    CREATE TABLE {0} (id int PRIMARY KEY, v {1}); INSERT INTO {0} VALUES (1, {2}), (2, NULL)"""
COLUMNS = {"enum": ("{0}_e", "'ok'", "'late'"), "domain": ("{0}_d", "'ok'", "'late'")}
COLUMNS |= {"array": ("{0}_e[]", "'{{ok,sad}}'", "'{{ok,late}}'")}
WITHIN = {
    "matrix": ("{0}_e[]", "'{{{{ok}},{{sad}}}}'", "'{{{{ok}},{{late}}}}'"),
    "composite": ("{0}_c", "ROW(1, '{{ok}}')", "ROW(2, '{{sad,late}}')"),
    "range": ("{0}_r", "'[sad,ok)'", "'[ok,late]'"),
    "several": ("{0}_r_multirange", "'{{(,sad],(ok,)}}'", "'{{[ok,late]}}'"),
}
USED = "ALTER TYPE {0}_e ADD VALUE 'late'; UPDATE {0} SET v = {1} WHERE id = 1; INSERT INTO {0} VALUES (3, {1})"
ACTS = {
    "came": (USED, False),
    "came and was renamed": (f"{USED}; ALTER TYPE {{0}}_e RENAME VALUE 'late' TO 'later'", True),
    "came and was renamed before its rows": (
        "ALTER TYPE {0}_e ADD VALUE 'later'; ALTER TYPE {0}_e RENAME VALUE 'later' TO 'late'; "
        "UPDATE {0} SET v = {1} WHERE id = 1",
        False,
    ),
    "came to another label's name": (
        f"{USED}; ALTER TYPE {{0}}_e RENAME VALUE 'late' TO 'later'; ALTER TYPE {{0}}_e ADD VALUE 'latest'; "
        "DELETE FROM {0} WHERE id = 3",
        True,
    ),
}

TAKEN = (
    f"{USED}; ALTER TYPE {{0}}_e RENAME VALUE 'late' TO 'later'; ALTER TYPE {{0}}_e ADD VALUE 'late'",
    True,
)


@pytest.mark.variant(of="test_columns_that_print_names_are_told_and_copied_again_after_a_rename")
@pytest.mark.parametrize("binary", [in_soak(False), True])
def test_label_that_came_and_was_renamed_while_nobody_looked_has_its_table_copied_again(
    producer: ProducerUnderTest, *, binary: bool
) -> None:
    producer.settings["postgres"] = {"binary": binary}
    columns = {name: each for name, each in COLUMNS.items() if not (binary and name == "array")}
    cases = {f"t{n}_{column}": (column, what) for n, what in enumerate(ACTS) for column in columns}
    for name, (column, _) in cases.items():
        of, value, _ = COLUMNS[column]
        producer.database.execute(TABLE.format(name, of.format(name), value.format()))
    producer.publish(*cases)
    running = producer.start_streaming()
    producer.check_equal()
    running.stop()
    for name, (column, what) in cases.items():
        act(producer, ACTS[what][0].format(name, COLUMNS[column][2].format()))
    running = producer.start_streaming()
    check_copied(producer, running, {name: ACTS[what][1] for name, (_, what) in cases.items()})
    for name in cases:
        producer.database.execute(f"UPDATE {name} SET id = id + 10")
    producer.check_equal()


@pytest.mark.variant(of="test_columns_that_print_names_are_told_and_copied_again_after_a_rename")
@pytest.mark.parametrize("binary", [False, in_soak(True)])
def test_label_that_came_and_was_renamed_in_the_moment_between_two_looks_has_its_table_copied_again(
    producer: ProducerUnderTest, *, binary: bool
) -> None:
    """Its rows came before any look at the label, and no later look tells of the name that they have."""
    producer.settings["postgres"] = {"binary": binary}
    acts = {"came": ACTS["came"], "renamed": ACTS["came and was renamed"], "named": TAKEN}
    cases = {f"{what}_{column}": (column, what) for what in acts for column in ("domain", *WITHIN)}
    columns = COLUMNS | WITHIN
    for name, (column, _) in cases.items():
        of, value, _ = columns[column]
        producer.database.execute(TABLE.format(name, of.format(name), value.format()))
    producer.publish(*cases)
    running = producer.start_streaming()
    producer.check_equal()
    running.process.send_signal(signal.SIGSTOP)
    try:
        for name, (column, what) in cases.items():
            act(producer, acts[what][0].format(name, columns[column][2].format()))
    finally:
        running.process.send_signal(signal.SIGCONT)
    check_copied(producer, running, {name: acts[what][1] for name, (_, what) in cases.items()})


@pytest.mark.variant(of="test_columns_that_print_names_are_told_and_copied_again_after_a_rename")
@pytest.mark.parametrize("major", [in_soak(12), 0])
def test_name_that_went_to_another_label_while_who_had_used_it_stayed_open_has_its_table_copied_again(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """Looks found the name with each of the two labels in its time, and a copy showed the second one."""
    producer = producer_on(major) if major else producer
    database = producer.database
    database.execute(TABLE.format("t", "t_e", "'ok'") + "; CREATE TABLE other (id int PRIMARY KEY)")
    producer.publish("t", "other")
    producer.start_streaming()
    producer.check_equal()
    act(producer, "ALTER TYPE t_e ADD VALUE 'late'")
    with database.connect() as open_before:
        open_before.execute(b"BEGIN; INSERT INTO t VALUES (10, 'late')")
        for number, statement in enumerate(("RENAME VALUE 'late' TO 'later'", "ADD VALUE 'late'")):
            database.execute(f"INSERT INTO other VALUES ({number})")
            producer.check_equal()
            act(producer, f"ALTER TYPE t_e {statement}")
        database.execute("INSERT INTO other VALUES (9); INSERT INTO t VALUES (20, 'late')")
        producer.check_equal()
        open_before.execute(b"COMMIT")
    producer.check_equal()
