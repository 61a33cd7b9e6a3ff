"""A publication that is altered beneath a running stream, on each Postgres: what was left out is copied (I7, I8)."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.faults.followed import wait_until_current
from tests.faults.writer import Writer
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import others_in_soak
from tests.postgres_versions import MAJORS
from tests.wait import wait_until

pytestmark = pytest.mark.fault
IN_EACH_RUN = (17,)
FILTERS_SINCE = 15


class Three(Writer):
    """Writes to all three tables at once."""

    def write(self, connection: psycopg.Connection[object]) -> None:
        with connection.transaction():
            for table in ("t", "u", "late"):
                connection.execute(f"INSERT INTO {table} VALUES ({self.count}, 0)".encode())
                connection.execute(f"UPDATE {table} SET v = v + 1 WHERE id = {self.count // 2}".encode())


@pytest.mark.feature("publications altered while they are followed")
@pytest.mark.parametrize("major", others_in_soak(MAJORS, IN_EACH_RUN))
def test_tables_come_go_and_come_back_under_load_and_a_filter_changes(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """A transaction that wrote to the table before it came goes on writing to it afterwards."""
    producer = producer_on(major)
    execute = producer.database.execute
    for table in ("t", "u", "late"):
        execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)")
    producer.publish("t", "u")
    running = producer.start_streaming()

    def altered(statement: str, log: str) -> None:
        """And the producer said so once more."""
        before = running.log.count(log)
        execute(statement)
        habits.wait_for(20)
        wait_until(lambda: running.log.count(log) > before, f"{log!r} after {statement}")
        habits.wait_for(20)

    with Three(producer) as habits, producer.database.connect() as connection:
        habits.wait_for(20)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO late VALUES (-1, 0)")
        execute("ALTER PUBLICATION walbridge ADD TABLE late")
        connection.execute("INSERT INTO late VALUES (-2, 0)")
        habits.wait_for(20)
        connection.execute("COMMIT")
        wait_until(lambda: "table is copied" in running.log, "the table that came to be copied")
        habits.wait_for(20)
        altered("ALTER PUBLICATION walbridge DROP TABLE u", "left the publication")
        altered("ALTER PUBLICATION walbridge ADD TABLE u", "table is copied")
        if major >= FILTERS_SINCE:
            altered("ALTER PUBLICATION walbridge SET TABLE t WHERE (id > 40), u, late", "table is copied")
    wait_until_current(producer)
    producer.check_equal(filters={"public.t": "id > 40"} if major >= FILTERS_SINCE else None)
    assert running.process.poll() is None
