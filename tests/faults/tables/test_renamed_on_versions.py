"""Tables and schemas that are renamed on each Postgres: until 16 the stream does not tell of a schema (I3, I7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.one_table import make_table
from tests.faults.tables.test_table_renamed import check_equal, wait_until_named
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import others_in_variants
from tests.postgres_versions import MAJORS

pytestmark = pytest.mark.fault
IN_EACH_RUN = (12,)
"""The newest has the tests of ``test_table_renamed.py``."""


@pytest.mark.parametrize("major", others_in_variants(MAJORS, IN_EACH_RUN))
def test_tables_of_a_renamed_schema_go_on_in_their_topics(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """One transaction writes before and after; another table is written to later, and read again after a restart."""
    producer = producer_on(major)
    database = producer.database
    make_table(producer)
    database.execute("CREATE SCHEMA s; CREATE TABLE s.u (id int PRIMARY KEY); CREATE TABLE s.v (id int PRIMARY KEY)")
    producer.publish("t", "s.u", "s.v")
    running = producer.start_streaming()
    database.execute("INSERT INTO s.u VALUES (1); INSERT INTO s.v VALUES (1)")
    with database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO s.u VALUES (2)")
        database.execute("ALTER SCHEMA s RENAME TO r; ALTER TABLE t RENAME TO w")
        connection.execute("INSERT INTO r.u VALUES (3)")
    for name in ("r.u", "r.v", "public.w"):
        wait_until_named(producer, name)
    database.execute("INSERT INTO r.u VALUES (4); INSERT INTO r.v VALUES (4); INSERT INTO w VALUES (4)")
    wanted = {"public.w": "public.t", "r.u": "s.u", "r.v": "s.v"}
    assert check_equal(producer) == wanted
    running.kill()
    database.execute("INSERT INTO r.u VALUES (5); INSERT INTO w VALUES (5)")
    producer.start_streaming()
    assert check_equal(producer) == wanted
