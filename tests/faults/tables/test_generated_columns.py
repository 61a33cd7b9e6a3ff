"""Generated columns that become plain ones, and are published since: what rows hold in them was never sent (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.tables.test_table_trouble import barriers_of
from tests.faults.tables.test_unsaid_rows import act, check_copied
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from walbridge.producer.postgres.storage.table_files import LISTS_SINCE

pytestmark = pytest.mark.fault

COLUMNS = "(id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n * 2) STORED)"
DROPPED = "ALTER TABLE {0} ALTER g DROP EXPRESSION"
WRITTEN = "INSERT INTO {0} VALUES (3, 7, 1); UPDATE {0} SET n = 8 WHERE id = 1"
ACTS = {
    "written": f"{DROPPED}; {WRITTEN}",
    "at_once": f"BEGIN; {DROPPED}; {WRITTEN}; COMMIT",
    "quiet": DROPPED,
    "root": DROPPED,
    "root_written": f"{DROPPED}; {WRITTEN}",
}
FREE = {
    "gone": "ALTER TABLE {0} DROP g; INSERT INTO {0} VALUES (3, 7)",
    "plain_and_gone": f"BEGIN; {DROPPED}; ALTER TABLE {{0}} DROP g; COMMIT; INSERT INTO {{0}} VALUES (3, 7)",
    "still": "ALTER TABLE {0} ADD c int; INSERT INTO {0} (id, n, c) VALUES (3, 7, 7)",
}
"""These cost no copy."""


def make(producer: ProducerUnderTest, name: str) -> None:
    parted = name.startswith("root")
    below = f"CREATE TABLE {name}_a PARTITION OF {name} DEFAULT" if parted else "SELECT 1"
    by = "PARTITION BY RANGE (id)" if parted else ""
    act(producer, f"CREATE TABLE {name} {COLUMNS} {by}; {below}; INSERT INTO {name} VALUES (1, 5), (2, 6)")


@pytest.mark.variant(of="test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not")
@pytest.mark.parametrize(
    ("major", "how"), [in_soak(13, "running"), (0, "stopped"), in_soak(13, "stopped"), in_soak(0, "running")]
)
def test_table_with_a_column_that_is_generated_no_more_is_copied_again(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int, how: str
) -> None:
    """No row, file or number of a column is another one then. A table that nobody writes goes wrong, too."""
    producer = producer_on(major) if major else producer
    acts = ACTS | FREE
    for name in [*acts, "listed"]:
        make(producer, name)
    with producer.database.connect() as connection:
        has_lists = connection.info.server_version >= LISTS_SINCE
    if has_lists:
        acts |= {"listed": f"{DROPPED}; {WRITTEN}"}
    published = [*(acts.keys() - {"listed"}), "listed (id, n)" if has_lists else "listed"]
    producer.publish(*published, options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, statements in acts.items():
        act(producer, statements.format(name))
    if how == "stopped":
        running = producer.start_streaming()
    check_copied(producer, running, {name: name in ACTS for name in acts})
    for name in ACTS:
        assert barriers_of(producer, name) == ["dropped", "copy_begin", "copy_end"]
    for name in ACTS:
        act(producer, f"UPDATE {name} SET g = 9 WHERE id = 2")
    producer.check_equal()
    assert running.log.count("table is copied") == len(ACTS)


@pytest.mark.variant(of="test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not")
def test_table_whose_generated_columns_are_published_is_not_copied_when_one_becomes_plain(
    producer: ProducerUnderTest,
) -> None:
    """Each value came with its row."""
    for name in ("a", "b"):
        make(producer, name)
    producer.publish("a", "b (id, n, g)", options="WITH (publish_generated_columns = stored)")
    running = producer.start_streaming()
    producer.check_equal()
    for name in ("a", "b"):
        act(producer, f"{DROPPED}; {WRITTEN}".format(name))
    producer.check_equal()
    check_copied(producer, running, {"a": False, "b": False})
